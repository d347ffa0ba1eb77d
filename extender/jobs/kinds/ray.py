"""The kinds of KubeRay (ray.io): the head of a cluster, its groups of workers, and what submits.

The pod sets are what KubeRay makes of the spec, and not what the spec says: KubeRay keeps the
number of workers between two limits, and adds containers of its own.

A RayService has no class: KubeRay makes RayClusters of it, with its labels, and each is queued for
itself. KubeRay reads `suspend` of a RayService only when it makes one.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import ClassVar, Final

from typing_extensions import override

from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.job import LARGEST_INT32, Finished, OperatedJob, Slot, Step
from extender.jobs.templates import Placement
from extender.state.queue.records import WorkloadInfo

_HEAD: Final = "head"
_SUBMITTER: Final = "submitter"
_SUBMITTER_TEMPLATE: Final = "submitterPodTemplate"
_FAULT_TOLERANCE: Final = "ray.io/ft-enabled"
_MODE: Final = "submissionMode"
_SUSPENDED: Final = "RayClusterSuspended"
_LONGEST_LABEL: Final = 63
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


class RayKind(OperatedJob):
    """An object that holds the spec of a Ray cluster."""

    group: ClassVar = "ray.io"
    version: ClassVar = "v1"
    cluster_path: ClassVar[tuple[str, ...]]
    """The field with the spec of the cluster."""

    @override
    def slots(self) -> list[Slot]:
        cluster = fields.ensure(self.object, *self.cluster_path)
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
        return [head, *workers]

    @override
    def problem(self) -> str:
        """Return how the cluster could become larger than its quota, or which name it has twice."""
        return self.growth() or self._named_twice()

    def growth(self) -> str:
        """Return how the cluster could become larger than its quota, or nothing."""
        path = ".".join(self.cluster_path)
        if not fields.flag(self.object, *self.cluster_path, "enableInTreeAutoscaling"):
            return ""
        return (
            f"{path}.enableInTreeAutoscaling: the cluster could become larger than its quota. "
            "Leave the field out, and ask for all workers with replicas"
        )

    def _named_twice(self) -> str:
        path = ".".join(self.cluster_path)
        names = [each.name for each in self.slots()]
        twice = next((each for each in names if names.count(each) > 1), None)
        if twice is None:
            return ""
        return (
            f"{path}.workerGroupSpecs: {twice!r} is the name of two pod sets. Give each group a "
            f"groupName of its own; {_HEAD!r} is reserved for the head group"
        )

    def _added(self, container: Mapping[str, object]) -> Object:
        """Return a container that KubeRay adds: it has the image of the head."""
        cluster = fields.mapping(self.object, *self.cluster_path)
        head = fields.objects(cluster, "headGroupSpec", "template", "spec", "containers")
        return {**deepcopy(dict(container)), "image": fields.text(next(iter(head), {}), "image")}

    def _uses_redis(self, cluster: Mapping[str, object]) -> bool:
        options = fields.value(cluster, "gcsFaultToleranceOptions")
        if isinstance(options, dict):
            return fields.text(options, "backend") != "rocksdb"
        return fields.annotation(self.object, _FAULT_TOLERANCE).lower() == "true"

    def _counted(self, head: Object, cluster: Object) -> Object:
        """Return the head's template with the containers that KubeRay adds.

        The pod that cleans Redis comes in place of the head's, which is what an init container
        means for amounts: the larger one counts.
        """
        counted = deepcopy(head)
        spec = fields.ensure(counted, "spec")
        for is_added, name, container in (
            (fields.text(self.object, "spec", _MODE) == "SidecarMode", "containers", _SUBMIT),
            (self._uses_redis(cluster), "initContainers", _CLEAN_REDIS),
        ):
            if is_added:
                spec[name] = [*fields.objects(spec, name), self._added(container)]
        return counted


class RayCluster(RayKind):
    """A RayCluster, which runs until it is deleted."""

    integration: ClassVar = "ray.io/raycluster"
    kind: ClassVar = "RayCluster"
    plural: ClassVar = "rayclusters"
    cluster_path: ClassVar[tuple[str, ...]] = ("spec",)
    forgets_after: ClassVar = 30.0

    @override
    def skip(self) -> bool:
        """Return whether a RayJob made it, which is queued itself.

        Only KubeRay may write such a reference: `manifests/policies/jobs.yaml` says so.
        """
        owners = fields.objects(self.object, "metadata", "ownerReferences")
        return any(
            fields.flag(each, "controller")
            and fields.text(each, "kind") == RayJob.kind
            and fields.text(each, "apiVersion").startswith("ray.io/")
            for each in owners
        )

    @override
    def finished(self) -> Finished | None:
        return None

    @override
    def pods_ready(self) -> bool:
        return fields.text(self.object, "status", "state") == "ready"

    @override
    def is_active(self) -> bool:
        """Return whether it may have pods: until KubeRay says that it is suspended, it may."""
        if not fields.mapping(self.object, "status"):
            return False
        return not self.notices_stop()

    @override
    def notices_stop(self) -> bool:
        """Return whether KubeRay has deleted all pods.

        `state` stays as it was while a cluster starts. KubeRay before 1.3 has no condition for it.
        """
        conditions = fields.objects(self.object, "status", "conditions")
        if any(fields.text(each, "type") == _SUSPENDED for each in conditions):
            return fields.condition(self.object, _SUSPENDED) is not None
        return fields.text(self.object, "status", "state") == "suspended"

    @override
    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether the workload asks for what it asks for, and it cannot become larger.

        KubeRay follows changes of a cluster that runs.
        """
        return not self.problem() and super().equivalent_to_workload(workload)

    @override
    def last_pods(self) -> int:
        """Return one for the pod that cleans Redis, without which KubeRay keeps the cluster."""
        return int(self._uses_redis(fields.mapping(self.object, "spec")))

    @override
    def makes(self, kind: str, name: str) -> bool:
        """Return whether it is the Job that cleans Redis when the cluster is deleted."""
        cleaner = f"{fields.text(self.object, 'metadata', 'name')}-redis-cleanup"
        return (kind, name) == ("batch/job", cleaner[-_LONGEST_LABEL:])


class RayJob(RayKind):
    """A RayJob with a cluster of its own."""

    integration: ClassVar = "ray.io/rayjob"
    kind: ClassVar = "RayJob"
    plural: ClassVar = "rayjobs"
    cluster_path: ClassVar[tuple[str, ...]] = ("spec", "rayClusterSpec")
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
        if not fields.flag(spec, "shutdownAfterJobFinishes"):
            return (
                "spec.shutdownAfterJobFinishes: the cluster would stay after the job's end, and "
                "KubeRay suspends no such RayJob. Set the field to true"
            )
        return super().problem()

    @override
    def slots(self) -> list[Slot]:
        own = fields.value(self.object, "spec", _SUBMITTER_TEMPLATE)
        submitter = own if isinstance(own, dict) else self._default_submitter()
        return [
            *super().slots(),
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

    def _has_submitter(self) -> bool:
        return fields.text(self.object, "spec", _MODE) in ("", "K8sJobMode")

    def _default_submitter(self) -> Object:
        return {"spec": {"containers": [self._added(_SUBMIT)], "restartPolicy": "Never"}}


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
