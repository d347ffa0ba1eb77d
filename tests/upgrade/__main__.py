"""Records what the processes of this checkout leave in a cluster, for the tests of later releases.

    python -m tests.upgrade 0.2.0

writes `tests/upgrade/0.2.0`: the CRDs as they are applied, and every object of a small cluster with
all that the API server has stored of it, its status and the owners of its fields too. In it a gang
of each API runs and another one waits for room; a Job and a gang of a queue run, and a Job waits
for quota.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.harness import objects
from tests.harness.client import Api, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler
from tests.upgrade.stored import KINDS, NAMESPACE, ROOT, write

OLDER: Final = "scheduling.sigs.k8s.io/v1alpha1"
OLDER_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
QUEUE: Final = "kueue.x-k8s.io/v1beta2"
LONG: Final = "1000h"
RUNNING: Final = {"running": 3, "older": 2, "first": 2, "second": 2}
PHASES: Final = {"running": "Running", "queued": "Running", "waiting": "PreScheduling"}
SETTINGS: Final = {"queue": {"requireRoom": True}, "reconcile": {"leaderElect": False}}


def main() -> None:
    """Play the story, and write what it left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="of the processes in this checkout")
    folder = ROOT / parser.parse_args().version
    with ControlPlane() as control_plane, Api(control_plane.admin_kubeconfig) as api:
        gang = GangScheduler(control_plane)
        reconciler = Reconciler(control_plane, settings=SETTINGS, webhooks=True, crds=False)
        reconciler.wait_leading()
        api.create(*_cluster())
        api.create(*_queues())
        api.create(*_gangs(), *_jobs())
        api.wait_for("what has room runs", lambda: _running(api) == RUNNING, 60)
        api.create(*_waiting())
        api.wait_for("the others wait", lambda: _is_said(api), 60)
        gang.stop()
        reconciler.stop()
        control_plane.kwok.stop()
        write(folder, _crds(), _stored(api))


def _crds() -> list[dict[str, Any]]:
    crds = ROOT.parents[1] / "manifests" / "crds"
    return [
        each
        for path in sorted(crds.glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
    ]


def _cluster() -> Iterator[objects.Object]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield from (objects.node(f"upgraded-{number}", "4") for number in range(3))


def _queues() -> Iterator[objects.Object]:
    yield _queue("WorkloadPriorityClass", "high", value=1000, description="goes first")
    yield _queue("ResourceFlavor", "any-node", spec={})
    yield _queue("Cohort", "company", spec={"parentName": "world"})
    yield _queue(
        "ClusterQueue",
        "team",
        spec={
            "cohortName": "company",
            "namespaceSelector": {},
            "resourceGroups": _quota("4"),
            "preemption": {"withinClusterQueue": "LowerPriority"},
        },
    )
    # In the form of the older version, which is stored as the newer one.
    yield {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "older"},
        "spec": {"cohort": "company", "namespaceSelector": {}, "resourceGroups": _quota("0")},
    }
    queue = _queue("LocalQueue", "queue", spec={"clusterQueue": "team"})
    queue["metadata"]["namespace"] = NAMESPACE
    yield queue


def _quota(amount: str) -> list[dict[str, Any]]:
    amounts = [{"name": "cpu", "nominalQuota": amount}, {"name": "memory", "nominalQuota": "16Gi"}]
    flavor = {"name": "any-node", "resources": amounts}
    return [{"coveredResources": ["cpu", "memory"], "flavors": [flavor]}]


def _queue(kind: str, name: str, **fields: Any) -> objects.Object:
    return {"apiVersion": QUEUE, "kind": kind, "metadata": {"name": name}, **fields}


def _gangs() -> Iterator[objects.Object]:
    yield _group("running", 3, min_resources={"cpu": "3"})
    yield from _members("running", 3)
    yield _group("older", 2, api_version=OLDER)
    yield from _members("older", 2, label=OLDER_LABEL)


def _waiting() -> Iterator[objects.Object]:
    yield _group("waiting", 5)
    yield from _members("waiting", 5)
    yield _job("third")


def _group(name: str, count: int, **options: Any) -> objects.Object:
    return objects.pod_group(name, count, namespace=NAMESPACE, **options)


def _members(group: str, count: int, **options: Any) -> Iterator[objects.Object]:
    for number in range(count):
        yield objects.pod(
            f"{group}-{number}", "1", namespace=NAMESPACE, group=group, run_for=LONG, **options
        )


def _jobs() -> Iterator[objects.Object]:
    yield _job("first")
    yield _group("queued", 2)
    yield _job("second", group="queued")


def _job(name: str, **options: Any) -> objects.Object:
    return objects.job(
        name, 2, namespace=NAMESPACE, cpu="1", queue="queue", suspend=True, run_for=LONG, **options
    )


def _running(api: Api) -> dict[str, int]:
    """Return how many pods run, by the first part of their names."""
    found = Counter(
        each["metadata"]["name"].split("-")[0]
        for each in api.list("pods", NAMESPACE)
        if each["status"]["phase"] == "Running"
    )
    return dict(found)


def _is_said(api: Api) -> bool:
    """Return whether status and conditions say of each thing whether it runs."""
    groups = api.list("scheduling.x-k8s.io/v1alpha1/podgroups", NAMESPACE)
    phases = {each["metadata"]["name"]: each.get("status", {}).get("phase") for each in groups}
    workloads = api.list(f"{QUEUE}/workloads", NAMESPACE)
    return (
        _running(api) == RUNNING
        and phases.items() >= PHASES.items()
        and sorted(condition(each, "QuotaReserved") for each in workloads) == [False, True, True]
        and all(each["status"].get("conditions") for each in api.list("pods", NAMESPACE))
    )


def _stored(api: Api) -> Iterator[dict[str, Any]]:
    """Yield every object of the story; namespaces and nodes that it did not make are left out."""
    for resource in KINDS:
        for each in api.list(resource):
            metadata = each["metadata"]
            if metadata.get("namespace", NAMESPACE) != NAMESPACE:
                continue
            if resource == "namespaces" and metadata["name"] != NAMESPACE:
                continue
            yield api.get(resource, metadata["name"], metadata.get("namespace"))


if __name__ == "__main__":
    main()
