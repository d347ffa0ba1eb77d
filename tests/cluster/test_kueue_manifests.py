"""What people wrote for Kueue is applied as it is and works: queues, jobs of all kinds, pods.

On a control plane of its own, with the policies for jobs and the older version served. The
operators of other kinds are stand-ins; their jobs are written as theirs are: without `suspend`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.cluster.alone import alone
from tests.cluster.queues import JOBS, WORKLOADS, condition
from tests.cluster.served import OLDER, is_older_served
from tests.documents import blocks
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.kinds import CRDS
from tests.harness.objects import Object
from tests.harness.process import run_command
from tests.harness.reconciler import Reconciler
from tests.tiers import long_but_for

REPO = Path(__file__).parents[2]
NEWER = "kueue.x-k8s.io/v1beta2"
SECONDS = 120
POOL = {"example.com/pool": "batch"}

SINGLE = """
apiVersion: {version}
kind: ResourceFlavor
metadata:
  name: "flavor-{id}"
spec:
  nodeLabels:
    example.com/pool: batch
---
apiVersion: {version}
kind: ClusterQueue
metadata:
  name: "all-{id}"
spec:
  namespaceSelector: {{}} # match all.
  resourceGroups:
  - coveredResources: ["cpu", "memory"]
    flavors:
    - name: "flavor-{id}"
      resources:
      - name: "cpu"
        nominalQuota: 9
      - name: "memory"
        nominalQuota: 36Gi
---
apiVersion: {version}
kind: LocalQueue
metadata:
  namespace: "{namespace}"
  name: "user-queue"
spec:
  clusterQueue: "all-{id}"
"""

COHORT = """
apiVersion: {version}
kind: ResourceFlavor
metadata:
  name: shared-{id}
---
apiVersion: {version}
kind: ClusterQueue
metadata:
  name: team-a-{id}
spec:
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values: [{namespace}]
  {cohort}: both-{id}
  queueingStrategy: StrictFIFO
  preemption:
    reclaimWithinCohort: Any
    borrowWithinCohort:
      policy: LowerPriority
      maxPriorityThreshold: 100
    withinClusterQueue: LowerPriority
  flavorFungibility:
    whenCanBorrow: {fungible}
    whenCanPreempt: TryNextFlavor
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: shared-{id}
      resources:
      - name: cpu
        nominalQuota: 2
        borrowingLimit: 1
        lendingLimit: 1
      - name: memory
        nominalQuota: 36Gi
---
apiVersion: {version}
kind: ClusterQueue
metadata:
  name: team-b-{id}
spec:
  namespaceSelector: {{}}
  {cohort}: both-{id}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: shared-{id}
      resources:
      - name: cpu
        nominalQuota: "2"
      - name: memory
        nominalQuota: 1e9
---
apiVersion: {version}
kind: LocalQueue
metadata:
  namespace: {namespace}
  name: team-a
spec:
  clusterQueue: team-a-{id}
---
apiVersion: {version}
kind: WorkloadPriorityClass
metadata:
  name: urgent-{id}
value: 10000
description: "A workload waits"
"""

JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  generateName: sample-
  namespace: {namespace}
  labels:
    kueue.x-k8s.io/queue-name: {queue}
spec:
  parallelism: {pods}
  completions: {pods}
  suspend: true
  template:
    spec:
      containers:
      - name: work
        image: example.invalid/work:1
        args: ["30s"]
        resources:
          requests:
            cpu: 1
            memory: "200Mi"
      restartPolicy: Never
"""

POD = """
apiVersion: v1
kind: Pod
metadata:
  generateName: sample-pod-
  namespace: {namespace}
  labels:
    kueue.x-k8s.io/queue-name: user-queue
    {group}
  annotations:
    {total}
spec:
  containers:
  - name: sleep
    image: example.invalid/work:1
    command: [sleep]
    args: [3s]
    resources:
      requests:
        cpu: 3
  restartPolicy: OnFailure
"""


def template(cpu: Any = 1) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": "200Mi"}}
    container = {"name": "work", "image": "example.invalid/work:1", "resources": resources}
    return {"spec": {"containers": [container]}}


def replicas(**counts: int) -> Object:
    return {
        role: {"replicas": count, "restartPolicy": "OnFailure", "template": template()}
        for role, count in counts.items()
    }


def replicated(name: str, pods: int, **more: Any) -> Object:
    spec: Object = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "template": template(),
    }
    spec["template"]["spec"]["restartPolicy"] = "Never"
    # The label is on the Jobs too, as some have it.
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": spec}, **more}


RAY_CLUSTER: Object = {
    "rayVersion": "2.46.0",
    "headGroupSpec": {"rayStartParams": {}, "template": template()},
    "workerGroupSpecs": [
        {
            "groupName": "small-group",
            "replicas": 2,
            "minReplicas": 1,
            "maxReplicas": 5,
            "rayStartParams": {},
            "template": template(0.5),
        }
    ],
}
KUBEFLOW = "kubeflow.org/v1"
WRITTEN: dict[str, tuple[str, Object, dict[str, int]]] = {
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        {"replicatedJobs": [replicated("workers", 2, replicas=2), replicated("driver", 1)]},
        {"workers": 4, "driver": 1},
    ),
    "MPIJob": (
        "kubeflow.org/v2beta1",
        {
            "slotsPerWorker": 1,
            "runPolicy": {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 60},
            "mpiReplicaSpecs": replicas(Launcher=1, Worker=2),
        },
        {"launcher": 1, "worker": 2},
    ),
    "PyTorchJob": (
        KUBEFLOW,
        {"pytorchReplicaSpecs": replicas(Master=1, Worker=2)},
        {"master": 1, "worker": 2},
    ),
    "TFJob": (
        KUBEFLOW,
        {"runPolicy": {"cleanPodPolicy": "None"}, "tfReplicaSpecs": replicas(PS=1, Worker=2)},
        {"ps": 1, "worker": 2},
    ),
    "XGBoostJob": (
        KUBEFLOW,
        {"xgbReplicaSpecs": replicas(Master=1, Worker=2)},
        {"master": 1, "worker": 2},
    ),
    "JAXJob": (KUBEFLOW, {"jaxReplicaSpecs": replicas(Worker=2)}, {"worker": 2}),
    "PaddleJob": (
        KUBEFLOW,
        {"paddleReplicaSpecs": replicas(Master=1, Worker=2)},
        {"master": 1, "worker": 2},
    ),
    "RayCluster": ("ray.io/v1", RAY_CLUSTER, {"head": 1, "small-group": 2}),
    "RayJob": (
        "ray.io/v1",
        {
            "shutdownAfterJobFinishes": True,
            "entrypoint": "python work.py",
            "rayClusterSpec": RAY_CLUSTER,
        },
        {"head": 1, "small-group": 2, "submitter": 1},
    ),
}
"""By kind: its version, a spec as people write it, and the pod sets of its workload."""


control_plane, _ = alone(controllers=True, kubelet=True)


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    with Api(control_plane.admin_kubeconfig) as api:
        gang = GangScheduler(control_plane)
        settings = {"webhooks": {"olderWorkloads": True}}
        reconciler = Reconciler(control_plane, settings=settings, webhooks=True)
        api.apply(CRDS)
        api.apply(REPO / "manifests" / "optional" / "queue-policies.yaml")
        api.create(objects.node("batch", 64, "256Gi", labels=POOL), objects.node("other", 64))
        reconciler.wait_leading()
        api.wait_for("the older version is served", lambda: is_older_served(api), SECONDS)
        api.wait_for("the policies are in force", lambda: are_held(api), SECONDS)
        yield api
        reconciler.stop()
        gang.stop()


def are_held(api: Api) -> bool:
    """Return whether a Job and a pod of a queue would be held; nothing is created."""
    job = yaml.safe_load(JOB.format(namespace="default", queue="none", pods=1))
    job["spec"]["suspend"] = False
    pod = yaml.safe_load(POD.format(namespace="default", group="", total=""))
    tried = [
        api.request("POST", path, body=body, params={"dryRun": "All"}).json()["spec"]
        for path, body in (
            ("/apis/batch/v1/namespaces/default/jobs", job),
            ("/api/v1/namespaces/default/pods", pod),
            *(written(kind) for kind in WRITTEN),
        )
    ]
    return tried[0]["suspend"] is True and "schedulingGates" in tried[1]


def written(kind: str) -> tuple[str, Object]:
    """Return a path, and a job of a kind to be tried there: a new kind is not known at once."""
    api_version, spec, _ = WRITTEN[kind]
    meta = {"name": "tried", "labels": {"kueue.x-k8s.io/queue-name": "none"}}
    path = f"/apis/{api_version}/namespaces/default/{kind.lower()}s"
    return path, {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


class User:
    """A user of the manifests, with a namespace."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.id = uuid4().hex[:6]
        self.namespace = f"user-{self.id}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        api.create(body)

    def apply(self, text: str, version: str) -> None:
        """Apply a manifest, twice: the second time it changes nothing."""
        older = version == OLDER
        filled = text.format(
            version=version,
            id=self.id,
            namespace=self.namespace,
            cohort="cohort" if older else "cohortName",
            fungible="Borrow" if older else "MayStopSearch",
        )
        documents = [each for each in yaml.safe_load_all(filled) if each]
        self.api.apply(documents)
        for each in self.api.apply(documents):
            assert each["metadata"].get("generation", 1) == 1

    def job(self, queue: str, pods: int, **labels: str) -> str:
        """Create the sample Job; return the name that it was given."""
        job = yaml.safe_load(JOB.format(namespace=self.namespace, queue=queue, pods=pods))
        job["metadata"]["labels"] |= {f"kueue.x-k8s.io/{k}": v for k, v in labels.items()}
        job["spec"]["template"]["metadata"] = {"annotations": {objects.RUN_FOR: "10m"}}
        return str(self.api.create(job)["metadata"]["name"])

    def workload(self, owner: str, version: str = NEWER) -> Object:
        """Return the workload of a job or a pod; {} where there is none."""
        found = self.api.list(f"{version}/workloads", self.namespace)
        owned = (
            each
            for each in found
            if owner in (o["name"] for o in each["metadata"].get("ownerReferences", []))
        )
        return next(owned, {})

    def reported(self, owner: str, kind: str) -> tuple[str, str]:
        """Return status and reason of a condition of a workload."""
        found = condition(self.workload(owner), kind)
        return found.get("status", ""), found.get("reason", "")

    def await_reported(self, owner: str, kind: str, reason: str, status: str = "True") -> None:
        """Wait until a condition of a workload is so."""

        def so() -> bool:
            return self.reported(owner, kind) == (status, reason)

        try:
            self.api.wait_for(f"{owner}: {kind}={status}, {reason}", so, SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.workload(owner)}") from None

    def pods(self) -> list[Object]:
        """Return the pods of the namespace."""
        return self.api.list("pods", self.namespace)

    def await_running(self, count: int) -> None:
        """Wait until so many pods run, all of them on the node of the flavor."""

        def all_run() -> list[Object] | None:
            here = [pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]
            running = [pod for pod in here if pod["status"].get("phase") == "Running"]
            return running if len(running) == len(here) == count else None

        running = self.api.wait_for(f"{count} pods run", all_run, SECONDS)
        assert {pod["spec"]["nodeName"] for pod in running} == {"batch"}

    def end_pods(self) -> None:
        """Have all pods succeed."""
        for pod in self.pods():
            name, done = pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}
            self.api.patch("pods", name, self.namespace, body=done, subresource="status")

    def status(self, plural: str, name: str, version: str = NEWER) -> Object:
        """Return the status of a queue."""
        where = self.namespace if plural == "localqueues" else None
        status: Object = self.api.get(f"{version}/{plural}", name, where).get("status", {})
        return status


@pytest.fixture
def user(api: Api) -> User:
    return User(api)


@pytest.mark.parametrize("version", long_but_for([OLDER, NEWER], OLDER))
def test_one_queue_admits_jobs_up_to_its_quota(user: User, version: str) -> None:
    user.apply(SINGLE, version)
    first = user.job("user-queue", 6)
    user.await_reported(first, "Admitted", "Admitted")
    second = user.job("user-queue", 6)

    user.await_reported(second, "QuotaReserved", "WaitingForQuota", "False")
    user.await_running(6)
    workload = user.workload(first)["metadata"]["name"]
    assert ("user-queue", f"all-{user.id}", "True") in {
        row[1:4] for row in user.api.table(f"{version}/workloads", user.namespace)[1:]
    }
    assert workload.startswith(f"job-{first}-")

    def counted() -> bool:
        reported = user.status("clusterqueues", f"all-{user.id}", version)
        return (reported.get("pendingWorkloads"), reported.get("admittedWorkloads")) == (1, 1)

    user.api.wait_for("the queue counts them", counted, SECONDS)
    [used] = user.status("clusterqueues", f"all-{user.id}", version)["flavorsUsage"]
    assert {each["name"]: each["total"] for each in used["resources"]} == {
        "cpu": "6",
        "memory": "1200Mi",
    }
    user.end_pods()
    user.await_reported(first, "Finished", "Succeeded")
    user.await_reported(second, "Admitted", "Admitted")
    job = user.api.get(JOBS, first, user.namespace)
    assert condition(job, "Complete")["status"] == "True"


@pytest.mark.parametrize("version", long_but_for([OLDER, NEWER], NEWER))
def test_two_queues_of_a_cohort_lend_to_each_other(user: User, version: str) -> None:
    user.apply(COHORT, version)
    borrower = user.job("team-a", 3)

    user.await_reported(borrower, "Admitted", "Admitted")
    beyond = user.job("team-a", 4)
    user.await_reported(beyond, "QuotaReserved", "ExceedsMaxQuota", "False")
    urgent = user.job("team-a", 2, **{"priority-class": f"urgent-{user.id}"})
    user.await_reported(borrower, "Preempted", "InClusterQueue")
    user.await_reported(urgent, "Admitted", "Admitted")

    older = user.workload(urgent, OLDER)["spec"]
    assert (older["priorityClassName"], older["priority"]) == (f"urgent-{user.id}", 10000)
    assert older["priorityClassSource"] == "kueue.x-k8s.io/workloadpriorityclass"


def test_a_single_pod_is_queued_as_its_manifest_says(user: User) -> None:
    user.apply(SINGLE, OLDER)
    text = POD.format(namespace=user.namespace, group="", total="")
    name = user.api.create(yaml.safe_load(text))["metadata"]["name"]

    user.await_reported(name, "Admitted", "Admitted")
    user.await_running(1)
    assert user.workload(name)["metadata"]["name"].startswith(f"pod-{name}-")
    user.end_pods()
    user.await_reported(name, "Finished", "Succeeded")


def test_a_group_of_pods_is_queued_as_its_manifest_says(user: User) -> None:
    """The gates come off when the group is whole and has its quota, all at once."""
    user.apply(SINGLE, OLDER)
    group = {"group": 'kueue.x-k8s.io/pod-group-name: "sample-group"'}
    total = {"total": 'kueue.x-k8s.io/pod-group-total-count: "2"'}
    pod = yaml.safe_load(POD.format(namespace=user.namespace, **group, **total))
    first = user.api.create(pod)["metadata"]["name"]
    assert user.api.get("pods", first, user.namespace)["spec"]["schedulingGates"]
    blocker = user.job("user-queue", 6)
    user.await_reported(blocker, "Admitted", "Admitted")
    assert user.api.find(WORKLOADS, "sample-group", user.namespace) is None

    user.api.create(pod)
    user.await_reported(first, "QuotaReserved", "WaitingForQuota", "False")
    held = [each for each in user.pods() if each["metadata"]["name"].startswith("sample-pod-")]
    assert [each["spec"]["schedulingGates"] for each in held] == [
        [{"name": "kueue.x-k8s.io/admission"}]
    ] * 2

    user.api.delete(JOBS, blocker, user.namespace)
    user.await_reported(first, "Admitted", "Admitted")
    user.await_running(2)
    assert user.workload(first)["metadata"]["name"] == "sample-group"
    user.end_pods()
    user.await_reported(first, "Finished", "Succeeded")


@pytest.mark.parametrize("kind", long_but_for(WRITTEN, "JobSet"))
def test_a_job_of_each_kind_is_held_started_and_stopped(user: User, kind: str) -> None:
    """Its pods are a matter of its operator: `tests/cluster/partners`."""
    user.apply(SINGLE, NEWER)
    api_version, spec, pod_sets = WRITTEN[kind]
    meta = {
        "name": "work",
        "namespace": user.namespace,
        "labels": {"kueue.x-k8s.io/queue-name": "user-queue"},
    }
    body = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}
    resource = f"{api_version}/{kind.lower()}s"

    def stored() -> Object:
        found: Object = user.api.get(resource, "work", user.namespace)["spec"]
        return found

    def suspended() -> bool:
        return stored().get("runPolicy", stored()).get("suspend") is True

    user.api.create(body)
    assert suspended()
    noticed = [{"type": each, "status": "True"} for each in ("Suspended", "RayClusterSuspended")]
    status = {"status": {"conditions": noticed, "jobDeploymentStatus": "Suspended"}}
    user.api.patch(resource, "work", user.namespace, body=status, subresource="status")

    user.await_reported("work", "Admitted", "Admitted")
    counts = {each["name"]: each["count"] for each in user.workload("work")["spec"]["podSets"]}
    assert counts == pod_sets
    user.api.wait_for("it is started", lambda: not suspended(), SECONDS)

    deactivate(user, active=False)
    user.api.wait_for("it is stopped", suspended, SECONDS)
    user.await_reported("work", "QuotaReserved", "Deactivated", "False")
    assert "example.com/pool" not in str(stored())

    deactivate(user, active=True)
    user.api.wait_for("it is started again", lambda: not suspended(), SECONDS)
    assert str(stored()).count("example.com/pool") == len(pod_sets)


def test_the_lesson_about_the_queue(api: Api, control_plane: ControlPlane) -> None:
    """Its queue and its Job, and the command that explains a Job."""
    for name in ("queue.yaml", "job.yaml"):
        text = (REPO / "docs/tutorial" / name).read_text().replace("run-for: 1h", "run-for: 1s")
        api.apply([each for each in yaml.safe_load_all(text) if each])

    api.wait_for(
        "it ends", lambda: condition(api.get(JOBS, "first", "default"), "Complete"), SECONDS
    )
    rows = api.table(f"{NEWER}/workloads", "default")[1:]
    [row] = [each for each in rows if each[0].startswith("job-first-")]
    assert row[1:4] == ("team", "team", "True")

    [words] = [
        words
        for block in blocks("console")
        for words in block.commands
        if words[:4] == ["gang-extender", "explain", "job", "first"]
        and block.path == REPO / "docs/tasks/user/why-does-it-wait.md"
    ]
    said = run_command(*words[1:], "--kubeconfig", control_plane.admin_kubeconfig)
    assert said.returncode == 0, said.stderr
    assert f"default/{row[0]}" in said.stdout


def deactivate(user: User, *, active: bool) -> None:
    name = user.workload("work")["metadata"]["name"]
    user.api.patch(WORKLOADS, name, user.namespace, body={"spec": {"active": active}})
