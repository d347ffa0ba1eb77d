"""XGBoostJob (kubeflow.org)."""

from typing import ClassVar

from extender.jobs.kinds.kubeflow import KubeflowJob


class XGBoostJob(KubeflowJob):
    """An XGBoostJob."""

    integration: ClassVar = "kubeflow.org/xgboostjob"
    kind: ClassVar = "XGBoostJob"
    plural: ClassVar = "xgboostjobs"
    replica_specs: ClassVar = "xgbReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Master", "Worker")
