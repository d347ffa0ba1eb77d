"""The files that are shipped inside the package, as `pyproject.toml` puts them there."""

from pathlib import Path
from typing import Any, Final

import yaml

_PACKAGE: Final = Path(__file__).parents[1]
# The loader in C is ten times as fast, where there is one; the CRDs have thousands of lines.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def manifests(part: str) -> list[dict[str, Any]]:
    """Return the objects of a file, or of the files of a folder, of `manifests/`."""
    found = _find(f"manifests/{part}")
    files = sorted(found.glob("*.yaml")) if found.is_dir() else [found]
    texts = (file.read_text(encoding="utf-8") for file in files)
    return [each for text in texts for each in yaml.load_all(text, _LOADER) if each]


def text(path: str) -> str:
    """Return the text of a file, by its path in a checkout."""
    return _find(path).read_text(encoding="utf-8")


def _find(path: str) -> Path:
    places = (_PACKAGE / path, _PACKAGE.parent / path)
    return next(place for place in places if place.exists())  # the second one in a checkout
