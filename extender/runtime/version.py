"""Which version of gang-extender this is: that of the installed package, from the git tag."""

from importlib.metadata import version as _version_of


def version() -> str:
    """Return the version, as `0.1.0`, or `0.1.0.post1.dev7` between two releases."""
    return _version_of("gang-extender")
