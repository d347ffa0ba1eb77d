"""Manifests as tests read them: each text is parsed once."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

Object = dict[str, Any]

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C is ten times as fast, where there is one; our CRDs have thousands of lines."""


def documents(path: Path) -> list[Object]:
    """Return the documents of a file that are not empty, which are only to be read."""
    return parsed(path.read_text())


@cache
def parsed(text: str) -> list[Object]:
    """Return the documents of a text that are not empty, which are only to be read."""
    return [each for each in yaml.load_all(text, _LOADER) if each]
