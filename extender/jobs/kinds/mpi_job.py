"""MPIJob (kubeflow.org): a launcher and its workers."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from typing_extensions import override

from extender.jobs import fields
from extender.jobs.kinds.kubeflow import KubeflowJob


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
