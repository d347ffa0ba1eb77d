"""The training jobs of Kubeflow: each replica type is a pod set."""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from typing_extensions import override

from extender.jobs import fields
from extender.jobs.job import Finished, OperatedJob, Slot


class KubeflowJob(OperatedJob):
    """A job with replica specs and a run policy."""

    group: ClassVar = "kubeflow.org"
    version: ClassVar = "v1"
    suspend_path: ClassVar[tuple[str, ...]] = ("spec", "runPolicy", "suspend")

    replica_specs: ClassVar[str]
    """The field of the spec."""
    replica_types: ClassVar[tuple[str, ...]]
    """The replica types in the order of the pod sets."""

    @override
    def slots(self) -> list[Slot]:
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
        return self.ended_by(succeeded="Succeeded", failed="Failed")

    @override
    def pods_ready(self) -> bool:
        """Return whether all replicas run or have succeeded: `Running` may be about one of them."""
        if fields.condition(self.object, "Running") is None:
            return False
        specs = fields.mapping(self.object, "spec", self.replica_specs)
        replicas = fields.mapping(self.object, "status", "replicaStatuses")
        return all(
            fields.count(replicas, kind, "active") + fields.count(replicas, kind, "succeeded")
            >= fields.count(specs, kind, "replicas", default=1)
            for kind in self.replica_types
            if kind in specs
        )

    @override
    def makes(self, kind: str, name: str) -> bool:
        """Return False: it makes only pods, which are no jobs of their own."""
        return False

    @override
    def is_active(self) -> bool:
        replicas = fields.mapping(self.object, "status", "replicaStatuses")
        return any(fields.count(replicas, kind, "active") for kind in replicas)

    @override
    def notices_stop(self) -> bool:
        return fields.condition(self.object, "Suspended") is not None

    @override
    def reclaimable_pods(self) -> Mapping[str, int]:
        """Return the replicas that have succeeded; those that failed are made again.

        A stop deletes all pods and a start makes all again. The status of the run before stays
        until the operator reconciles the started job.
        """
        if self.is_suspended() or not self._status_is_of_this_start():
            return {}
        replicas = fields.mapping(self.object, "status", "replicaStatuses")
        done = {
            kind.lower(): fields.count(replicas, kind, "succeeded") for kind in self.replica_types
        }
        found = {slot.name: min(slot.count, done[slot.name]) for slot in self.slots()}
        return {name: count for name, count in found.items() if count}

    def _status_is_of_this_start(self) -> bool:
        """Return whether the status counts replicas that were made since the last start.

        With a stop `Running` becomes False.
        """
        return fields.condition(self.object, "Running") is not None

    @override
    def priority_class(self) -> str:
        """Return that of the scheduling policy, else the first that a template names."""
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
    resumes_as_made: ClassVar = True

    @override
    def has_stopped(self) -> bool:
        """Return whether its operator has seen it suspended, also where it was created so.

        The operator makes the launcher's Job before it says so, from the template that it has read.
        """
        return self.notices_stop() and not self.is_active()

    @override
    def makes(self, kind: str, name: str) -> bool:
        return kind == "batch/job" and ("launcher", name) in self.child_jobs()

    @override
    def child_jobs(self) -> Sequence[tuple[str, str]]:
        """Return the launcher, whose Job the operator makes while the MPIJob is suspended."""
        return (("launcher", f"{fields.text(self.object, 'metadata', 'name')}-launcher"),)

    @override
    def _status_is_of_this_start(self) -> bool:
        """Return True: its controller counts the existing pods, also after a stop."""
        return True

    @override
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


class JAXJob(KubeflowJob):
    """A JAXJob."""

    integration: ClassVar = "kubeflow.org/jaxjob"
    kind: ClassVar = "JAXJob"
    plural: ClassVar = "jaxjobs"
    replica_specs: ClassVar = "jaxReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Worker",)


class PaddleJob(KubeflowJob):
    """A PaddleJob."""

    integration: ClassVar = "kubeflow.org/paddlejob"
    kind: ClassVar = "PaddleJob"
    plural: ClassVar = "paddlejobs"
    replica_specs: ClassVar = "paddleReplicaSpecs"
    replica_types: ClassVar[tuple[str, ...]] = ("Master", "Worker")
