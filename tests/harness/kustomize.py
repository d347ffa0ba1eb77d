"""As much of `kubectl kustomize` as the manifests use, so that tests apply what it would.

Resources (files and folders), images, and patches with a target: JSON patches of `test`, `add`
(also to the end of a list) and `replace`, or one that deletes. As with kubectl a file is in or
below its kustomization's folder, and a folder that is named is neither this one nor one above it.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.harness.manifests import documents

Object = dict[str, Any]

FILE = "kustomization.yaml"
FILES = (FILE, "kustomization.yml", "Kustomization")
"""What a folder's kustomization may be called. kubectl's `-f` on a folder passes over the last."""
_KNOWN = {"apiVersion", "kind", "resources", "patches", "images"}
_TARGET = {"group", "version", "kind", "name"}


class KustomizationError(ValueError):
    """A kustomization names what is not there, or uses what this module does not know."""


def build(folder: Path) -> list[Object]:
    """Return the objects of a kustomization, patched; KustomizationError says what is wrong."""
    return _build(folder.resolve())


def file_of(folder: Path) -> Path | None:
    """Return the kustomization of a folder; None where it has none."""
    return next((folder / name for name in FILES if (folder / name).is_file()), None)


def _build(folder: Path) -> list[Object]:
    file = file_of(folder)
    if file is None:
        raise KustomizationError(f"{folder}: there is no kustomization")
    said = yaml.safe_load(file.read_text())
    if unknown := said.keys() - _KNOWN:
        raise KustomizationError(f"{file}: {sorted(unknown)} is not known here")
    found = [each for name in said["resources"] for each in _resources(folder, name)]
    for patch in said.get("patches", ()):
        found = [*_patched(found, patch["target"], yaml.safe_load(patch["patch"]))]
    for image in said.get("images", ()):
        found = [_with_image(each, image) for each in found]
    return found


def _with_image(each: Any, image: Mapping[str, str]) -> Any:
    """Return an object with another image wherever one of that name is used."""
    match each:
        case {"image": str(used), **others} if used.partition(":")[0] == image["name"]:
            name = image.get("newName", image["name"])
            return {**_with_image(others, image), "image": f"{name}:{image['newTag']}"}
        case dict():
            return {key: _with_image(value, image) for key, value in each.items()}
        case list():
            return [_with_image(value, image) for value in each]
        case _:
            return each


def _resources(folder: Path, name: str) -> list[Object]:
    path = (folder / name).resolve()
    if path.is_dir():
        if folder.is_relative_to(path):
            raise KustomizationError(f"{folder / name}: contains the folder that names it")
        return _build(path)
    if not path.is_file():
        raise KustomizationError(f"{path}: there is no such file")
    if not path.is_relative_to(folder):
        raise KustomizationError(f"{path}: is not in or below {folder}")
    return documents(path)


def _patched(
    found: list[Object], target: Mapping[str, str], patch: Object | list[Object]
) -> Iterator[Object]:
    if unknown := target.keys() - _TARGET:
        raise KustomizationError(f"target: {sorted(unknown)} is not known here")
    chosen = [each for each in found if _is_meant(each, target)]
    if not chosen:
        raise KustomizationError(f"nothing is meant by the target {target}")
    for each in found:
        if each not in chosen:
            yield each
        elif isinstance(patch, list):
            yield _changed(each, patch)
        elif patch.get("$patch") != "delete":
            raise KustomizationError("a merge patch is not known here")


def _is_meant(each: Object, target: Mapping[str, str]) -> bool:
    group, _, version = each["apiVersion"].rpartition("/")
    has = {
        "group": group,
        "version": version,
        "kind": each["kind"],
        "name": each["metadata"]["name"],
    }
    return all(re.fullmatch(pattern, has[part]) for part, pattern in target.items())


def _changed(each: Object, patch: list[Object]) -> Object:
    changed = deepcopy(each)
    for change in patch:
        *path, last = (
            part.replace("~1", "/").replace("~0", "~") for part in change["path"].split("/")[1:]
        )
        where: Any = changed
        for part in path:
            where = where[int(part)] if isinstance(where, list) else where[part]
        if last == "-":
            where.append(change["value"])
            continue
        key: Any = int(last) if isinstance(where, list) else last
        match change["op"]:
            case "test":
                if where[key] != change["value"]:
                    raise KustomizationError(f"{change['path']} is {where[key]!r}")
            case "add" | "replace":
                where[key] = change["value"]
            case other:
                raise KustomizationError(f"the operation {other!r} is not known here")
    return changed
