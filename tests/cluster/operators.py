"""Stand-ins for the operators of other kinds: they make the pods of a job and tell how it goes.

They do what those do that are not here, and no more: pods while the job is not suspended, none
while it is, and the status that the real operator would write.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.harness.client import Api
from tests.harness.objects import Object


@dataclass(frozen=True)
class Kind:
    """Where a kind is, what holds its jobs, and where its templates are."""

    resource: str
    suspend: tuple[str, ...]
    templates: str
    """`replicas` of Kubeflow, `jobs` of a JobSet, `cluster` of Ray."""
    field: str = ""
    """Of the replicas."""


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
    """Whoever looks after one job of one of these kinds."""

    def __init__(self, api: Api, job: Object) -> None:
        self._api = api
        self._meta = job["metadata"]
        self._kind = KINDS[job["kind"]]
        self._owner = {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "name": self._meta["name"],
            "uid": self._meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }

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

    def start(self) -> list[Object]:
        """Make what the job's templates ask for, and tell that it runs; return what was made.

        One that was admitted is let go a moment later.
        """
        self._api.wait_for(f"{self._meta['name']} is let go", lambda: not self.suspended)
        job = self.job
        made = _jobs(job) if self._kind.templates == "jobs" else _pods(job, self._kind)
        for each in made:
            each["metadata"] |= {
                "namespace": self._meta["namespace"],
                "ownerReferences": [self._owner],
            }
            self._api.create(each)
        self.tell(_running(job, self._kind))
        return made

    def stop(self) -> None:
        """Delete what there is of it, and tell that nothing runs."""
        for resource in ("pods", "batch/v1/jobs"):
            for each in self._api.list(resource, self._meta["namespace"]):
                if self._owner in each["metadata"].get("ownerReferences", []):
                    self._api.delete(resource, each["metadata"]["name"], self._meta["namespace"])
        self.tell(_idle(self.job, self._kind))

    def finish(self) -> None:
        """Tell that it has succeeded, and delete its pods."""
        self.stop()
        if self._kind.templates == "cluster":
            return self.tell({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"})
        word = "Completed" if self._kind.templates == "jobs" else "Succeeded"
        return self.tell({"conditions": [{"type": word, "status": "True", "message": "done"}]})

    def tell(self, status: Mapping[str, Any]) -> None:
        """Write the status."""
        name, namespace = self._meta["name"], self._meta["namespace"]
        body = {"status": status}
        self._api.patch(self._kind.resource, name, namespace, body=body, subresource="status")


def _jobs(job: Object) -> list[Object]:
    """Return the Jobs of a JobSet."""
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **each["template"].get("metadata", {}),
                "name": f"{job['metadata']['name']}-{each['name']}-{number}",
            },
            "spec": {**each["template"]["spec"], "suspend": False},
        }
        for each in job["spec"]["replicatedJobs"]
        for number in range(each.get("replicas", 1))
    ]


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
        ]
    cluster = job["spec"]["rayClusterSpec"]
    return [
        ("head", 1, cluster["headGroupSpec"]["template"]),
        *(
            (each["groupName"], each["replicas"], each["template"])
            for each in cluster["workerGroupSpecs"]
        ),
    ]


def _running(job: Object, kind: Kind) -> Object:
    if kind.templates == "cluster":
        return {"jobDeploymentStatus": "Running", "rayClusterStatus": {"state": "ready"}}
    if kind.templates == "jobs":
        return {
            "replicatedJobsStatus": [
                {"name": each["name"], "active": each.get("replicas", 1), "ready": 0}
                for each in job["spec"]["replicatedJobs"]
            ]
        }
    return {
        "conditions": [{"type": "Running", "status": "True"}],
        "replicaStatuses": {
            role: {"active": spec.get("replicas", 1)}
            for role, spec in job["spec"][kind.field].items()
        },
    }


def _idle(job: Object, kind: Kind) -> Object:
    if kind.templates == "cluster":
        return {"jobDeploymentStatus": "Suspended", "rayClusterStatus": None}
    if kind.templates == "jobs":
        names = [each["name"] for each in job["spec"]["replicatedJobs"]]
        return {"replicatedJobsStatus": [{"name": name, "active": 0} for name in names]}
    return {
        "conditions": [{"type": "Suspended", "status": "True"}],
        "replicaStatuses": {role: {"active": 0} for role in job["spec"][kind.field]},
    }
