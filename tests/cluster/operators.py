"""Stand-ins for the operators of other kinds: they make the pods of a job and write its status.

They do what was recorded of the real ones, and only when a test lets them: a real operator may be
late with each of these steps.

- JobSet makes its Jobs while it is suspended, and suspends them with a stop. With a resume it adds
  what its templates have to that of the Jobs, and takes nothing away. A Job that has succeeded
  stays as it is.
- The MPI operator makes the launcher's Job while the MPIJob is suspended, and with a resume it
  changes nothing but the Job's `suspend`. A stop deletes the workers.
- Other training jobs make all pods anew. They leave what had succeeded in their status until they
  have been started again.

What KubeRay does is in `tests/cluster/kuberay.py`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.cluster.kuberay import workers
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.objects import RUN_FOR, Object


@dataclass(frozen=True)
class Kind:
    """Where a kind is, what holds its jobs, and where its templates are."""

    resource: str
    suspend: tuple[str, ...]
    templates: str
    """`replicas` of Kubeflow, `jobs` of a JobSet, `cluster` of Ray."""
    field: str = ""
    """Of the replicas."""


SECONDS = 120
_POLICY = ("spec", "runPolicy", "suspend")
KINDS = {
    "JobSet": Kind("jobset.x-k8s.io/v1alpha2/jobsets", ("spec", "suspend"), "jobs"),
    "MPIJob": Kind("kubeflow.org/v2beta1/mpijobs", _POLICY, "replicas", "mpiReplicaSpecs"),
    "PyTorchJob": Kind("kubeflow.org/v1/pytorchjobs", _POLICY, "replicas", "pytorchReplicaSpecs"),
    "TFJob": Kind("kubeflow.org/v1/tfjobs", _POLICY, "replicas", "tfReplicaSpecs"),
    "XGBoostJob": Kind("kubeflow.org/v1/xgboostjobs", _POLICY, "replicas", "xgbReplicaSpecs"),
    "RayJob": Kind("ray.io/v1/rayjobs", ("spec", "suspend"), "cluster"),
}


class Operator:
    """The operator of one job of one of these kinds."""

    def __init__(self, api: Api, job: Object) -> None:
        self._api = api
        self._meta = job["metadata"]
        self._kind = KINDS[job["kind"]]
        self.labels: Mapping[str, str] = {}
        """What it writes into the labels of each pod, over those of the template."""
        self._done: Counter[str] = Counter()
        """How many pods or Jobs of a role have succeeded, of those that there are."""
        self._owner = objects.owner(job, blockOwnerDeletion=True)

    @property
    def job(self) -> Object:
        """The job as it is stored."""
        return self._api.get(self._kind.resource, self._meta["name"], self._meta["namespace"])

    @property
    def suspended(self) -> bool:
        """Whether nothing may run."""
        value: Any = self.job
        for part in self._kind.suspend:
            value = value.get(part, {})
        return value is True

    def notice(self) -> None:
        """See that the job is suspended: make the Jobs that are made then, and write the status."""
        assert self.suspended
        for each in self._jobs(self.job):
            if self._find_job(each) is None:
                self._create({**each, "spec": {**each["spec"], "suspend": True}})
        self.report(_idle(self.job, self._kind, self._done))

    def start(self, *, reports: bool = True) -> list[Object]:
        """Make what the templates ask for once it may run; write the status; return these.

        Without `reports` the status is late.
        """
        self._api.wait_for("it may run", lambda: not self.suspended, SECONDS)
        job = self.job
        if self._kind.templates != "jobs":
            self._done.clear()  # and pods of the same names are made again
            self._api.wait_for("its former pods are gone", lambda: not self._has_pods(), SECONDS)
        made = [*self._jobs(job), *_pods(job, self._kind)]
        for each in made:
            stored = self._find_job(each)
            if stored is None:
                self._create(each)
            elif stored["spec"].get("suspend"):
                self._resume(stored, each["spec"]["template"])
        if reports:
            self.report(_running(job, self._kind, self._done))
        return made

    def _jobs(self, job: Object) -> list[Object]:
        if self._kind.templates == "jobs":
            return _jobs(job, self._done)
        return [_launcher(job)] if job["kind"] == "MPIJob" else []

    def _find_job(self, made: Object) -> Object | None:
        if made["kind"] != "Job":
            return None
        return self._api.find("batch/v1/jobs", made["metadata"]["name"], self._meta["namespace"])

    def _create(self, made: Object) -> None:
        meta = {**made["metadata"], "ownerReferences": [self._owner]}
        meta |= {
            "namespace": self._meta["namespace"],
            "labels": {**meta.get("labels", {}), **self.labels},
        }
        self._api.create({**made, "metadata": meta})

    def _resume(self, stored: Object, template: Object) -> None:
        """Unsuspend a Job; a JobSet adds its directives."""
        name, namespace = stored["metadata"]["name"], self._meta["namespace"]
        change: Object = {"suspend": False}
        if self._kind.templates == "jobs":
            has, wants = stored["spec"]["template"]["spec"], template["spec"]
            former = has.get("tolerations", [])
            more = [each for each in wants.get("tolerations", []) if each not in former]
            change["template"] = {
                "metadata": template["metadata"],
                "spec": {
                    "nodeSelector": wants.get("nodeSelector", {}),
                    "tolerations": [*former, *more],
                },
            }
        self._api.patch("batch/v1/jobs", name, namespace, body={"spec": change})

    def _has_pods(self) -> bool:
        pods = self._api.list("pods", self._meta["namespace"])
        return any(self._owner in pod["metadata"].get("ownerReferences", []) for pod in pods)

    def succeed(self, role: str) -> None:
        """End the next pod of a role, or all of the next Job of a JobSet, and write the status."""
        namespace = self._meta["namespace"]
        name = f"{self._meta['name']}-{role.lower()}-{self._done[role]}"
        pods = [name]
        if self._kind.templates == "jobs":
            found = self._api.list("pods", namespace, labels=f"job-name={name}")
            pods = [each["metadata"]["name"] for each in found]
        for pod in pods:
            body = {"status": {"phase": "Succeeded"}}
            self._api.patch("pods", pod, namespace, body=body, subresource="status")
        if self._kind.templates == "jobs":
            self._api.wait_for(f"{name} is complete", lambda: self._is_complete(name), SECONDS)
        self._done[role] += 1
        self.report(_running(self.job, self._kind, self._done))

    def _is_complete(self, name: str) -> bool:
        status = self._api.get("batch/v1/jobs", name, self._meta["namespace"])["status"]
        return any(each["type"] == "Complete" for each in status.get("conditions", []))

    def stop(self) -> None:
        """Suspend its Jobs, delete its pods, and write the status."""
        self._end(suspends=True)
        self.report(_idle(self.job, self._kind, self._done))

    def _end(self, *, suspends: bool) -> None:
        """Delete what there is of it, but for Jobs that are done or are only to be suspended."""
        namespace, jobs = self._meta["namespace"], "batch/v1/jobs"
        for resource in ("pods", jobs):
            for each in self._api.list(resource, namespace):
                name, owners = each["metadata"]["name"], each["metadata"].get("ownerReferences", [])
                if self._owner not in owners or (resource == jobs and self._is_complete(name)):
                    continue
                if resource == jobs and suspends:
                    self._api.patch(jobs, name, namespace, body={"spec": {"suspend": True}})
                    self._api.wait_for(f"{name} is idle", partial(self._is_idle, name), SECONDS)
                else:
                    self._api.delete(resource, name, namespace)

    def _is_idle(self, name: str) -> bool:
        status = self._api.get("batch/v1/jobs", name, self._meta["namespace"]).get("status", {})
        suspended = any(
            (each["type"], each["status"]) == ("Suspended", "True")
            for each in status.get("conditions", [])
        )
        return suspended and not status.get("active") and not status.get("terminating")

    def finish(self) -> None:
        """Write that it has succeeded, and delete its pods."""
        self._end(suspends=False)
        if self._kind.templates == "cluster":
            return self.report({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"})
        word = "Completed" if self._kind.templates == "jobs" else "Succeeded"
        return self.report({"conditions": [{"type": word, "status": "True", "message": "done"}]})

    def report(self, status: Mapping[str, Any]) -> None:
        """Write the status."""
        name, namespace = self._meta["name"], self._meta["namespace"]
        body = {"status": status}
        self._api.patch(self._kind.resource, name, namespace, body=body, subresource="status")


def _jobs(job: Object, done: Mapping[str, int]) -> list[Object]:
    """Return the Jobs of a JobSet that are not done."""
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **each["template"].get("metadata", {}),
                "name": f"{job['metadata']['name']}-{each['name']}-{number}",
            },
            "spec": _job_spec(each["template"]["spec"]),
        }
        for each in job["spec"]["replicatedJobs"]
        for number in range(done[each["name"]], each.get("replicas", 1))
    ]


def _launcher(job: Object) -> Object:
    template = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    name = f"{job['metadata']['name']}-launcher"
    spec = _job_spec({"template": template})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _job_spec(source: Object) -> Object:
    pods = source["template"]
    meta = pods.get("metadata", {})
    # They run until a test ends them; KWOK would end pods of Jobs after a second.
    stays = {**meta, "annotations": {RUN_FOR: "1h", **meta.get("annotations", {})}}
    template = {"metadata": stays, "spec": {"restartPolicy": "Never", **pods["spec"]}}
    return {**source, "suspend": False, "template": template}


def _pods(job: Object, kind: Kind) -> list[Object]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template.get("metadata", {}),
                "name": f"{job['metadata']['name']}-{role}-{number}",
            },
            "spec": {**template["spec"], "restartPolicy": "Never"},
        }
        for role, count, template in _templates(job, kind)
        for number in range(count)
    ]


def _templates(job: Object, kind: Kind) -> list[tuple[str, int, Object]]:
    if kind.templates == "replicas":
        return [
            (role.lower(), spec.get("replicas", 1), spec["template"])
            for role, spec in job["spec"][kind.field].items()
            if (job["kind"], role) != ("MPIJob", "Launcher")  # a Job makes its pod
        ]
    if kind.templates == "jobs":
        return []
    cluster = job["spec"]["rayClusterSpec"]
    return [
        ("head", 1, cluster["headGroupSpec"]["template"]),
        *(
            (each["groupName"], workers(each), each["template"])
            for each in cluster["workerGroupSpecs"]
        ),
    ]


def _running(job: Object, kind: Kind, done: Mapping[str, int]) -> Object:
    if kind.templates == "cluster":
        cluster = {"rayClusterName": "cluster", "rayClusterStatus": {"state": "ready"}}
        return {"jobDeploymentStatus": "Running", **cluster}
    if kind.templates == "jobs":
        return _reported_of_jobs(job, done, active=True)
    counts = {role: spec.get("replicas", 1) for role, spec in job["spec"][kind.field].items()}
    return {
        "conditions": [{"type": "Running", "status": "True"}],
        "replicaStatuses": {
            role: {"active": count - done[role], "succeeded": done[role] or None}
            for role, count in counts.items()
        },
    }


def _idle(job: Object, kind: Kind, done: Mapping[str, int]) -> Object:
    if kind.templates == "cluster":
        none = {"rayClusterName": None, "rayClusterStatus": None}
        return {"jobDeploymentStatus": "Suspended", **none}
    if kind.templates == "jobs":
        return _reported_of_jobs(job, done, active=False)
    counted = {"succeeded": None} if job["kind"] == "MPIJob" else {}
    return {
        "conditions": [
            {"type": "Running", "status": "False"},
            {"type": "Suspended", "status": "True"},
        ],
        "replicaStatuses": {role: {"active": 0, **counted} for role in job["spec"][kind.field]},
    }


def _reported_of_jobs(job: Object, done: Mapping[str, int], *, active: bool) -> Object:
    reported = []
    for each in job["spec"]["replicatedJobs"]:
        left = each.get("replicas", 1) - done[each["name"]]
        counts = {"active": left if active else 0, "suspended": 0 if active else left}
        ended = {"succeeded": done[each["name"]], "failed": 0}
        reported.append({"name": each["name"], **counts, **ended, "ready": 0})
    order = job["spec"].get("startupPolicy", {}).get("startupPolicyOrder")
    # It stays True for as long as a start in order is under way.
    suspended = not active or order == "InOrder"
    return {
        "conditions": [{"type": "Suspended", "status": str(suspended)}],
        "replicatedJobsStatus": reported,
    }
