"""RayJob (ray.io): the head of its cluster, its groups of workers, and the pod that submits.

The pod sets are what KubeRay makes of the spec, and not what the spec says: KubeRay keeps the
number of workers between two limits, and adds containers of its own.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import ClassVar, Final

from typing_extensions import override

from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.job import LARGEST_INT32, Finished, OperatedJob, Slot, Step
from extender.jobs.templates import Placement

_HEAD: Final = "head"
_SUBMITTER: Final = "submitter"
_SUBMITTER_TEMPLATE: Final = "submitterPodTemplate"
_FAULT_TOLERANCE: Final = "ray.io/ft-enabled"
_DEFAULT_MODE: Final = "K8sJobMode"
_SUBMIT: Final = {
    "name": "ray-job-submitter",
    "resources": {
        "requests": {"cpu": "500m", "memory": "200Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    },
}
_SMALL: Final = {"cpu": "200m", "memory": "256Mi"}
_CLEAN_REDIS: Final = {
    "name": "redis-cleanup",
    "resources": {"requests": _SMALL, "limits": _SMALL},
}

_IDLE: Final = frozenset(("", "Suspended"))
_RUNNING: Final = frozenset(("Initializing", "Waiting", "Running", "Retrying", "Suspending"))
_INVALID: Final = "ValidationFailed"
_ENDED: Final = frozenset(("Complete", "Failed", _INVALID))
"""KubeRay goes on from none of these."""


class RayJob(OperatedJob):
    """A RayJob with a cluster of its own."""

    integration: ClassVar = "ray.io/rayjob"
    kind: ClassVar = "RayJob"
    group: ClassVar = "ray.io"
    version: ClassVar = "v1"
    plural: ClassVar = "rayjobs"
    pods_outlive_job: ClassVar = True

    @override
    def skip(self) -> bool:
        """Return whether it uses a cluster that exists: such a RayJob needs no quota of its own."""
        return bool(fields.mapping(self.object, "spec", "clusterSelector"))

    @override
    def problem(self) -> str:
        """Return why KubeRay refuses it, or how its cluster could become larger than its quota."""
        deployment, spec = self._deployment(), fields.mapping(self.object, "spec")
        if deployment == _INVALID:
            return f"KubeRay refuses it: {fields.text(self.object, 'status', 'message')}"
        if deployment in _ENDED:
            return ""
        if fields.flag(spec, "rayClusterSpec", "enableInTreeAutoscaling"):
            return (
                "spec.rayClusterSpec.enableInTreeAutoscaling: the cluster could become larger than "
                "its quota. Leave the field out, and ask for all workers with replicas"
            )
        if not fields.flag(spec, "shutdownAfterJobFinishes"):
            return (
                "spec.shutdownAfterJobFinishes: the cluster would stay after the job's end, and "
                "KubeRay suspends no such RayJob. Set the field to true"
            )
        return ""

    @override
    def slots(self) -> list[Slot]:
        cluster = fields.ensure(self.object, "spec", "rayClusterSpec")
        template = fields.ensure(cluster, "headGroupSpec", "template")
        head = Slot(_HEAD, 1, template, counted=self._counted(template, cluster))
        workers = (
            Slot(
                fields.text(each, "groupName").lower(),
                _workers(each),
                fields.ensure(each, "template"),
            )
            for each in fields.objects(cluster, "workerGroupSpecs")
        )
        own = fields.value(self.object, "spec", _SUBMITTER_TEMPLATE)
        submitter = own if isinstance(own, dict) else self._default_submitter()
        return [
            head,
            *workers,
            *([Slot(_SUBMITTER, 1, submitter)] if self._has_submitter() else []),
        ]

    @override
    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Write the placements into the templates; the submitter's default one is written out."""
        spec = fields.ensure(self.object, "spec")
        if self._has_submitter() and not isinstance(spec.get(_SUBMITTER_TEMPLATE), dict):
            spec[_SUBMITTER_TEMPLATE] = self._default_submitter()
        super().inject_node_selectors(placements)

    @override
    def restore_node_selectors(self, pod_sets: Sequence[Slot]) -> None:
        """Undo the injection, and take the submitter's default template away again."""
        super().restore_node_selectors(pod_sets)
        own = fields.mapping(self.object, "spec", _SUBMITTER_TEMPLATE)
        if own and templates.same(own, self._default_submitter()):
            del fields.ensure(self.object, "spec")[_SUBMITTER_TEMPLATE]

    @override
    def suspend(self) -> None:
        """Suspend it, unless it uses a cluster that exists: KubeRay refuses that."""
        if not self.skip():
            super().suspend()

    @override
    def stop_steps(self, pod_sets: Sequence[Slot] | None) -> Sequence[Step]:
        """Return the write that stops the job, with the field without which KubeRay refuses to."""
        changed = deepcopy(self)
        changed.suspend()
        fields.ensure(changed.object, "spec")["shutdownAfterJobFinishes"] = True
        if pod_sets is not None:
            changed.restore_node_selectors(pod_sets)
        return self._steps_to(changed)

    @override
    def stop_message(self, why: str) -> str:
        if fields.flag(self.object, "spec", "shutdownAfterJobFinishes"):
            return why
        return (
            f"{why}. spec.shutdownAfterJobFinishes is now true: KubeRay suspends no other RayJob, "
            "and its cluster would stay after the job's end"
        )

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
        """Return whether it has a cluster, whatever other states KubeRay may come to have."""
        deployment, status = self._deployment(), fields.mapping(self.object, "status")
        has_cluster = status.get("rayClusterName") or status.get("rayClusterStatus")
        return deployment in _RUNNING or (deployment not in _IDLE and bool(has_cluster))

    @override
    def notices_stop(self) -> bool:
        """Return whether KubeRay has seen it; what is not active then has no cluster."""
        return bool(self._deployment())

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

    def _mode(self) -> str:
        return fields.text(self.object, "spec", "submissionMode") or _DEFAULT_MODE

    def _has_submitter(self) -> bool:
        return self._mode() == _DEFAULT_MODE

    def _default_submitter(self) -> Object:
        return {"spec": {"containers": [self._added(_SUBMIT)], "restartPolicy": "Never"}}

    def _added(self, container: Mapping[str, object]) -> Object:
        """Return a container that KubeRay adds: it has the image of the head."""
        cluster = fields.mapping(self.object, "spec", "rayClusterSpec")
        head = fields.objects(cluster, "headGroupSpec", "template", "spec", "containers")
        return {**deepcopy(dict(container)), "image": fields.text(next(iter(head), {}), "image")}

    def _counted(self, head: Object, cluster: Object) -> Object:
        """Return the head's template with the containers that KubeRay adds.

        The pod that cleans Redis comes in place of the head's, which is what an init container
        means for amounts: the larger one counts.
        """
        options = fields.value(cluster, "gcsFaultToleranceOptions")
        if isinstance(options, dict):
            uses_redis = fields.text(options, "backend") != "rocksdb"
        else:
            uses_redis = fields.annotation(self.object, _FAULT_TOLERANCE).lower() == "true"
        counted = deepcopy(head)
        spec = fields.ensure(counted, "spec")
        for is_added, name, container in (
            (self._mode() == "SidecarMode", "containers", _SUBMIT),
            (uses_redis, "initContainers", _CLEAN_REDIS),
        ):
            if is_added:
                spec[name] = [*fields.objects(spec, name), self._added(container)]
        return counted


def _workers(group: Object) -> int:
    """Return how many pods KubeRay makes for a group of workers; below zero for no such number."""
    least = fields.count(group, "minReplicas")
    most = fields.count(group, "maxReplicas", default=LARGEST_INT32)
    asked = fields.count(group, "replicas", default=least)
    if fields.flag(group, "suspend"):
        return 0
    if min(least, most, asked) < 0:
        return -1
    replicas = least if asked < least else min(asked, most)
    return fields.times(replicas, fields.count(group, "numOfHosts", default=1))
