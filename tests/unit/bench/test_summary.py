"""The one line of a case."""
