"""The files of a control-plane node, with the extender put in: text to text, no I/O.

kube-scheduler keeps the flags that it has. With `--config` it ignores `--kubeconfig` and the flags
about its client and profiling: what they say goes into the configuration. All other flags, such as
those about leader election, authentication and feature gates, count as before.

Source: https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/
"""

import io
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from extender.api.scheduler_config import API_VERSION, KIND

FieldPath = Sequence[str | int]
"""The path of a field, such as `("spec", "volumes", 0)`."""

MANIFESTS: Final = "/etc/kubernetes/manifests"
CONFIGURATION: Final = "/etc/kubernetes/kube-scheduler.yaml"
"""The path of the configuration, on the node and in the container."""
VOLUME: Final = "gang-extender"
"""The name of the volume that we add to kube-scheduler's static pod."""
KUBEADM: Final[dict[str, Any]] = {
    "apiVersion": "kubeadm.k8s.io/v1beta4",
    "kind": "ClusterConfiguration",
    "scheduler": {
        "extraArgs": [{"name": "config", "value": CONFIGURATION}],
        "extraVolumes": [
            {
                "name": VOLUME,
                "hostPath": CONFIGURATION,
                "mountPath": CONFIGURATION,
                "readOnly": True,
                "pathType": "File",
            }
        ],
    },
}
"""The fields that make kubeadm write the flag, the volume and the mount itself."""
_SCHEDULER: Final = "kube-scheduler"
_IGNORED: Final[Mapping[str, tuple[tuple[str, ...], type]]] = {
    "kubeconfig": (("clientConnection", "kubeconfig"), str),
    "kube-api-content-type": (("clientConnection", "contentType"), str),
    "kube-api-qps": (("clientConnection", "qps"), float),
    "kube-api-burst": (("clientConnection", "burst"), int),
    "profiling": (("enableProfiling",), bool),
    "contention-profiling": (("enableContentionProfiling",), bool),
}
"""The flags that have no effect beside `--config`: the field that replaces each, and its type."""
_VERBS: Final = ("filterVerb", "bindVerb")
"""The verbs by which the two shipped entries are told apart."""


class InstallError(ValueError):
    """A file cannot be changed. The text names the file and the field."""


@dataclass(frozen=True, slots=True)
class NamedText:
    """A file that is given, and its name in messages."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeFile:
    """One file of the node."""

    path: str
    text: str
    before: str | None
    """The text that it replaces. None: the file is new."""


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """All files, in the order in which a node may get them."""

    configuration: NodeFile
    extender: NodeFile
    scheduler: NodeFile
    is_ours: bool
    """True if the flag and its volume are ours, so that kubeadm has to be given them."""

    def __iter__(self) -> Iterator[NodeFile]:
        """Return the files in their order."""
        return iter((self.configuration, self.extender, self.scheduler))


def node_files(
    manifest: NamedText,
    configuration: NamedText | None,
    *,
    shipped_scheduler: str,
    shipped_extender: str,
    image: str | None,
) -> NodeFiles:
    """Return the files of a node whose kube-scheduler has that manifest.

    `configuration` is the file of its `--config`, or one to begin with. Raises InstallError.
    """
    scheduler = _Document(manifest.name, manifest.text)
    host_path, fields, is_ours = _add_configuration(scheduler, is_known=configuration is not None)
    shipped = _Document(CONFIGURATION, shipped_scheduler)
    for path, value in fields.items():
        shipped.set(path, value)
    config = shipped
    if configuration is not None:
        config = _Document(configuration.name, configuration.text)
        _add_entries(config, yaml.safe_load(shipped_scheduler)["extenders"], fields)
    extender = _Document("gang-extender.yaml", shipped_extender)
    _read_configuration(extender.data["spec"], host_path, image)
    return NodeFiles(
        NodeFile(host_path, config.text(), configuration.text if configuration else None),
        NodeFile(f"{MANIFESTS}/gang-extender.yaml", extender.text(), None),
        NodeFile(f"{MANIFESTS}/kube-scheduler.yaml", scheduler.text(), manifest.text),
        is_ours,
    )


class _Document:
    """A YAML document that can be changed; its comments, order and quotes stay."""

    def __init__(self, name: str, text: str) -> None:
        """Read a document with one object. Raises InstallError."""
        self.name, self._text = name, text
        self._yaml = YAML()
        self._yaml.preserve_quotes = True
        self._yaml.width = 4096  # no line is broken
        # Lists keep the indentation that the first one has.
        found = re.search(r"^( *)[\w.-]+:[^\n]*\n(?: *#[^\n]*\n)*( *)- ", text, re.MULTILINE)
        offset = len(found[2]) - len(found[1]) if found else 0
        self._yaml.indent(mapping=2, sequence=2 + offset, offset=offset)
        try:
            self.data: Any = self._yaml.load(text)
        except YAMLError as error:
            raise InstallError(f"{name}: is not one YAML document: {error}") from error
        if not isinstance(self.data, dict):
            raise InstallError(f"{name}: is no object")

    def text(self) -> str:
        """Return the document as text, as it was given where nothing has changed."""
        if self.data == yaml.safe_load(self._text):
            return self._text
        written = io.StringIO()
        self._yaml.dump(self.data, written)
        return written.getvalue()

    def error(self, path: FieldPath, said: str) -> InstallError:
        """Return an error that names a field of this document."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        return InstallError(f"{self.name}: {''.join(parts).removeprefix('.')}: {said}")

    def set(self, path: Sequence[str], value: object, *, replace: bool = True) -> None:
        """Set a field. A new one is put first, before comments that belong to the next field."""
        *above, name = path
        found = self.data
        for part in above:
            if found.get(part) is None:
                found[part] = {}
            found = found[part]
        if name not in found and hasattr(found, "insert"):
            found.insert(0 if above else 2, name, value)  # behind apiVersion and kind
        elif replace or found.get(name) is None:
            found[name] = value


# -- kube-scheduler's static pod


def _add_configuration(
    file: _Document, *, is_known: bool
) -> tuple[str, dict[tuple[str, ...], Any], bool]:
    """Give kube-scheduler `--config`, its volume and its mount.

    Return the path of the configuration on the node, the fields that it needs because of flags that
    have no effect any more, and whether the flag is ours, now or before. `is_known` says whether
    the file of a `--config` that is there already is at hand.
    """
    container_path = _container_path(file)
    spec = file.data["spec"]
    container = spec["containers"][container_path[-1]]
    flags = [*_flags(container, container_path)]
    given = [flag for flag in flags if flag[0] == "config"]
    if given:
        _, path, where = given[-1]
        host_path = _host_path(file, container_path, PurePosixPath(path))
        is_ours = path == host_path == CONFIGURATION
        if not (is_ours or is_known):
            said = f"--config={path} is there already: give that file with --scheduler-config"
            raise file.error(where, said + ", and the entries are added to it")
        return host_path, {}, is_ours
    fields = _ignored(file, flags)
    _add_volume(file, spec)
    _add_mount(file, container_path, container)
    # At the end, where kubeadm has the flags of its ClusterConfiguration.
    words = container.get("args") or container.get("command") or container.setdefault("args", [])
    words.append(f"--config={CONFIGURATION}")
    return CONFIGURATION, fields, True


def _container_path(file: _Document) -> tuple[str, str, int]:
    pod = file.data
    if (pod.get("apiVersion"), pod.get("kind")) != ("v1", "Pod"):
        raise file.error(("kind",), f"is {pod.get('kind')}, not a Pod of v1")
    spec = pod.get("spec") or {}
    for number, each in enumerate(spec.get("containers") or ()):
        words = each.get("command") or ()
        if each.get("name") == _SCHEDULER or (words and PurePosixPath(words[0]).name == _SCHEDULER):
            if spec.get("hostNetwork") is True:
                return "spec", "containers", number
            said = "is not true: 127.0.0.1 is another address there than in the extender's pod"
            raise file.error(("spec", "hostNetwork"), said)
    said = f"none is {_SCHEDULER}, by its name or the first word of its command"
    raise file.error(("spec", "containers"), said)


def _flags(container: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[str, str, FieldPath]]:
    """Yield the name and value of each flag, and where it begins."""
    for part in ("command", "args"):
        words = container.get(part) or ()
        for number, (word, after) in enumerate(pairwise([*words, ""])):
            if not str(word).startswith("--"):
                continue
            name, equals, value = str(word).removeprefix("--").partition("=")
            if not equals and not str(after).startswith("--"):
                value = str(after)
            yield name.replace("_", "-"), value, (*path, part, number)


def _ignored(
    file: _Document, flags: Sequence[tuple[str, str, FieldPath]]
) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, value, where in flags:
        if name not in _IGNORED:
            continue
        path, kind = _IGNORED[name]
        try:
            found[path] = value.lower() != "false" if kind is bool else kind(value)
        except ValueError as error:
            raise file.error(where, f"{value!r} is no number") from error
    return found


def _host_path(file: _Document, container_path: tuple[str, str, int], path: PurePosixPath) -> str:
    """Return the path on the node of a file of the container."""
    spec = file.data["spec"]
    mounts = [
        (PurePosixPath(each["mountPath"]), each)
        for each in spec["containers"][container_path[-1]].get("volumeMounts") or ()
        if path.is_relative_to(each["mountPath"])
    ]
    if not mounts:
        where = (*container_path, "volumeMounts")
        raise file.error(where, f"nothing is mounted at {path} or above it")
    above, mount = max(mounts, key=lambda each: len(each[0].parts))
    for number, volume in enumerate(spec.get("volumes") or ()):
        if volume["name"] == mount["name"]:
            found = (volume.get("hostPath") or {}).get("path")
            if not found:
                said = f"{path} is no file of the node: this is no hostPath"
                raise file.error(("spec", "volumes", number), said)
            return str(PurePosixPath(found) / path.relative_to(above))
    raise file.error(("spec", "volumes"), f"there is no volume {mount['name']}")


def _add_volume(file: _Document, spec: Any) -> None:  # noqa: ANN401 - what a person wrote
    volume = {"hostPath": {"path": CONFIGURATION, "type": "File"}, "name": VOLUME}
    for number, each in enumerate(spec.get("volumes") or ()):
        if each["name"] == VOLUME:
            if (each.get("hostPath") or {}).get("path") == CONFIGURATION:
                return
            said = f"{VOLUME} is there already, for something else"
            raise file.error(("spec", "volumes", number), said)
    _insert_by_name(spec, "volumes", volume)


def _add_mount(file: _Document, container_path: FieldPath, container: Any) -> None:  # noqa: ANN401
    mount = {"mountPath": CONFIGURATION, "name": VOLUME, "readOnly": True}
    for number, each in enumerate(container.get("volumeMounts") or ()):
        if each["mountPath"] == CONFIGURATION:
            if each["name"] == VOLUME:
                return
            said = f"{each['name']} is mounted at {CONFIGURATION}"
            raise file.error((*container_path, "volumeMounts", number), said)
    _insert_by_name(container, "volumeMounts", mount)


def _insert_by_name(holder: Any, field: str, item: dict[str, Any]) -> None:  # noqa: ANN401
    """Insert an item where kubeadm has it: by name, if the others are in that order."""
    if not holder.get(field):
        holder[field] = []
    names = [each["name"] for each in holder[field]]
    place = bisect(names, item["name"]) if names == sorted(names) else len(names)
    holder[field].insert(place, item)


# -- kube-scheduler's configuration, and the extender's static pod


def _add_entries(
    file: _Document, shipped: Sequence[Mapping[str, Any]], fields: Mapping[tuple[str, ...], Any]
) -> None:
    """Add the shipped entries that a configuration lacks, and fields that it does not set."""
    given = f"{file.data.get('apiVersion')} {file.data.get('kind')}"
    if given != f"{API_VERSION} {KIND}":
        raise file.error(("kind",), f"is {given}, not {API_VERSION} {KIND}")
    for path, value in fields.items():
        file.set(path, value, replace=False)
    url = shipped[0]["urlPrefix"]
    here: set[str] = set()
    for number, each in enumerate(file.data.get("extenders") or ()):
        verbs = {verb for verb in _VERBS if each.get(verb)}
        if str(each.get("urlPrefix", "")).rstrip("/") == url:
            here |= verbs
        elif "bindVerb" in verbs:
            said = "kube-scheduler takes one entry with a bindVerb, and the extender's has it"
            raise file.error(("extenders", number, "bindVerb"), said)
    missing = [dict(each) for each in shipped if not here.intersection(each)]
    if not missing:
        return
    if not file.data.get("extenders"):
        file.data["extenders"] = []
    file.data["extenders"] += missing


def _read_configuration(spec: Any, host_path: str, image: str | None) -> None:  # noqa: ANN401
    """Let the extender's static pod read kube-scheduler's configuration."""
    container, name = spec["containers"][0], "scheduler-config"
    if image is not None:
        container["image"] = image
    container["args"].insert(1, f"--scheduler-config={CONFIGURATION}")
    mount = {"name": name, "mountPath": CONFIGURATION, "readOnly": True}
    container["volumeMounts"].append(mount)
    spec["volumes"].append({"name": name, "hostPath": {"path": host_path, "type": "File"}})
