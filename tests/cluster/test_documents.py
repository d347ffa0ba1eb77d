"""The API server takes every object that the documents and the samples of jobs show."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import ROOT, objects
from tests.harness.client import Api

NOT_OURS = ("kubeadm.k8s.io/", "kubescheduler.config.k8s.io/", "kustomize.config.k8s.io/")
"""Files of programs, which no API server takes."""
OPERATORS = (
    "jobset.x-k8s.io/",
    "kubeflow.org/",
    "ray.io/",
    "sparkoperator.k8s.io/",
    "trainer.kubeflow.org/",
    "workload.codeflare.dev/",
)
"""Kinds whose CRDs are not here: their samples are tried beside their operators, but for the
TrainJob, which names a runtime that Trainer is installed with."""

SHOWN: dict[str, dict[str, Any]] = {
    name: each for name, each in objects().items() if not each["apiVersion"].startswith(NOT_OURS)
}
SAMPLES: dict[str, dict[str, Any]] = {
    f"{path.name} {each['metadata']['name']}": each
    for path in sorted((ROOT / "manifests/samples/jobs").iterdir())
    for each in yaml.safe_load_all(path.read_text())
    if not each["apiVersion"].startswith(OPERATORS)
}
CRDS = Path(ROOT / "manifests/crds")


@pytest.fixture(scope="module")
def ready(api: Api) -> Api:
    """The API server with our CRDs."""
    api.apply(CRDS)
    return api


@pytest.mark.parametrize("each", [*SHOWN.values(), *SAMPLES.values()], ids=[*SHOWN, *SAMPLES])
def test_it_is_taken(ready: Api, namespace: str, each: dict[str, Any]) -> None:
    meta = {**each["metadata"], "namespace": namespace}
    body = {**each, "metadata": meta}
    if each["kind"] in ("ClusterQueue", "ResourceFlavor"):
        del meta["namespace"]

    ready.tried(body)
