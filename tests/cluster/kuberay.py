"""A stand-in for KubeRay: it does with RayJobs what ray-operator v1.5 to v1.7 does.

Its states, and the fields that it writes in each, are those of `rayjob_controller.go`. A test says
how a Ray job ends, and when a cluster that is kept for a time is deleted; all else goes by itself.
"""

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, Self

from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.objects import Object

JOBS: Final = "ray.io/v1/rayjobs"
CLUSTERS: Final = "ray.io/v1/rayclusters"
SUBMIT: Final = "ray-job-submitter"
DEFAULT_MODE: Final = "K8sJobMode"
SUBMITTER: Final[Object] = {
    "resources": {
        "requests": {"cpu": "500m", "memory": "200Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
}
_SUSPENDABLE: Final = ("Initializing", "Running")
_RESET: Final = {
    "rayClusterName": None,
    "rayClusterStatus": None,
    "jobId": None,
    "jobStatus": None,
    "message": None,
    "reason": None,
}
_PAUSE: Final = 0.05


class KubeRay:
    """Reconciles the RayJobs of one namespace, in a thread, until the test has ended."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._api = Api(kubeconfig)
        self._namespace = namespace
        self._numbers = count()
        self._ends: dict[str, str] = {}
        self._expired: set[str] = set()
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._pass = Lock()
        """Held while it looks at the jobs once."""
        self._paused = False
        self.failures: list[BaseException] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._api.close()
        if kind is None and self.failures:
            raise self.failures[0]

    def end(self, name: str, outcome: str = "SUCCEEDED") -> None:
        """Let the Ray job of a RayJob end."""
        self._ends[name] = outcome

    def expire(self, name: str) -> None:
        """Let ttlSecondsAfterFinished of a RayJob be over."""
        self._expired.add(name)

    @property
    def paused(self) -> bool:
        """Whether it is not there: nothing happens to RayJobs meanwhile."""
        return self._paused

    @paused.setter
    def paused(self, value: bool) -> None:
        with self._pass:  # a look that has begun may have read jobs before, and not acted yet
            self._paused = value

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE):
            with self._pass:
                for job in [] if self._paused else self._api.list(JOBS, self._namespace):
                    self._try(job)

    def _try(self, job: Object) -> None:
        try:
            self._reconcile(job)
        except ApiError as error:
            if error.status not in {404, 409}:  # it is tried again
                self.failures.append(error)
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            self.failures.append(error)

    def _reconcile(self, job: Object) -> None:
        word = job.get("status", {}).get("jobDeploymentStatus", "")
        wrong = _wrong(job["spec"])
        if wrong:
            said = {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed"}
            self._report(job, **said, message=wrong)
        elif word in _SUSPENDABLE and job["spec"].get("suspend"):
            self._report(job, jobDeploymentStatus="Suspending")
        else:
            states = {
                "": self._initialize,
                "Initializing": self._begin,
                "Running": self._look_at_the_end,
                "Suspending": self._delete_all,
                "Retrying": self._delete_all,
                "Suspended": self._resume,
                "Complete": self._shut_down,
                "Failed": self._shut_down,
            }
            if word in states:
                states[word](job)

    def _initialize(self, job: Object) -> None:
        name = f"{job['metadata']['name']}-{next(self._numbers)}"
        known = job.get("status", {}).get("rayClusterName", name)
        self._report(job, jobDeploymentStatus="Initializing", jobId=name, rayClusterName=known)

    def _delete_all(self, job: Object) -> None:
        if self._is_deleted(job):
            suspends = job["status"]["jobDeploymentStatus"] == "Suspending"
            self._report(job, **{**_RESET, "jobDeploymentStatus": "Suspended" if suspends else ""})

    def _resume(self, job: Object) -> None:
        if not job["spec"].get("suspend"):
            self._report(job, jobDeploymentStatus="")

    def _shut_down(self, job: Object) -> None:
        kept = job["spec"].get("ttlSecondsAfterFinished") and job["metadata"]["name"]
        shuts_down = job["spec"].get("shutdownAfterJobFinishes")
        if shuts_down and (not kept or kept in self._expired):
            self._delete(CLUSTERS, job["status"]["rayClusterName"])

    def _begin(self, job: Object) -> None:
        name = job["status"]["rayClusterName"]
        cluster = self._api.find(CLUSTERS, name, self._namespace)
        if cluster is None:
            return self._make_cluster(job, name)
        pods = self._pods(name)
        if not pods or any(each["status"].get("phase") != "Running" for each in pods):
            return None
        if job["spec"].get("submissionMode", DEFAULT_MODE) == DEFAULT_MODE:
            self._submit(job)
        # Written when Ray's dashboard has answered, and not before.
        running = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
        return self._report(job, **running, rayClusterStatus={"state": "ready"})

    def _make_cluster(self, job: Object, name: str) -> None:
        spec = deepcopy(job["spec"]["rayClusterSpec"])
        head = spec["headGroupSpec"]["template"]
        if job["spec"].get("submissionMode") == "SidecarMode":
            image = head["spec"]["containers"][0]["image"]
            head["spec"]["containers"].append({"name": SUBMIT, "image": image, **SUBMITTER})
        meta = {"name": name, "labels": job["metadata"].get("labels", {})}
        cluster = self._create("ray.io/v1", "RayCluster", job, meta, {"spec": spec})
        made = [("head", 1, head)]
        made += [(g["groupName"], workers(g), g["template"]) for g in spec["workerGroupSpecs"]]
        for role, number, template in made:
            for index in range(number):
                labels = {**template.get("metadata", {}).get("labels", {}), "ray.io/cluster": name}
                meta = {**template.get("metadata", {}), "labels": labels}
                meta["name"] = f"{name}-{role.lower()}-{index}"
                self._create("v1", "Pod", cluster, meta, {"spec": template["spec"]})

    def _submit(self, job: Object) -> None:
        image = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        default = {
            "spec": {
                "containers": [{"name": SUBMIT, "image": image["image"], **SUBMITTER}],
                "restartPolicy": "Never",
            }
        }
        template = deepcopy(job["spec"].get("submitterPodTemplate", default))
        template["spec"].setdefault("restartPolicy", "Never")
        meta = {"name": job["metadata"]["name"]}
        spec = {"backoffLimit": 2, "template": template}
        self._create("batch/v1", "Job", job, meta, {"spec": spec})

    def _look_at_the_end(self, job: Object) -> None:
        outcome = self._ends.pop(job["metadata"]["name"], None)
        if outcome is None:
            return
        failed = job["status"].get("failed", 0) + (outcome == "FAILED")
        word = "Complete" if outcome == "SUCCEEDED" else "Failed"
        if outcome == "FAILED" and failed <= job["spec"].get("backoffLimit", 0):
            word = "Retrying"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"jobDeploymentStatus": word, "jobStatus": outcome, "endTime": now}
        self._report(job, **ended, failed=failed)

    def _is_deleted(self, job: Object) -> bool:
        name = job["status"].get("rayClusterName", "")
        self._delete(CLUSTERS, name)
        self._delete("batch/v1/jobs", job["metadata"]["name"])
        found = self._api.find(CLUSTERS, name, self._namespace) if name else None
        return found is None and not self._pods(name)

    def _pods(self, cluster: str) -> list[Object]:
        return self._api.list("pods", self._namespace, labels=f"ray.io/cluster={cluster}")

    def _delete(self, resource: str, name: str) -> None:
        if self._api.find(resource, name, self._namespace) is not None:
            self._api.delete(resource, name, self._namespace)

    def _create(
        self, version: str, kind: str, owner: Object, meta: Mapping[str, Any], body: Object
    ) -> Object:
        reference = objects.owner(owner, blockOwnerDeletion=True)
        metadata = {**meta, "namespace": self._namespace, "ownerReferences": [reference]}
        return self._api.create({"apiVersion": version, "kind": kind, "metadata": metadata, **body})

    def _report(self, job: Object, **status: Any) -> None:
        if {**job.get("status", {}), **status} == job.get("status", {}):
            return
        name, version = job["metadata"]["name"], job["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "status": status}
        self._api.patch(JOBS, name, self._namespace, body=body, subresource="status")


def workers(group: Mapping[str, Any]) -> int:
    """Return how many pods KubeRay makes for a group of workers (GetWorkerGroupDesiredReplicas)."""
    if group.get("suspend"):
        return 0
    least, most = group.get("minReplicas", 0), group.get("maxReplicas", 2**31 - 1)
    asked = group.get("replicas") or 0
    replicas: int = least if asked < least else min(asked, most)
    return replicas * int(group.get("numOfHosts", 1))


def _wrong(spec: Mapping[str, Any]) -> str:
    """Return why KubeRay refuses a RayJob (ValidateRayJobSpec), as far as the tests have cases."""
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        return "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
    if spec.get("submissionMode") == "SidecarMode" and "submitterPodTemplate" in spec:
        return "Currently, SidecarMode doesn't support SubmitterPodTemplate"
    if spec.get("backoffLimit", 0) < 0:
        return "The RayJob spec is invalid: backoffLimit must be a positive integer"
    return ""
