"""The manifests that are shipped inside the package, as `pyproject.toml` puts them there."""

from pathlib import Path
from typing import Any, Final

import yaml

_PACKAGE: Final = Path(__file__).parents[1]


def manifests(part: str) -> list[dict[str, Any]]:
    """Return the objects of a file, or of the files of a folder, of `manifests/`."""
    found = next(
        path
        for path in (_PACKAGE / "manifests" / part, _PACKAGE.parent / "manifests" / part)
        if path.exists()  # the second one in a checkout
    )
    files = sorted(found.glob("*.yaml")) if found.is_dir() else [found]
    return [each for file in files for each in yaml.safe_load_all(file.read_text()) if each]
