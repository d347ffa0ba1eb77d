"""Files of what a release left, and the way back from them into a control plane."""

import base64
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.harness.control_plane import ControlPlane

Object = dict[str, Any]

ROOT: Final = Path(__file__).parent
NAMESPACE: Final = "upgraded"
KINDS: Final = {
    "namespaces": "namespaces",
    "nodes": "minions",
    "scheduling.x-k8s.io/v1alpha1/podgroups": "scheduling.x-k8s.io/podgroups",
    "scheduling.sigs.k8s.io/v1alpha1/podgroups": "scheduling.sigs.k8s.io/podgroups",
    **{
        f"kueue.x-k8s.io/v1beta2/{plural}": f"kueue.x-k8s.io/{plural}"
        for plural in (
            "resourceflavors",
            "cohorts",
            "clusterqueues",
            "localqueues",
            "workloadpriorityclasses",
            "workloads",
        )
    },
    "batch/v1/jobs": "jobs",
    "pods": "pods",
}
"""Where the API server keeps each resource below /registry, owners before what they own."""


def releases() -> list[str]:
    """Return the releases of which there are files."""
    return sorted(path.name for path in ROOT.iterdir() if (path / "objects.yaml.gz").is_file())


def write(folder: Path, crds: Iterable[Object], stored: Iterable[Object]) -> None:
    """Write what `crds` and `objects` return, the same bytes for the same objects."""
    folder.mkdir(exist_ok=True)
    for name, found in (("crds", crds), ("objects", stored)):
        text = yaml.safe_dump_all(found, sort_keys=False)
        packed = gzip.compress(text.encode(), mtime=0)
        (folder / f"{name}.yaml.gz").write_bytes(packed)


def crds(release: str) -> list[Object]:
    """Return the CRDs of a release, as they were applied."""
    return _read(release, "crds")


def stored(release: str) -> dict[str, list[Object]]:
    """Return the objects that a release left, by resource, with all that was stored of them."""
    found: dict[str, list[Object]] = {resource: [] for resource in KINDS}
    for each in _read(release, "objects"):
        found[_resource(each)].append(each)
    return found


def _read(release: str, name: str) -> list[Object]:
    packed = (ROOT / release / f"{name}.yaml.gz").read_bytes()
    return list(yaml.load_all(gzip.decompress(packed), getattr(yaml, "CSafeLoader", yaml.Loader)))


def _resource(each: Object) -> str:
    version = each["apiVersion"]
    kind = each["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else kind if kind.endswith("s") else f"{kind}s"
    plural = "workloadpriorityclasses" if kind == "workloadpriorityclass" else plural
    return plural if version == "v1" else f"{version}/{plural}"


def restore(control_plane: ControlPlane, release: str) -> None:
    """Store the objects as they were, UIDs and owners of fields too.

    No request can write an object as it was stored: the API server gives it another UID, and takes
    its status away. So they go straight to etcd, where the API server sees them as any others.
    """
    for resource, found in stored(release).items():
        for each in found:
            metadata = {k: v for k, v in each["metadata"].items() if k != "resourceVersion"}
            parts = (KINDS[resource], metadata.get("namespace"), metadata["name"])
            key = "/registry/" + "/".join(part for part in parts if part)
            value = json.dumps({**each, "metadata": metadata})
            body = {"key": _encoded(key), "value": _encoded(value)}
            url = f"{control_plane.etcd.url}/v3/kv/put"
            httpx.post(url, json=body, trust_env=False).raise_for_status()


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
