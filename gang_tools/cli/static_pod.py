"""`gang-extender render static-pod`: the files of a control-plane node, with the extender put in.

kube-scheduler keeps the flags that it has. With `--config` it ignores `--kubeconfig` and the flags
about its client and profiling: what they say goes into the configuration. All other flags, such as
those about leader election, authentication and feature gates, count as before.

Source: https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/
"""

import difflib
import io
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

import typer
import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gang_tools.cli.options import UsageError, reported

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


def write_static_pod(
    *,
    scheduler_manifest: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="kube-scheduler's static pod, /etc/kubernetes/manifests/kube-scheduler.yaml.",
        ),
    ],
    scheduler_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The KubeSchedulerConfiguration that this kube-scheduler has, if it has one: the "
            "extender's entries are added to it.",
        ),
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="The extender's image. Default: that of the manifest.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the files below this folder as below / of the node. Default: print them.",
            file_okay=False,
        ),
    ] = None,
) -> None:
    """Print or write what a control-plane node needs for gangs, and say what was changed.

    That is kube-scheduler's static pod with its configuration mounted, this configuration with the
    extender's two entries, and the extender's static pod. Also what kubeadm needs to know to keep
    it in an upgrade. The node itself is not touched. Files that are patched already stay as they
    are.

    Exit codes: 0 done, 1 a file cannot be read or written, 2 a file cannot be patched.
    """
    from gang_tools.snapshot.file import save

    with reported():
        scheduler = _Document(str(scheduler_manifest), scheduler_manifest.read_text("utf-8"))
        config = None
        if scheduler_config is not None:
            config = _Document(str(scheduler_config), scheduler_config.read_text("utf-8"))
        files, is_ours = _node_files(scheduler, config, image)
        said = [line for file in files for line in file.changes()]
        said += [*_doubts(files[0]), *_steps(files, output)]
        kubeadm = yaml.safe_dump(KUBEADM, sort_keys=False)
        if is_ours:
            said += [
                "",
                "`kubeadm upgrade` writes kube-scheduler's manifest anew. Add this to the",
                "ClusterConfiguration first (kubectl -n kube-system edit cm kubeadm-config):",
                "",
                *kubeadm.splitlines(),
            ]
        if output is None:
            text = "---\n".join(f"# {each.path}\n{each.text}" for each in files)
            typer.echo(text, nl=False)
        else:
            for file in files:
                # The extender reads the configuration without being root.
                mode = 0o600 if file.path.startswith(MANIFESTS) else 0o644
                save(output / file.path.lstrip("/"), file.text.encode(), mode=mode)
            if is_ours:
                save(output / "cluster-configuration.yaml", kubeadm.encode(), mode=0o644)
    typer.echo("\n".join(said), err=output is None)


@dataclass(frozen=True, slots=True)
class _NodeFile:
    """One file of the node."""

    path: str
    text: str
    before: str | None
    """The text that it replaces. None: the file is new."""

    def changes(self) -> Iterator[str]:
        """Yield what has changed, in lines."""
        if self.before is None:
            yield f"{self.path}: new, {len(self.text.splitlines())} lines"
        elif self.before == self.text:
            yield f"{self.path}: nothing to change"
        else:
            before, after, path = self.before.splitlines(), self.text.splitlines(), self.path
            yield from difflib.unified_diff(before, after, path, f"{path} (new)", lineterm="")


def _doubts(file: _NodeFile) -> Iterator[str]:
    """Yield the warnings and failures of `gang-extender check` about the configuration."""
    from extender.config.settings import Settings
    from gang_tools.check.findings import FindingLevel
    from gang_tools.check.scheduler import scheduler

    longest = Settings().gang.options().max_schedule_timeout
    for each in scheduler(file.path, yaml.safe_load(file.text), longest):
        if each.level is not FindingLevel.OK:
            yield f"{each.level.upper()}: {each.found} -> {each.mend}"


def _steps(files: Sequence[_NodeFile], output: Path | None) -> Iterator[str]:
    """Yield what to do with the files on a node."""
    configuration, extender, scheduler = (
        f"copy {output / each.path.lstrip('/')} to {each.path}"
        if output
        else f"write {each.path}, as above"
        for each in files
    )
    yield ""
    yield "On each control-plane node, first on those whose kube-scheduler does not lead:"
    yield "  1. make /etc/kubernetes/gang-extender.conf, the extender's kubeconfig, for user 65532"
    yield f"  2. {configuration}; user 65532 must be able to read it"
    yield f"  3. {extender}"
    yield "  4. wait until `curl 127.0.0.1:8888/readyz` answers 200"
    yield f"  5. {scheduler}"


class _Document:
    """A YAML document that can be changed; its comments, order and quotes stay."""

    def __init__(self, name: str, text: str) -> None:
        """Read a document with one object. Raises UsageError."""
        self.name, self.before = name, text
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
            raise UsageError(f"{name}: is not one YAML document: {error}") from error
        if not isinstance(self.data, dict):
            raise UsageError(f"{name}: is no object")

    def text(self) -> str:
        """Return the document as text, as it was given where nothing has changed."""
        if self.data == yaml.safe_load(self.before):
            return self.before
        written = io.StringIO()
        self._yaml.dump(self.data, written)
        return written.getvalue()

    def error(self, path: FieldPath, said: str) -> UsageError:
        """Return an error that names a field of this document."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        return UsageError(f"{self.name}: {''.join(parts).removeprefix('.')}: {said}")

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


def _node_files(
    scheduler: _Document, config: _Document | None, image: str | None
) -> tuple[list[_NodeFile], bool]:
    """Return the files of a node, in the order in which it may get them.

    Also whether the flag and its volume are ours, so that kubeadm has to be given them. `config` is
    the file of kube-scheduler's `--config`, or one to begin with. Raises UsageError.
    """
    from gang_tools.manifests import shipped_text

    host_path, fields, is_ours = _add_configuration(scheduler, is_known=config is not None)
    shipped = _Document(CONFIGURATION, shipped_text("scheduler-config/kube-scheduler.yaml"))
    if config is None:
        for path, value in fields.items():
            shipped.set(path, value)
    else:
        _add_entries(config, shipped.data["extenders"], fields)
    extender = _Document("", shipped_text("manifests/static-pod/gang-extender.yaml"))
    # The extender reads kube-scheduler's configuration, too.
    spec = extender.data["spec"]
    container, name = spec["containers"][0], "scheduler-config"
    if image is not None:
        container["image"] = image
    container["args"].insert(1, f"--scheduler-config={CONFIGURATION}")
    mount = {"name": name, "mountPath": CONFIGURATION, "readOnly": True}
    container["volumeMounts"].append(mount)
    spec["volumes"].append({"name": name, "hostPath": {"path": host_path, "type": "File"}})
    files = [
        _NodeFile(host_path, (config or shipped).text(), config.before if config else None),
        _NodeFile(f"{MANIFESTS}/gang-extender.yaml", extender.text(), None),
        _NodeFile(f"{MANIFESTS}/kube-scheduler.yaml", scheduler.text(), scheduler.before),
    ]
    return files, is_ours


def _add_configuration(
    file: _Document, *, is_known: bool
) -> tuple[str, dict[tuple[str, ...], Any], bool]:
    """Give kube-scheduler `--config`, its volume and its mount.

    Return the path of the configuration on the node, the fields that it needs because of flags that
    have no effect any more, and whether the flag is ours, now or before. `is_known` says whether
    the file of a `--config` that is there already is at hand.
    """
    where = _container_path(file)
    spec = file.data["spec"]
    container = spec["containers"][where[-1]]
    flags = [*_flags(container, where)]
    given = [flag for flag in flags if flag[0] == "config"]
    if given:
        _, said, flag = given[-1]
        host_path = _host_path(file, where, PurePosixPath(said))
        is_ours = said == host_path == CONFIGURATION
        if not (is_ours or is_known):
            raise file.error(
                flag,
                f"--config={said} is there already: give that file with --scheduler-config, and "
                "the entries are added to it",
            )
        return host_path, {}, is_ours
    fields: dict[tuple[str, ...], Any] = {}
    for name, value, flag in flags:
        if name in _IGNORED:
            path, kind = _IGNORED[name]
            try:
                fields[path] = value.lower() != "false" if kind is bool else kind(value)
            except ValueError as error:
                raise file.error(flag, f"{value!r} is no number") from error
    volume = {"hostPath": {"path": CONFIGURATION, "type": "File"}, "name": VOLUME}
    _add_named(file, ("spec", "volumes"), volume)
    mount = {"mountPath": CONFIGURATION, "name": VOLUME, "readOnly": True}
    _add_named(file, (*where, "volumeMounts"), mount)
    # At the end, where kubeadm has the flags of its ClusterConfiguration.
    words = container.get("args") or container.get("command") or container.setdefault("args", [])
    words.append(f"--config={CONFIGURATION}")
    return CONFIGURATION, fields, True


def _add_named(file: _Document, path: FieldPath, item: Mapping[str, Any]) -> None:
    """Add our volume or mount where kubeadm has it: by name, if the others are in that order."""
    *above, field = path
    holder = file.data
    for part in above:
        holder = holder[part]
    if not holder.get(field):
        holder[field] = []
    for number, each in enumerate(holder[field]):
        if each.get("mountPath", each["name"]) == item.get("mountPath", VOLUME):
            of = each.get("mountPath") or (each.get("hostPath") or {}).get("path")
            if (each["name"], of) == (VOLUME, CONFIGURATION):
                return
            raise file.error((*path, number), "is there already, for something else")
    names = [str(each["name"]) for each in holder[field]]
    place = bisect(names, VOLUME) if names == sorted(names) else len(names)
    holder[field].insert(place, item)


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


def _host_path(file: _Document, container_path: tuple[str, str, int], path: PurePosixPath) -> str:
    """Return the path on the node of a file of the container."""
    spec = file.data["spec"]
    mounts = {
        PurePosixPath(each["mountPath"]): each["name"]
        for each in spec["containers"][container_path[-1]].get("volumeMounts") or ()
        if path.is_relative_to(each["mountPath"])
    }
    if not mounts:
        where = (*container_path, "volumeMounts")
        raise file.error(where, f"nothing is mounted at {path} or above it")
    above = max(mounts, key=lambda each: len(each.parts))
    for number, volume in enumerate(spec.get("volumes") or ()):
        if volume["name"] == mounts[above]:
            found = (volume.get("hostPath") or {}).get("path")
            if not found:
                said = f"{path} is no file of the node: this is no hostPath"
                raise file.error(("spec", "volumes", number), said)
            return str(PurePosixPath(found) / path.relative_to(above))
    raise file.error(("spec", "volumes"), f"there is no volume {mounts[above]}")


def _add_entries(
    file: _Document, shipped: Sequence[Mapping[str, Any]], fields: Mapping[tuple[str, ...], Any]
) -> None:
    """Add the shipped entries that a configuration lacks, and fields that it does not set."""
    from extender.api.scheduler_config import API_VERSION, KIND

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
    if file.data.get("extenders"):
        file.data["extenders"] += missing
    elif missing:
        file.data["extenders"] = missing
