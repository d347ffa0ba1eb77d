"""The static pod of kube-scheduler, which is given a configuration file.

The flags that are there stay. With `--config` kube-scheduler ignores `--kubeconfig` and those about
its client and profiling: what they say goes into the configuration. Those about leader election,
authentication, authorization, addresses, feature gates and the rest count as before.

Source: https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/
"""

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

from extender.install.yaml_text import FieldPath, YamlText

CONFIGURATION: Final = "/etc/kubernetes/kube-scheduler.yaml"
"""Where the configuration is, on the node and in the container."""
VOLUME: Final = "gang-extender"
_NAME: Final = "kube-scheduler"
_CONFIG: Final = "config"
_IGNORED: Final[Mapping[str, tuple[tuple[str, ...], type]]] = {
    "kubeconfig": (("clientConnection", "kubeconfig"), str),
    "kube-api-content-type": (("clientConnection", "contentType"), str),
    "kube-api-qps": (("clientConnection", "qps"), float),
    "kube-api-burst": (("clientConnection", "burst"), int),
    "profiling": (("enableProfiling",), bool),
    "contention-profiling": (("enableContentionProfiling",), bool),
}
"""Flags that `--config` takes the effect from: the field that they are then, and its type."""


@dataclass(frozen=True, slots=True)
class _Flag:
    name: str
    value: str
    path: FieldPath
    """Where it begins."""


@dataclass(frozen=True, slots=True)
class SchedulerManifest:
    """The manifest with a configuration file, and what is to be known of that file."""

    file: YamlText
    host_path: str
    """Where the configuration is on the node."""
    fields: Mapping[tuple[str, ...], Any]
    """What flags say that count no more: fields of the configuration."""
    is_ours: bool
    """Whether `--config` and the volume are those that we put in, now or before."""


def with_configuration(name: str, text: str, *, is_known: bool) -> SchedulerManifest:
    """Return the manifest with `--config`, its volume and its mount.

    `is_known` says whether the file of a `--config` that is there already is at hand. Raises
    InstallError.
    """
    file = YamlText.read(name, text)
    container = _container(file)
    flags = [*_flags(file, container)]
    given = [flag for flag in flags if flag.name == _CONFIG]
    fields = {} if given else _ignored(file, flags)
    if given:
        path, flag = given[-1].value, given[-1]
        host_path = _host_path(file, container, flag)
        is_ours = path == host_path == CONFIGURATION
        if not is_ours and not is_known:
            said = f"--config={path} is there already: give that file with --scheduler-config"
            raise file.error(flag.path, said + ", and the entries are added to it")
        return SchedulerManifest(file, host_path, {}, is_ours)
    file = _with_volume(file)
    file = _with_mount(file, container)
    return SchedulerManifest(_with_flag(file, container), CONFIGURATION, fields, is_ours=True)


def _container(file: YamlText) -> FieldPath:
    """Return the path of kube-scheduler's container."""
    if (file.get("apiVersion"), file.get("kind")) != ("v1", "Pod"):
        raise file.error(("kind",), f"is {file.get('kind')}, not a Pod of v1")
    for number, each in enumerate(file.get("spec", "containers") or ()):
        words = each.get("command") or ()
        if each.get("name") == _NAME or (words and PurePosixPath(words[0]).name == _NAME):
            if file.get("spec", "hostNetwork") is True:
                return ("spec", "containers", number)
            said = "is not true: 127.0.0.1 is another address there than in the extender's pod"
            raise file.error(("spec", "hostNetwork"), said)
    said = f"none is {_NAME}, by its name or the first word of its command"
    raise file.error(("spec", "containers"), said)


def _flags(file: YamlText, container: FieldPath) -> Iterator[_Flag]:
    for part in ("command", "args"):
        words = file.get(*container, part) or ()
        for number, (word, after) in enumerate(pairwise([*words, ""])):
            if not str(word).startswith("--"):
                continue
            name, equals, value = str(word).removeprefix("--").partition("=")
            if not equals and not str(after).startswith("--"):
                value = str(after)
            yield _Flag(name.replace("_", "-"), value, (*container, part, number))


def _ignored(file: YamlText, flags: Sequence[_Flag]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for flag in flags:
        if flag.name not in _IGNORED:
            continue
        path, kind = _IGNORED[flag.name]
        try:
            found[path] = flag.value.lower() != "false" if kind is bool else kind(flag.value)
        except ValueError as error:
            raise file.error(flag.path, f"{flag.value!r} is no number") from error
    return found


def _host_path(file: YamlText, container: FieldPath, flag: _Flag) -> str:
    """Return where a file of the container is on the node."""
    path = PurePosixPath(flag.value)
    mounts = [
        (PurePosixPath(each["mountPath"]), each)
        for each in file.get(*container, "volumeMounts") or ()
        if path.is_relative_to(each["mountPath"])
    ]
    if not mounts:
        raise file.error((*container, "volumeMounts"), f"nothing is mounted at {path} or above it")
    where, mount = max(mounts, key=lambda each: len(each[0].parts))
    for number, volume in enumerate(file.get("spec", "volumes") or ()):
        if volume["name"] == mount["name"]:
            found = (volume.get("hostPath") or {}).get("path")
            if not found:
                said = f"{path} is no file of the node: this is no hostPath"
                raise file.error(("spec", "volumes", number), said)
            return str(PurePosixPath(found) / path.relative_to(where))
    raise file.error(("spec", "volumes"), f"there is no volume {mount['name']}")


def _with_volume(file: YamlText) -> YamlText:
    path = ("spec", "volumes")
    found = file.get(*path) or []
    want = {"hostPath": {"path": CONFIGURATION, "type": "File"}, "name": VOLUME}
    for number, each in enumerate(found):
        if each["name"] == VOLUME:
            if (each.get("hostPath") or {}).get("path") == CONFIGURATION:
                return file
            raise file.error((*path, number), f"{VOLUME} is there already, for something else")
    return file.with_item(path, want, _place([each["name"] for each in found], VOLUME))


def _with_mount(file: YamlText, container: FieldPath) -> YamlText:
    path = (*container, "volumeMounts")
    found = file.get(*path) or []
    want = {"mountPath": CONFIGURATION, "name": VOLUME, "readOnly": True}
    for number, each in enumerate(found):
        if each["mountPath"] == CONFIGURATION:
            if each["name"] == VOLUME:
                return file
            raise file.error((*path, number), f"{each['name']} is mounted at {CONFIGURATION}")
    return file.with_item(path, want, _place([each["name"] for each in found], VOLUME))


def _with_flag(file: YamlText, container: FieldPath) -> YamlText:
    """Add the flag at the end, where kubeadm has those of its ClusterConfiguration."""
    part = "args" if file.get(*container, "args") else "command"
    return file.with_item((*container, part), f"--{_CONFIG}={CONFIGURATION}")


def _place(names: Sequence[str], name: str) -> int:
    """Return where kubeadm has it: by name, where the others are in that order."""
    return bisect(names, name) if list(names) == sorted(names) else len(names)
