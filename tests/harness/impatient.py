"""The extender with little patience for victims: they have two seconds beyond their grace."""

from extender.cli.main import main
from extender.gang.preempt import nominate

if __name__ == "__main__":
    vars(nominate)["PATIENCE_SECONDS"] = 2.0
    main()
