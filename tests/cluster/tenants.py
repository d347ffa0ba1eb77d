"""A tenant with `edit` in one namespace, and the others that it must not harm."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.cluster.gangs import Gangs
from tests.cluster.queues import JOBS, Queues
from tests.harness import objects
from tests.harness.client import PATIENCE_SECONDS, Api, ApiError, Object

USER, ROLE = "tenant", "tenant-writes"
EDIT = ("system:aggregate-to-edit", "system:aggregate-to-view", "gang-queue-viewer", ROLE)
WRITES: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": ROLE},
    "rules": [
        {"apiGroups": [group], "resources": [resource], "verbs": ["*"]}
        for group, resource in (
            ("scheduling.x-k8s.io", "podgroups"),
            ("scheduling.sigs.k8s.io", "podgroups"),
            ("kueue.x-k8s.io", "workloads"),
            ("kueue.x-k8s.io", "localqueues"),
            ("jobset.x-k8s.io", "jobsets"),
            ("kubeflow.org", "*"),
            ("ray.io", "rayjobs"),
            ("ray.io", "rayclusters"),
        )
    ],
}


@dataclass(frozen=True)
class Tenant:
    """A user in a namespace of its own, with a LocalQueue there."""

    api: Api
    namespace: str
    gangs: Gangs
    queues: Queues

    def forbidden(self, resource: str, name: str, status: Object) -> bool:
        """Return whether it may not write the status of one of its objects."""
        body = {"status": status}
        try:
            self.api.patch(resource, name, self.namespace, body=body, subresource="status")
        except ApiError as error:
            return error.status == 403
        return False


def bind(namespace: str, role: str) -> Object:
    """Return how the tenant gets a role in a namespace."""
    name = role.replace(":", "-")
    return objects.binding(name, role, {"name": USER}, namespace=namespace)


def may_list(api: Api, namespace: str, *resources: str) -> bool:
    """Return whether a user has its rights: the API server learns of them some time later."""
    try:
        for each in resources:
            api.list(each, namespace)
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


@dataclass(frozen=True)
class Others:
    """Another namespace with a queue of its own, and the nodes."""

    queues: Queues
    gangs: Gangs
    nodes: list[str]

    def start(
        self, *, scheduler_name: str | None = None, timeout: float = PATIENCE_SECONDS
    ) -> None:
        """Have a gang and a Job start, and end; AssertionError where they do not."""
        name = f"proof-{uuid4().hex[:6]}"
        self.gangs.create(name, 3, cpu="1", run_for="1h", scheduler_name=scheduler_name)
        self.gangs.await_phases(name, timeout, Running=3)
        self.gangs.delete([f"{name}-{number}" for number in range(3)])
        own = {"schedulerName": scheduler_name} if scheduler_name else {}
        self.queues.job(name, 2, run_for="1h", pod_spec=own)
        self.queues.await_admitted(name)
        self.queues.await_condition(name, "PodsReady", timeout=timeout)
        self.queues.api.delete(JOBS, name, self.queues.namespace)


def queue_of(tenant: Tenant, queues: Queues, **spec: Any) -> str:
    """Give the tenant a ClusterQueue of its own, through the LocalQueue `queue`."""
    name = queues.cluster_queue("tenant", **spec)
    tenant.queues.local_queue("queue", name)
    return name
