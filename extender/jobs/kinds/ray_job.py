"""RayJob (ray.io): the head of its cluster, its groups of workers, and the pod that submits."""

from collections.abc import Collection
from typing import ClassVar, Final

from typing_extensions import override

from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.job import Finished, GenericJob
from extender.jobs.pod_sets import Slot

_HEAD: Final = "head"
_SUBMITTER: Final = "submitter"
_NOT_BEGUN: Final = frozenset(("", "Suspended"))
_ENDED: Final = frozenset(("Complete", "Failed"))
_DEFAULT_MODE: Final = "K8sJobMode"


class RayJob(GenericJob):
    """A RayJob with a cluster of its own."""

    integration: ClassVar = "ray.io/rayjob"
    kind: ClassVar = "RayJob"
    group: ClassVar = "ray.io"
    version: ClassVar = "v1"
    plural: ClassVar = "rayjobs"

    @override
    def skip(self) -> bool:
        """Return whether it uses a cluster that exists: such a RayJob needs no quota of its own."""
        return bool(fields.mapping(self.object, "spec", "clusterSelector"))

    @override
    def slots(self) -> list[Slot]:
        cluster = fields.ensure(self.object, "spec", "rayClusterSpec")
        head = Slot(_HEAD, 1, fields.ensure(cluster, "headGroupSpec", "template"))
        workers = (
            Slot(
                fields.text(each, "groupName").lower(),
                _hosts(each),
                fields.ensure(each, "template"),
            )
            for each in fields.objects(cluster, "workerGroupSpecs")
        )
        mode = fields.text(self.object, "spec", "submissionMode") or _DEFAULT_MODE
        submitter = [Slot(_SUBMITTER, 1, self._submitter(head))] if mode == _DEFAULT_MODE else []
        return [head, *workers, *submitter]

    @override
    def finished(self) -> Finished | None:
        if self._deployment() not in _ENDED:
            return None
        success = fields.text(self.object, "status", "jobStatus") == "SUCCEEDED"
        return Finished(success, fields.text(self.object, "status", "message"))

    @override
    def pods_ready(self) -> bool:
        return fields.text(self.object, "status", "rayClusterStatus", "state") == "ready"

    @override
    def is_active(self) -> bool:
        return self._deployment() not in _NOT_BEGUN

    @override
    def makes(self, kind: str, name: str) -> bool:
        """Return whether it is the Job of the submitter, which is named like the RayJob."""
        return (kind, name) == ("batch/job", fields.text(self.object, "metadata", "name"))

    @override
    def late_pod_sets(self) -> Collection[str]:
        """Return the submitter: it is made when the cluster is ready."""
        return (_SUBMITTER,)

    def _deployment(self) -> str:
        return fields.text(self.object, "status", "jobDeploymentStatus")

    def _submitter(self, head: Slot) -> Object:
        """Return the submitter's template, or what the operator makes where there is none.

        That one cannot be given a place: what is injected into it is lost.
        """
        own = fields.value(self.object, "spec", "submitterPodTemplate")
        if isinstance(own, dict):
            return own
        first = next(iter(fields.objects(head.template, "spec", "containers")), {})
        container = {
            "name": "ray-job-submitter",
            "image": fields.text(first, "image"),
            "resources": {
                "requests": {"cpu": "500m", "memory": "200Mi"},
                "limits": {"cpu": "1", "memory": "1Gi"},
            },
        }
        return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _hosts(workers: Object) -> int:
    each = max(1, fields.count(workers, "numOfHosts", default=1))
    return fields.times(fields.count(workers, "replicas", default=1), each)
