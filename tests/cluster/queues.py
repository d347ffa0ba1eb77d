"""Queues of a test: flavors and ClusterQueues that go with it, and what became of its jobs."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from tests.harness import objects
from tests.harness.client import PATIENCE_SECONDS, Api, Object
from tests.harness.objects import RUN_FOR

API = "kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/workloads"
JOBS = "batch/v1/jobs"
QUEUE = "kueue.x-k8s.io/queue-name"
OVERRIDES = "scheduling.x-k8s.io/job-overrides"


class Queues:
    """Makes queues with names of their own, and reads workloads of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.suffix = uuid4().hex[:6]
        self.job_overrides = ""
        """What jobs may change of their ClusterQueue's settings, for queues that are made next."""
        self._made: list[tuple[str, str]] = []

    def name(self, short: str) -> str:
        """Return a cluster-wide name that no other test has."""
        return f"{short}-{self.suffix}"

    def create(self, kind: str, short: str, spec: Mapping[str, Any] | None, **more: Any) -> str:
        """Create a cluster-wide object; return its name."""
        name = self.name(short)
        metadata: Object = {"name": name}
        if kind == "ClusterQueue" and self.job_overrides:
            metadata["annotations"] = {OVERRIDES: self.job_overrides}
        body = {"apiVersion": API, "kind": kind, "metadata": metadata, **more}
        self.api.create(body if spec is None else {**body, "spec": spec})
        plurals = {"Topology": "topologies", "WorkloadPriorityClass": "workloadpriorityclasses"}
        plural = plurals.get(kind, f"{kind.lower()}s")
        self._made.append((f"{API}/{plural}", name))
        return name

    def flavor(self, short: str = "default", **spec: Any) -> str:
        """Create a ResourceFlavor."""
        return self.create("ResourceFlavor", short, spec)

    def cluster_queue(
        self, short: str = "cq", cpu: str | int = 4, *, flavor: str | None = None, **spec: Any
    ) -> str:
        """Create a ClusterQueue with quota for CPU and memory."""
        return self.create(
            "ClusterQueue",
            short,
            {
                "namespaceSelector": {},
                "resourceGroups": [group(flavor or self.flavor(f"{short}-flavor"), cpu=cpu)],
                **spec,
            },
        )

    def local_queue(self, name: str, cluster_queue: str, **spec: Any) -> str:
        """Create a LocalQueue in the namespace of the test."""
        self.api.create(
            {
                "apiVersion": API,
                "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"clusterQueue": cluster_queue, **spec},
            }
        )
        return name

    def simple(self, cpu: str | int = 4, **spec: Any) -> tuple[str, str]:
        """Create a ClusterQueue and the LocalQueue `queue`; return both names."""
        cluster_queue = self.cluster_queue(cpu=cpu, **spec)
        return cluster_queue, self.local_queue("queue", cluster_queue)

    def job(self, name: str, pods: int = 1, **options: Any) -> Object:
        """Create a suspended Job with a queue."""
        options = {"queue": "queue", "suspend": True, "cpu": "1", **options}
        return self.api.create(objects.job(name, pods, namespace=self.namespace, **options))

    def workload(self, job: str) -> Object | None:
        """Return the workload of a job."""
        for each in self.api.list(WORKLOADS, self.namespace):
            owners = each["metadata"].get("ownerReferences", [])
            if any(owner["name"] == job for owner in owners):
                return each
        return None

    def its_workload(self, job: str) -> Object:
        """Return the workload that a job has."""
        found = self.workload(job)
        assert found is not None, job
        return found

    def priority_class(self, short: str, value: int, **more: Any) -> str:
        """Create a WorkloadPriorityClass."""
        return self.create("WorkloadPriorityClass", short, None, value=value, **more)

    def require_room(self, cluster_queue: str) -> None:
        """Have jobs of a ClusterQueue admitted only where the nodes have room."""
        needs = {"metadata": {"annotations": {"scheduling.x-k8s.io/require-room": "true"}}}
        self.api.patch(f"{API}/clusterqueues", cluster_queue, body=needs)

    def condition(self, job: str, kind: str) -> Mapping[str, Any]:
        """Return a condition of the workload of a job; {} where there is none."""
        return condition(self.workload(job), kind)

    def await_condition(
        self,
        job: str,
        kind: str,
        status: str = "True",
        *,
        reason: str | None = None,
        timeout: float = PATIENCE_SECONDS,
    ) -> Mapping[str, Any]:
        """Wait for a condition of a job's workload and return it."""

        def there() -> Mapping[str, Any]:
            found = self.condition(job, kind)
            is_so = found.get("status") == status and reason in (None, found["reason"])
            return found if is_so else {}

        what = f"{kind}={status} {reason or ''} of {job}"
        try:
            return self.api.wait_for(what, there, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.workload(job)}") from None

    def await_admitted(self, *jobs: str) -> None:
        """Wait until all these jobs are admitted."""
        for job in jobs:
            self.await_condition(job, "Admitted")

    def await_started(self, *jobs: str) -> None:
        """Wait until all these jobs run: a job is changed after its workload is admitted."""
        for job in jobs:
            self.await_admitted(job)
            self.api.wait_for(f"{job} is started", partial(self.has_started, job))

    def await_finished(self, *jobs: str, timeout: float = PATIENCE_SECONDS) -> None:
        """Wait until all these jobs have ended."""
        for job in jobs:
            self.await_condition(job, "Finished", timeout=timeout)

    def pods(self, job: str) -> list[Object]:
        """Return the pods of a Job."""
        return self.api.list("pods", self.namespace, labels=f"job-name={job}")

    def end(self, pod: Object, phase: str = "Succeeded") -> None:
        """End a pod as its kubelet would."""
        body, name = {"status": {"phase": phase}}, pod["metadata"]["name"]
        self.api.patch("pods", name, self.namespace, body=body, subresource="status")

    def end_pods(self, job: str, *indexes: str) -> None:
        """Let the pods of a job end that run for long: those of some indexes, or all.

        kube-controller-manager makes the pods of a job some time after its start.
        """
        self.api.wait_for(f"the pods of {job} are there", partial(self._has_pods, job))
        ends = {"metadata": {"annotations": {RUN_FOR: "1ms"}}}
        for pod in self.pods(job):
            index = pod["metadata"]["labels"].get("batch.kubernetes.io/job-completion-index")
            if not indexes or index in indexes:
                self.api.patch("pods", pod["metadata"]["name"], self.namespace, body=ends)

    def _has_pods(self, job: str) -> bool:
        """Return whether all pods of a job that may run at once have been created."""
        found = self.api.get(JOBS, job, self.namespace)
        spec = found["spec"]
        most: int = min(spec["parallelism"], spec.get("completions", spec["parallelism"]))
        return len(self.pods(job)) >= most

    def await_ended(self, job: str) -> None:
        """Wait until a Job is complete, whether its workload says so or not."""

        def complete() -> bool:
            found = condition(self.api.get(JOBS, job, self.namespace), "Complete")
            return found.get("status") == "True"

        self.api.wait_for(f"{job} is complete", complete)

    def has_started(self, job: str) -> bool:
        """Return whether a Job is suspended no more."""
        return not self.is_suspended(job)

    def is_suspended(self, job: str) -> bool:
        """Return whether a Job is suspended."""
        return bool(self.api.get(JOBS, job, self.namespace)["spec"].get("suspend"))

    def made(self, plural: str, name: str) -> None:
        """Have an object deleted with the others."""
        self._made.append((f"{API}/{plural}", name))

    def await_active(self, cluster_queue: str) -> None:
        """Wait until a ClusterQueue can admit."""
        self._await_activity(cluster_queue, "True", "Ready")

    def await_inactive(self, cluster_queue: str, reason: str) -> None:
        """Wait until a ClusterQueue cannot admit, for this reason."""
        self._await_activity(cluster_queue, "False", reason)

    def _await_activity(self, cluster_queue: str, status: str, reason: str) -> None:
        def reported() -> bool:
            found = condition(self.api.get(f"{API}/clusterqueues", cluster_queue), "Active")
            return (found.get("status"), found.get("reason")) == (status, reason)

        self.api.wait_for(f"{cluster_queue} is Active={status}, {reason}", reported)

    def clean(self) -> None:
        """Delete what is cluster-wide."""
        for resource, name in reversed(self._made):
            self.api.delete(resource, name)


def group(flavor: str, **quotas: Any) -> dict[str, Any]:
    """Return a resource group of one flavor: amounts, or whole quotas, by resource."""
    resources = {"memory": "64Gi", **quotas}
    return {
        "coveredResources": list(resources),
        "flavors": [
            {
                "name": flavor,
                "resources": [
                    {
                        "name": name,
                        **(quota if isinstance(quota, dict) else {"nominalQuota": quota}),
                    }
                    for name, quota in resources.items()
                ],
            }
        ],
    }


def condition(found: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any]:
    """Return a condition of an object; {} where there is none."""
    conditions = (found or {}).get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})
