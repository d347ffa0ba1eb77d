"""TFJob (kubeflow.org)."""

from typing import ClassVar

from extender.jobs.kinds.kubeflow import KubeflowJob


class TFJob(KubeflowJob):
    """A TFJob."""

    integration: ClassVar = "kubeflow.org/tfjob"
    kind: ClassVar = "TFJob"
    plural: ClassVar = "tfjobs"
    replica_specs: ClassVar = "tfReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Chief", "Master", "PS", "Worker", "Evaluator")
