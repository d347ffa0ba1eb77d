"""The extender with little patience for victims: they have two seconds beyond their grace."""

from extender.gang import preempt
from gang_tools.cli.main import main

if __name__ == "__main__":
    vars(preempt)["PATIENCE_SECONDS"] = 2.0
    main()
