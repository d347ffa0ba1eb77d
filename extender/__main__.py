"""`python -m extender`, the same as `gang-extender`."""

from extender.cli.main import main

if __name__ == "__main__":
    main()
