"""kube-scheduler's configuration file, with the entries of the extender."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from extender.api.scheduler_config import API_VERSION, KIND
from extender.install.yaml_text import FieldPath, YamlText

_EXTENDERS: Final = "extenders"
_NEEDED: Final = ("filterVerb", "bindVerb")
"""A verb of each of the shipped entries, which is in that one only."""


def shipped_configuration(file: YamlText, fields: Mapping[tuple[str, ...], Any]) -> YamlText:
    """Return the shipped file with fields of this cluster. Raises InstallError."""
    for path, value in fields.items():
        if file.get(*path) is None:
            file = file.with_key(path[:-1], path[-1], value)
        elif file.get(*path) != value:
            file = file.with_scalar(path, str(value))
    return file


def merged_configuration(
    file: YamlText, shipped: YamlText, fields: Mapping[tuple[str, ...], Any]
) -> YamlText:
    """Return a file of the administrator's with the shipped entries that it has not.

    `fields` are put in where it says nothing of them. Raises InstallError.
    """
    given = f"{file.get('apiVersion')} {file.get('kind')}"
    if given != f"{API_VERSION} {KIND}":
        raise file.error(("kind",), f"is {given}, not {API_VERSION} {KIND}")
    for path, value in fields.items():
        if file.get(*path) is None:
            file = file.with_key(path[:-1], path[-1], value)
    for entry in _missing(file, shipped.get(_EXTENDERS)):
        file = _with_entry(file, entry)
    return file


def _missing(file: YamlText, shipped: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    url = shipped[0]["urlPrefix"]
    here: set[str] = set()
    for number, each in enumerate(file.get(_EXTENDERS) or ()):
        verbs = {verb for verb in _NEEDED if each.get(verb)}
        if str(each.get("urlPrefix", "")).rstrip("/") == url:
            here |= verbs
        elif "bindVerb" in verbs:
            path: FieldPath = (_EXTENDERS, number, "bindVerb")
            said = "kube-scheduler takes one entry with a bindVerb, and the extender's has it"
            raise file.error(path, said)
    return [each for each in shipped if not here.intersection(each)]


def _with_entry(file: YamlText, entry: Mapping[str, Any]) -> YamlText:
    if _EXTENDERS in file.value and not file.get(_EXTENDERS):
        raise file.error((_EXTENDERS,), "is there, and empty: take the field out")
    return file.with_item((_EXTENDERS,), dict(entry))
