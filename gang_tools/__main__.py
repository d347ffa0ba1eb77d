"""`python -m gang_tools`, the same as `gang-extender`."""

from gang_tools.cli.main import main

if __name__ == "__main__":
    main()
