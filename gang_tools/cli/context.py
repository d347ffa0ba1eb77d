"""The namespace that a command works in, as kubectl has it: the pod's, or the kubeconfig's.

This file imports little: `--help` reads it.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

DEFAULT: Final = "default"
OF_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file where the kubelet writes the namespace of a pod with a service account."""


def namespace(kubeconfig: Path | None) -> str:
    """Return the namespace of what `credentials.load` connects with, or `default`.

    It is that of the given file's context, else the pod's own, else that of the context in the
    files of $KUBECONFIG together, or in ~/.kube/config. A file that cannot be read is skipped: the
    connection reports what is wrong with it.
    """
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        with suppress(OSError, ValueError):
            return OF_POD.read_text().strip() or DEFAULT
        return DEFAULT
    current, contexts = "", dict[str, Any]()
    for path in _files(kubeconfig):
        try:
            config = yaml.safe_load(path.read_text())
            named = {each["name"]: each["context"] for each in config.get("contexts") or ()}
            current = current or config.get("current-context") or ""
        except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError, AttributeError):
            continue
        contexts = {**named, **contexts}  # the first file with a context counts, as in kubectl
    found = contexts.get(current)
    return (found.get("namespace") if isinstance(found, dict) else None) or DEFAULT


def _files(kubeconfig: Path | None) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    named = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return named or [Path.home() / ".kube" / "config"]
