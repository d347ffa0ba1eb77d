"""Jobs of others' kinds as the real operators run them: how each is made, read and ended."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from tests.cluster.partners.dashboard import Dashboard
from tests.cluster.queues import QUEUE, WORKLOADS, Queues
from tests.harness.client import Api, ApiError, Object
from tests.harness.objects import EXIT_CODE, RUN_FOR
from tests.harness.partners import (
    APPWRAPPER,
    JOBSET,
    KUBERAY,
    MPI,
    SPARK,
    TRAINER,
    TRAINING,
    Partner,
)

SECONDS: Final = 180
NAME: Final = "NAME"
"""The name of the job, in its spec."""
PRIORITY: Final = "kueue.x-k8s.io/priority-class"


def template(cpu: str = "1", name: str = "main") -> Object:
    """Return a pod template of one container; its pods run until a test ends them."""
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    container = {"name": name, "image": "example.invalid/nothing", "resources": resources}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"annotations": {RUN_FOR: "1h"}}, "spec": spec}


def jobset() -> Object:
    """Return the spec of a JobSet: a driver and two Jobs of one worker each."""

    def jobs(name: str, replicas: int) -> Object:
        spec = {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": template()}
        # The label is on the Jobs too, as some have it.
        meta = {"labels": {QUEUE: "queue"}}
        return {"name": name, "replicas": replicas, "template": {"metadata": meta, "spec": spec}}

    failures = {"maxRestarts": 3}
    return {"replicatedJobs": [jobs("driver", 1), jobs("workers", 2)], "failurePolicy": failures}


def mpijob() -> Object:
    """Return the spec of an MPIJob: a launcher and two workers."""
    workers = {"replicas": 2, "restartPolicy": "OnFailure", "template": template()}
    launcher = {"replicas": 1, "restartPolicy": "OnFailure", "template": template()}
    specs = {"Launcher": launcher, "Worker": workers}
    return {"slotsPerWorker": 1, "runPolicy": {"backoffLimit": 3}, "mpiReplicaSpecs": specs}


def trained(field: str, container: str, first: str = "Master") -> Callable[[], Object]:
    """Return what makes the spec of a training job: a first pod and two workers."""

    def spec() -> Object:
        specs = {
            name: {
                "replicas": replicas,
                "restartPolicy": "OnFailure",
                "template": template(name=container),
            }
            for name, replicas in ((first, 1), ("Worker", 2))
        }
        return {"runPolicy": {"backoffLimit": 3}, field: specs}

    return spec


def raycluster(workers: int = 2) -> Object:
    """Return the spec of a RayCluster: a head, and a group of workers."""
    group = {
        "groupName": "workers",
        "replicas": workers,
        "minReplicas": 1,
        "maxReplicas": 8,
        "rayStartParams": {},
        "template": template(name="ray-worker"),
    }
    head = {"rayStartParams": {}, "template": template(name="ray-head")}
    return {"rayVersion": "2.46.0", "headGroupSpec": head, "workerGroupSpecs": [group]}


def rayjob() -> Object:
    """Return the spec of a RayJob: a head, a worker, and what submits the job."""
    return {
        "entrypoint": "python job.py",
        "shutdownAfterJobFinishes": True,
        "submitterPodTemplate": template(name="ray-job-submitter"),
        "rayClusterSpec": raycluster(workers=1),
    }


def rayservice() -> Object:
    """Return the spec of a RayService, with one application."""
    return {"serveConfigV2": "applications: [{name: app}]", "rayClusterConfig": raycluster()}


def runtime(name: str, **jobset: Any) -> Object:
    """Return a runtime of TrainJobs: a driver, and a Job of the nodes that a TrainJob asks for."""

    def jobs(name: str, **metadata: Any) -> Object:
        spec = {"backoffLimit": 0, "template": template(name="node")}
        return {"name": name, "template": {"metadata": metadata, "spec": spec}}

    trainer = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    spec = {**jobset, "replicatedJobs": [jobs("driver"), jobs("node", labels=trainer)]}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": spec}},
    }


def trainjob() -> Object:
    """Return the spec of a TrainJob: a driver and two nodes."""
    return {"runtimeRef": {"name": "restarts"}, "trainer": {"numNodes": 2}}


def appwrapper() -> Object:
    """Return the spec of an AppWrapper: a Job of a driver, and one of two workers."""

    def job(name: str, pods: int) -> Object:
        # A pod that fails is made again by the controller of AppWrappers, with all others.
        spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template()}
        meta = {"name": f"{NAME}-{name}"}
        return {
            "template": {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
        }

    return {"components": [job("driver", 1), job("workers", 2)]}


def sparkapplication() -> Object:
    """Return the spec of a SparkApplication: a driver and two executors."""
    part = {"cores": 1, "memory": "512m", "annotations": {RUN_FOR: "1h"}}
    return {
        "type": "Scala",
        "mode": "cluster",
        "sparkVersion": "4.0.0",
        "image": "example.invalid/nothing",
        "mainApplicationFile": "local:///nothing.jar",
        "driver": part,
        "executor": {**part, "instances": 2},
    }


def without_restarts(spec: Object) -> None:
    """Change the spec of a job so that it never restarts as a whole."""
    spec.pop("failurePolicy", None)
    if "runtimeRef" in spec:
        spec["runtimeRef"] = {"name": "fails"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job that an operator looks after."""

    name: str
    partner: Partner
    resource: str
    api_version: str
    spec: Callable[[], Object]
    suspend: tuple[str, ...]
    """The field that holds a job back."""
    retried: str
    """The part of a pod's name that is in that of the one pod which fails in a test."""
    ends_early: str
    """The same for a pod that succeeds before its job does."""
    gives_back: bool = True
    """False if the operator makes such a pod again, so that its quota is not given back."""
    pods: int = 3
    """The pods of a job that runs, with a CPU each."""
    members: int = 3
    """The pods of a job that start together, as a gang."""
    setting: Sequence[Object] = ()
    """Other objects that such jobs need."""
    ends: bool = True
    """False if it runs until it is deleted: that is its end then."""
    scales: str = ""
    """The field with the number of its workers, as a JSON pointer; empty where none can change."""
    queued_as: str = ""
    """The resource that its operator makes of it and that is queued; empty where it is itself."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The tests that it has no part in, and why."""


_SAME_CLASS: Final = "it shares its class with PyTorchJob, and its operator's code too"
_OF_ITS_CLUSTER: Final = "it is about the RayCluster, which plays it itself"
_MANY: Final = (
    "test_preempted_it_stops_and_starts_again_whole",
    "test_a_pod_that_fails_is_made_again_within_the_quota",
    "test_late_it_is_sent_back_and_runs_once_there_is_room",
    "test_quota_of_pods_that_are_done_goes_to_the_next",
    "test_deleted_half_way_it_leaves_no_pod_and_no_quota",
    "test_moved_to_another_flavor_it_leaves_nothing_of_the_first_behind",
    "test_stopped_at_once_it_has_its_quota_until_its_pods_are_gone",
)
_SCALED: Final = "test_scaled_it_stops_and_has_quota_for_its_new_size"
_FIXED: Final = {_SCALED: "the number of its workers cannot change"}


def training(name: str, field: str, container: str, first: str = "Master") -> Kind:
    """Return a further kind of the training operator."""
    return Kind(
        name,
        TRAINING,
        f"kubeflow.org/v1/{name.lower()}s",
        "kubeflow.org/v1",
        trained(field, container, first),
        ("runPolicy", "suspend"),
        retried="worker-0",
        ends_early="worker-0",
        left_out=dict.fromkeys((*_MANY, _SCALED), _SAME_CLASS),
    )


KINDS: Final = {
    "JobSet": Kind(
        "JobSet",
        JOBSET,
        "jobset.x-k8s.io/v1alpha2/jobsets",
        "jobset.x-k8s.io/v1alpha2",
        jobset,
        ("suspend",),
        retried="workers-0",
        ends_early="workers-0",
        left_out=_FIXED,
    ),
    "MPIJob": Kind(
        "MPIJob",
        MPI,
        "kubeflow.org/v2beta1/mpijobs",
        "kubeflow.org/v2beta1",
        mpijob,
        ("runPolicy", "suspend"),
        retried="launcher",
        ends_early="worker-0",
        scales="/spec/mpiReplicaSpecs/Worker/replicas",
    ),
    "RayJob": Kind(
        "RayJob",
        KUBERAY,
        "ray.io/v1/rayjobs",
        "ray.io/v1",
        rayjob,
        ("suspend",),
        retried="worker",
        ends_early="worker",
        gives_back=False,
        members=2,
        left_out={_SCALED: "KubeRay makes a RayJob's cluster once, as it is then"},
    ),
    "RayCluster": Kind(
        "RayCluster",
        KUBERAY,
        "ray.io/v1/rayclusters",
        "ray.io/v1",
        raycluster,
        ("suspend",),
        retried="head",
        ends_early="worker",
        gives_back=False,
        ends=False,
        scales="/spec/workerGroupSpecs/0/replicas",
    ),
    "RayService": Kind(
        "RayService",
        KUBERAY,
        "ray.io/v1/rayservices",
        "ray.io/v1",
        rayservice,
        ("rayClusterConfig", "suspend"),
        retried="",
        ends_early="",
        ends=False,
        queued_as="ray.io/v1/rayclusters",
        left_out=dict.fromkeys((*_MANY[1:4], *_MANY[5:], _SCALED), _OF_ITS_CLUSTER),
    ),
    "PyTorchJob": Kind(
        "PyTorchJob",
        TRAINING,
        "kubeflow.org/v1/pytorchjobs",
        "kubeflow.org/v1",
        trained("pytorchReplicaSpecs", "pytorch"),
        ("runPolicy", "suspend"),
        retried="worker-0",
        ends_early="worker-0",
        scales="/spec/pytorchReplicaSpecs/Worker/replicas",
    ),
    "TFJob": training("TFJob", "tfReplicaSpecs", "tensorflow", "Chief"),
    "XGBoostJob": training("XGBoostJob", "xgbReplicaSpecs", "xgboost"),
    "PaddleJob": training("PaddleJob", "paddleReplicaSpecs", "paddle"),
    "AppWrapper": Kind(
        "AppWrapper",
        APPWRAPPER,
        "workload.codeflare.dev/v1beta2/appwrappers",
        "workload.codeflare.dev/v1beta2",
        appwrapper,
        ("suspend",),
        retried="driver",
        ends_early="driver",
        left_out=_FIXED
        | {"test_quota_of_pods_that_are_done_goes_to_the_next": "it says nothing of single pods"},
    ),
    "SparkApplication": Kind(
        "SparkApplication",
        SPARK,
        "sparkoperator.k8s.io/v1beta2/sparkapplications",
        "sparkoperator.k8s.io/v1beta2",
        sparkapplication,
        ("suspend",),
        retried="exec-1",
        ends_early="exec-1",
        gives_back=False,
        left_out=_FIXED
        | dict.fromkeys(
            (
                "test_as_a_gang_it_waits_for_room_and_starts_whole",
                "test_on_a_cluster_that_grows_it_starts_from_zero_as_a_gang",
            ),
            "its driver is alone until it runs, and makes the executors",
        ),
    ),
    "TrainJob": Kind(
        "TrainJob",
        TRAINER,
        "trainer.kubeflow.org/v1alpha1/trainjobs",
        "trainer.kubeflow.org/v1alpha1",
        trainjob,
        ("suspend",),
        retried="driver",
        ends_early="driver",
        left_out=_FIXED,
        setting=(runtime("restarts", failurePolicy={"maxRestarts": 3}), runtime("fails")),
    ),
}


class Works:
    """Jobs of one kind in the namespace of a test."""

    def __init__(self, api: Api, queues: Queues, dashboard: Dashboard, kind: Kind) -> None:
        self.api, self.queues, self.dashboard, self.kind = api, queues, dashboard, kind
        self.namespace = queues.namespace

    def create(
        self,
        name: str,
        *,
        suspended: bool = True,
        labels: Mapping[str, str] | None = None,
        change: Callable[[Object], object] = lambda _: None,
    ) -> Object:
        """Create a job in the LocalQueue `queue`; `change` alters its spec before."""
        spec = json.loads(json.dumps(self.kind.spec()).replace(NAME, name))
        holder = spec
        for part in self.kind.suspend[:-1]:
            holder = holder[part]
        holder[self.kind.suspend[-1]] = suspended
        change(spec)
        meta = {
            "name": name,
            "namespace": self.namespace,
            "labels": {QUEUE: "queue", **(labels or {})},
        }
        body = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.name,
            "metadata": meta,
            "spec": spec,
        }
        return self.api.create(body)

    def job(self, name: str) -> Object:
        """Return a job as it is stored, or what is queued of it."""
        if not self.kind.queued_as:
            return self.api.get(self.kind.resource, name, self.namespace)

        def made() -> Object | None:
            found = self.api.list(self.kind.queued_as, self.namespace)
            named = (each for each in found if each["metadata"]["name"].startswith(f"{name}-"))
            return next(named, None)

        return self.api.wait_for(f"there is something of {name} to queue", made, SECONDS)

    def queued(self, name: str) -> str:
        """Return the name of what is queued of a job."""
        return str(self.job(name)["metadata"]["name"]) if self.kind.queued_as else name

    def is_suspended(self, name: str) -> bool:
        """Return whether a job is held back."""
        value: Any = self.job(name)["spec"]
        for part in self.kind.suspend[-1:] if self.kind.queued_as else self.kind.suspend:
            value = value.get(part, {})
        return value is True

    def pods(self, name: str, *phases: str) -> list[Object]:
        """Return the pods of a job that are not being deleted, in some phases or in all."""
        return [
            pod
            for pod in self.api.list("pods", self.namespace)
            if pod["metadata"]["name"].startswith(f"{name}-")
            and "deletionTimestamp" not in pod["metadata"]
            and (not phases or pod["status"].get("phase") in phases)
        ]

    def scale(self, name: str, workers: int) -> None:
        """Give a job that runs another number of workers."""
        change = [{"op": "replace", "path": self.kind.scales, "value": workers}]
        self.api.patch(self.kind.resource, name, self.namespace, body=change, how="json")

    def await_running(self, name: str, pods: int = 0) -> list[Object]:
        """Wait until all pods of a job run, and no more of them, and return them."""

        def running() -> list[Object]:
            live, found = self.pods(name, "Pending", "Running"), self.pods(name, "Running")
            return found if len(live) == len(found) == (pods or self.kind.pods) else []

        try:
            return self.api.wait_for(f"all pods of {name} run", running, SECONDS)
        except AssertionError as error:
            found = {pod["metadata"]["name"]: pod["status"] for pod in self.pods(name)}
            raise AssertionError(
                f"{error}; workload {self.queues.workload(self.queued(name))}; pods {found}; "
                f"status {self.job(name).get('status')}"
            ) from None

    def await_gone(self, name: str, pod: Object) -> None:
        """Wait until a pod of a job no longer runs."""

        def gone() -> bool:
            live = {each["metadata"]["uid"] for each in self.pods(name, "Pending", "Running")}
            return pod["metadata"]["uid"] not in live

        self.api.wait_for(f"{pod['metadata']['name']} runs no more", gone, SECONDS)

    def await_idle(self, name: str) -> None:
        """Wait until a job is suspended and has no live pod."""

        def idle() -> bool:
            return self.is_suspended(name) and not self.pods(name, "Pending", "Running")

        self.api.wait_for(f"{name} is suspended without a pod", idle, SECONDS)

    def finish(self, name: str) -> None:
        """Let a job that runs end, and wait until its Workload is finished or gone."""
        if not self.kind.ends:
            self.delete(name)
            return
        if self.kind.name == "RayJob":
            self.dashboard.ended[self.namespace] = "SUCCEEDED"
        for pod in self.pods(name, "Running"):
            try:
                self.end(pod)
            except ApiError as error:  # its controller deletes it with one that has ended
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        self.queues.await_condition(name, "Finished", timeout=SECONDS)

    def delete(self, name: str) -> None:
        """Delete a job, and wait until its pods and its Workload are gone."""
        queued = self.queued(name)
        self.api.delete(self.kind.resource, name, self.namespace)
        self.api.wait_for(f"the pods of {name} are gone", lambda: not self.pods(name), SECONDS)
        self.api.wait_for(
            f"the workload of {name} is gone", lambda: self.queues.workload(queued) is None, SECONDS
        )

    def end(self, pod: Object, code: int = 0) -> None:
        """Let a pod end with an exit code."""
        annotations = {RUN_FOR: "1ms"} | ({EXIT_CODE: str(code)} if code else {})
        body = {"metadata": {"annotations": annotations}}
        self.api.patch("pods", pod["metadata"]["name"], self.namespace, body=body)

    def await_reserved(self, name: str, *, timeout: float = SECONDS) -> None:
        """Wait until a job's Workload is admitted."""
        self.queues.await_condition(self.queued(name), "Admitted", timeout=timeout)

    def await_pending(self, name: str) -> None:
        """Wait until a job's Workload waits for quota."""
        self.queues.await_condition(self.queued(name), "QuotaReserved", "False", timeout=SECONDS)

    def used(self, cluster_queue: str) -> str:
        """Return how much CPU of a ClusterQueue is in use; empty before its first status."""
        found = self.api.get("kueue.x-k8s.io/v1beta2/clusterqueues", cluster_queue)
        status = found.get("status")
        if status is None:
            return ""
        for flavor in status.get("flavorsUsage", []):
            for each in flavor["resources"]:
                if each["name"] == "cpu":
                    return str(each["total"])
        return "0"

    def patch_workload(self, name: str, spec: Mapping[str, Any]) -> None:
        """Change the spec of a job's Workload."""
        workload = self.queues.workload(self.queued(name))
        assert workload is not None
        found = workload["metadata"]["name"]
        self.api.patch(WORKLOADS, found, self.namespace, body={"spec": dict(spec)})

    def label(self, name: str, key: str, value: str) -> None:
        """Give a job another label."""
        body = {"metadata": {"labels": {key: value}}}
        self.api.patch(self.kind.resource, name, self.namespace, body=body)
