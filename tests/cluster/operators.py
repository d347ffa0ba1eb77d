"""A stand-in for the training operator: it makes the pods of a PyTorchJob and writes its status.

It does what was recorded of the real one, and only when a test lets it: a real operator may be late
with each of these steps. It makes all pods anew, and a stop deletes them.
`tests/cluster/partners` has what jobs do beside the real ones.
"""

from collections.abc import Mapping
from typing import Any

from tests.harness import objects
from tests.harness.client import Api
from tests.harness.kinds import FOREIGN
from tests.harness.objects import Object

SECONDS = 120


class Operator:
    """The operator of one job."""

    def __init__(self, api: Api, job: Object) -> None:
        self._api = api
        self._meta = job["metadata"]
        self._resource = "/".join(FOREIGN[job["kind"]])
        self.labels: Mapping[str, str] = {}
        """What it writes into the labels of each pod, over those of the template."""
        self._owner = objects.owner(job, blockOwnerDeletion=True)

    @property
    def job(self) -> Object:
        """The job as it is stored."""
        return self._api.get(self._resource, self._meta["name"], self._meta["namespace"])

    @property
    def suspended(self) -> bool:
        """Whether nothing may run."""
        spec = self.job["spec"]
        return spec.get("runPolicy", spec).get("suspend") is True

    def notice(self) -> None:
        """See that the job is suspended, and write the status."""
        assert self.suspended
        idle = {role: {"active": 0} for role in self._replicas()}
        conditions = [
            {"type": "Running", "status": "False"},
            {"type": "Suspended", "status": "True"},
        ]
        self.report({"conditions": conditions, "replicaStatuses": idle})

    def start(self, *, reports: bool = True) -> None:
        """Make what the templates ask for once it may run, and write the status.

        Without `reports` the status is late.
        """
        self._api.wait_for("it may run", lambda: not self.suspended, SECONDS)
        self._api.wait_for("its former pods are gone", lambda: not self._pods(), SECONDS)
        replicas = self._replicas()
        for role, spec in replicas.items():
            for number in range(spec.get("replicas", 1)):
                self._create(f"{role.lower()}-{number}", spec["template"])
        if reports:
            active = {role: {"active": spec.get("replicas", 1)} for role, spec in replicas.items()}
            running = [{"type": "Running", "status": "True"}]
            self.report({"conditions": running, "replicaStatuses": active})

    def stop(self) -> None:
        """Delete its pods, and write the status."""
        self._delete_pods()
        self.notice()

    def finish(self) -> None:
        """Write that it has succeeded, and delete its pods."""
        self._delete_pods()
        self.report({"conditions": [{"type": "Succeeded", "status": "True", "message": "done"}]})

    def report(self, status: Mapping[str, Any]) -> None:
        """Write the status."""
        name, namespace = self._meta["name"], self._meta["namespace"]
        body = {"status": status}
        self._api.patch(self._resource, name, namespace, body=body, subresource="status")

    def _replicas(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.job["spec"]["pytorchReplicaSpecs"]
        return found

    def _pods(self) -> list[Object]:
        pods = self._api.list("pods", self._meta["namespace"])
        return [p for p in pods if self._owner in p["metadata"].get("ownerReferences", [])]

    def _create(self, name: str, template: Object) -> None:
        meta = template.get("metadata", {})
        meta = {
            **meta,
            "name": f"{self._meta['name']}-{name}",
            "namespace": self._meta["namespace"],
            "labels": {**meta.get("labels", {}), **self.labels},
            "ownerReferences": [self._owner],
        }
        spec = {**template["spec"], "restartPolicy": "Never"}
        self._api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def _delete_pods(self) -> None:
        for pod in self._pods():
            self._api.delete("pods", pod["metadata"]["name"], self._meta["namespace"])
