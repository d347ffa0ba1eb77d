"""The extender with all the time that the pods of a gang need until they have been created."""

from extender.permit import ahead
from gang_tools.cli.main import main

if __name__ == "__main__":
    vars(ahead).update(MOMENT_SECONDS=300.0, SPARED_SECONDS=300.0, REST=0)
    main()
