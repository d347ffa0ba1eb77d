"""What is as in kubectl: the namespace that a command works in, TYPE/NAME, and ages.

This file imports little: `--help` reads it.
"""

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml


def dns_label(name: str | None) -> str | None:
    """Return the value of an option. Raises BadParameter where no namespace can have that name."""
    if name and not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
        raise typer.BadParameter(f"{name!r} cannot be the name of a namespace: use a-z, 0-9 and -")
    return name


Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        callback=dns_label,
        help="Its namespace. Default: the pod's own, else the kubeconfig context's.",
    ),
]
Context = Annotated[
    str | None, typer.Option(help="Context of the kubeconfig. Default: its current one.")
]
JobKind = Annotated[
    str | None,
    typer.Option("--kind", help="The kind of a job, such as Job or batch/job. Default: any."),
]
DEFAULT: Final = "default"
OF_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file where the kubelet writes the namespace of a pod with a service account."""
_SHORT_NAMES: Final[Mapping[str, str]] = {
    "cq": "clusterqueue",
    "lq": "localqueue",
    "queue": "localqueue",
    "kwl": "workload",
    "pg": "podgroup",
    "gang": "podgroup",
    "po": "pod",
}
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
_AGES: Final = (
    *((120, "s"), (600, "ms"), (3 * 3600, "m"), (8 * 3600, "hm"), (2 * 86400, "h")),
    *((8 * 86400, "dh"), (2 * _UNITS["y"], "d"), (8 * _UNITS["y"], "yd"), (inf, "y")),
)
"""The units of ages up to a number of seconds, as in kubectl's duration.HumanDuration."""


def named(
    words: str, name: str, job_kind: str | None, *, kinds: Collection[str]
) -> tuple[str, str, str | None]:
    """Return kind, name and kind of job in `TYPE NAME` or `TYPE/NAME`, as kubectl takes them.

    The kind is one of `kinds`, or `job`, of the kind that is given or of any. Raises BadParameter.
    """
    said, _, own = words.partition("/")
    kind = said.lower().partition(".")[0].removesuffix("s")
    kind = _SHORT_NAMES.get(kind, kind)
    if kind in _SHORT_NAMES.values() and kind not in kinds:
        raise typer.BadParameter(f"{said} is neither {', '.join(kinds)} nor the kind of a job")
    if bool(own) == bool(name):
        raise typer.BadParameter(f"give one name: {said} NAME, or {said}/NAME")
    if kind not in kinds:
        return "job", own or name, job_kind or (kind if kind != "job" else None)
    if job_kind is not None:
        raise typer.BadParameter(f"--kind is for jobs, not for a {kind}")
    return kind, own or name, None


def default_namespace(kubeconfig: Path | None, context: str | None = None) -> str:
    """Return the namespace of what `credentials.load` connects with, or `default`.

    It is that of the given file's context, else the pod's own, else that of the context in the
    files of $KUBECONFIG together, or in ~/.kube/config. A file that cannot be read is skipped: the
    connection reports what is wrong with it.
    """
    if not (kubeconfig or context) and "KUBERNETES_SERVICE_HOST" in os.environ:
        with suppress(OSError, ValueError):
            return OF_POD.read_text().strip() or DEFAULT
        return DEFAULT
    current, contexts = context or "", dict[str, Any]()
    named = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = [kubeconfig] if kubeconfig is not None else named
    for path in files or [Path.home() / ".kube" / "config"]:
        try:
            config = yaml.safe_load(path.read_text())
            here = {each["name"]: each["context"] for each in config.get("contexts") or ()}
            current = current or config.get("current-context") or ""
        except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError, AttributeError):
            continue
        contexts = {**here, **contexts}  # the first file with a context counts, as in kubectl
    found = contexts.get(current)
    return (found.get("namespace") if isinstance(found, dict) else None) or DEFAULT


def age(seconds: int) -> str:
    """Return an age as kubectl writes it."""
    left, text = max(0, seconds), ""
    for letter in next(units for end, units in _AGES if seconds < end):
        number, left = divmod(left, _UNITS[letter])
        text += f"{number}{letter}" if number or not text else ""
    return text
