"""The training jobs of Kubeflow: replicas of several types, each type a pod set."""

from collections.abc import Collection, Mapping
from typing import ClassVar

from typing_extensions import override

from extender.jobs import fields
from extender.jobs.base import BaseJob
from extender.jobs.generic_job import Finished, Slot


class KubeflowJob(BaseJob):
    """A job with replica specs and a run policy."""

    group: ClassVar = "kubeflow.org"
    version: ClassVar = "v1"
    suspend_path: ClassVar[tuple[str, ...]] = ("spec", "runPolicy", "suspend")

    replica_specs: ClassVar[str]
    """The field of the spec."""
    replica_types: ClassVar[tuple[str, ...]]
    """In the order of the pod sets."""

    @override
    def slots(self) -> list[Slot]:
        """Return the template of each replica type that there is."""
        specs = fields.ensure(self.object, "spec", self.replica_specs)
        found = ((kind, specs[kind]) for kind in self.replica_types if kind in specs)
        return [
            Slot(
                kind.lower(),
                fields.count(spec, "replicas", default=1),
                fields.ensure(spec, "template"),
            )
            for kind, spec in found
            if isinstance(spec, dict)
        ]

    @override
    def finished(self) -> Finished | None:
        """Return how it ended."""
        return self.ended_by(succeeded="Succeeded", failed="Failed")

    @override
    def pods_ready(self) -> bool:
        """Return whether it runs, and all replicas do or have: `Running` may be said of one."""
        if fields.condition(self.object, "Running") is None:
            return False
        specs = fields.mapping(self.object, "spec", self.replica_specs)
        told = fields.mapping(self.object, "status", "replicaStatuses")
        return all(
            fields.count(told, kind, "active") + fields.count(told, kind, "succeeded")
            >= fields.count(specs, kind, "replicas", default=1)
            for kind in self.replica_types
            if kind in specs
        )

    def makes(self, kind: str, name: str) -> bool:
        """Return False: it makes pods, which are no jobs of their own."""
        del kind, name
        return False

    @override
    def is_active(self) -> bool:
        """Return whether replicas run."""
        told = fields.mapping(self.object, "status", "replicaStatuses")
        return any(fields.count(told, kind, "active") for kind in told)

    def reclaimable_pods(self) -> Mapping[str, int]:
        """Return the replicas that have succeeded; those that failed are made again.

        A stop deletes all pods and a start makes all again. What was told before stays there until
        somebody looks at the job that was started.
        """
        if self.is_suspended() or not self._tells_of_this_start():
            return {}
        told = fields.mapping(self.object, "status", "replicaStatuses")
        done = {kind.lower(): fields.count(told, kind, "succeeded") for kind in self.replica_types}
        found = {slot.name: min(slot.count, done[slot.name]) for slot in self.slots()}
        return {name: count for name, count in found.items() if count}

    def _tells_of_this_start(self) -> bool:
        """Return whether the replicas that are told of are those that were made since it started.

        With a stop `Running` becomes False.
        """
        return fields.condition(self.object, "Running") is not None

    @override
    def priority_class(self) -> str:
        """Return the one of the scheduling policy, else the first that a template names."""
        policy = ("spec", "runPolicy", "schedulingPolicy", "priorityClass")
        return fields.text(self.object, *policy) or super().priority_class()


class MPIJob(KubeflowJob):
    """An MPIJob."""

    integration: ClassVar = "kubeflow.org/mpijob"
    kind: ClassVar = "MPIJob"
    version: ClassVar = "v2beta1"
    plural: ClassVar = "mpijobs"
    replica_specs: ClassVar = "mpiReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Launcher", "Worker")

    @override
    def makes(self, kind: str, name: str) -> bool:
        """Return whether it is the Job of the launcher."""
        own = fields.text(self.object, "metadata", "name")
        return (kind, name) == ("batch/job", f"{own}-launcher")

    @override
    def _tells_of_this_start(self) -> bool:
        """Return True: each look counts the pods that there are, also after a stop."""
        return True

    def late_pod_sets(self) -> Collection[str]:
        """Return the launcher where it waits for its workers."""
        policy = fields.text(self.object, "spec", "launcherCreationPolicy")
        return ("launcher",) if policy == "WaitForWorkersReady" else ()


class PyTorchJob(KubeflowJob):
    """A PyTorchJob."""

    integration: ClassVar = "kubeflow.org/pytorchjob"
    kind: ClassVar = "PyTorchJob"
    plural: ClassVar = "pytorchjobs"
    replica_specs: ClassVar = "pytorchReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Master", "Worker")


class TFJob(KubeflowJob):
    """A TFJob."""

    integration: ClassVar = "kubeflow.org/tfjob"
    kind: ClassVar = "TFJob"
    plural: ClassVar = "tfjobs"
    replica_specs: ClassVar = "tfReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Chief", "Master", "PS", "Worker", "Evaluator")


class XGBoostJob(KubeflowJob):
    """An XGBoostJob."""

    integration: ClassVar = "kubeflow.org/xgboostjob"
    kind: ClassVar = "XGBoostJob"
    plural: ClassVar = "xgboostjobs"
    replica_specs: ClassVar = "xgbReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Master", "Worker")
