"""The files that are shipped inside the package, as `pyproject.toml` puts them there."""

from pathlib import Path
from typing import Any, Final

import yaml

_PACKAGE: Final = Path(__file__).parents[1]


def manifests(part: str) -> list[dict[str, Any]]:
    """Return the objects of a file, or of the files of a folder, of `manifests/`."""
    found = _find(f"manifests/{part}")
    files = sorted(found.glob("*.yaml")) if found.is_dir() else [found]
    return [each for file in files for each in yaml.safe_load_all(file.read_text()) if each]


def text(path: str) -> str:
    """Return the text of a file, by its path in a checkout."""
    return _find(path).read_text(encoding="utf-8")


def _find(path: str) -> Path:
    places = (_PACKAGE / path, _PACKAGE.parent / path)
    return next(place for place in places if place.exists())  # the second one in a checkout
