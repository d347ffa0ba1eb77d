"""PyTorchJob (kubeflow.org)."""

from typing import ClassVar

from extender.jobs.kinds.kubeflow import KubeflowJob


class PyTorchJob(KubeflowJob):
    """A PyTorchJob."""

    integration: ClassVar = "kubeflow.org/pytorchjob"
    kind: ClassVar = "PyTorchJob"
    plural: ClassVar = "pytorchjobs"
    replica_specs: ClassVar = "pytorchReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Master", "Worker")
