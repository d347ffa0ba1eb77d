"""`gang-extender render static-pod`: write the files of a control-plane node."""

import difflib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from extender.cli.options import exits

if TYPE_CHECKING:
    from extender.cli.node_files import NamedText, NodeFile, NodeFiles

_SNIPPET: Final = "cluster-configuration.yaml"
_EXTENDER_CONFIG: Final = "/etc/kubernetes/gang-extender.conf"
_READABLE: Final = 0o644
"""The mode of the configuration, which the extender reads without being root."""
_PRIVATE: Final = 0o600
"""The mode of kubeadm's manifests."""


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
    from extender.api.manifests import shipped_text
    from extender.cli.node_files import InstallError, node_files

    with exits(2, InstallError), exits(1, OSError, UnicodeDecodeError):
        found = node_files(
            _read(scheduler_manifest),
            _read(scheduler_config) if scheduler_config else None,
            shipped_scheduler=shipped_text("scheduler-config/kube-scheduler.yaml"),
            shipped_extender=shipped_text("manifests/static-pod/gang-extender.yaml"),
            image=image,
        )
        if output is not None:
            for file in found:
                mode = _READABLE if file is found.configuration else _PRIVATE
                _write(output / file.path.lstrip("/"), file.text, mode)
            if found.is_ours:
                _write(output / _SNIPPET, _snippet())
    if output is None:
        typer.echo("---\n".join(f"# {each.path}\n{each.text}" for each in found), nl=False)
    typer.echo("\n".join(_report(found, output)), err=output is None)


def _read(path: Path) -> "NamedText":
    from extender.cli.node_files import NamedText

    return NamedText(str(path), path.read_text(encoding="utf-8"))


def _write(path: Path, text: str, mode: int = _READABLE) -> None:
    """Write a file at once. The kubelet ignores the part, whose name begins with a dot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(part).chmod(mode)
    Path(part).replace(path)


def _snippet() -> str:
    import yaml

    from extender.cli.node_files import KUBEADM

    return yaml.safe_dump(KUBEADM, sort_keys=False)


def _report(found: "NodeFiles", output: Path | None) -> Iterator[str]:
    for file in found:
        yield from _changes(file)
    yield from _doubts(found.configuration)
    yield from _steps(found, output)
    if found.is_ours:
        yield ""
        yield "`kubeadm upgrade` writes kube-scheduler's manifest anew. Add this to the"
        yield "ClusterConfiguration first (kubectl -n kube-system edit cm kubeadm-config):"
        yield ""
        yield from _snippet().splitlines()


def _changes(file: "NodeFile") -> Iterator[str]:
    if file.before is None:
        yield f"{file.path}: new, {len(file.text.splitlines())} lines"
    elif file.before == file.text:
        yield f"{file.path}: nothing to change"
    else:
        before, after = file.before.splitlines(), file.text.splitlines()
        yield from difflib.unified_diff(before, after, file.path, f"{file.path} (new)", lineterm="")


def _doubts(file: "NodeFile") -> Iterator[str]:
    """Yield the warnings and failures of `gang-extender check` about the configuration."""
    import yaml

    from extender.check.facts import SchedulerFile
    from extender.check.findings import FindingLevel
    from extender.check.scheduler import scheduler
    from extender.config import Settings

    longest = Settings().gang.options().max_schedule_timeout
    judged = SchedulerFile(file.path, yaml.safe_load(file.text), longest)
    for each in scheduler(judged):
        if each.level is not FindingLevel.OK:
            yield f"{each.level.value.upper()}: {each.found} -> {each.mend}"


def _steps(found: "NodeFiles", output: Path | None) -> Iterator[str]:
    def put(file: "NodeFile") -> str:
        return (
            f"copy {output / file.path.lstrip('/')} to {file.path}"
            if output
            else (f"write {file.path}, as above")
        )

    yield ""
    yield "On each control-plane node, first on those whose kube-scheduler does not lead:"
    yield f"  1. make {_EXTENDER_CONFIG}, the extender's kubeconfig, for user 65532"
    yield f"  2. {put(found.configuration)}; user 65532 must be able to read it"
    yield f"  3. {put(found.extender)}"
    yield "  4. wait until `curl 127.0.0.1:8888/readyz` answers 200"
    yield f"  5. {put(found.scheduler)}"
