"""What the books say of pods that are not as their admission has them."""

from typing import Any

import msgspec
import pytest

from tests.harness.books.admissions import Admissions, Flavor, Job, Workload
from tests.harness.books.ledger import ADDED, DELETED, Ledger, Pod

ANNOTATION, POD_SET = "kueue.x-k8s.io/workload", "kueue.x-k8s.io/podset"
GROUP = "scheduling.x-k8s.io/pod-group"


def meta(name: str, version: int, *, owner: str = "") -> dict[str, Any]:
    owners = [{"uid": owner, "controller": True}] if owner else []
    return {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "resourceVersion": str(version),
        "ownerReferences": owners,
    }


def workload(version: int, *, given: bool = True) -> Workload:
    usage, flavors = {"cpu": "2", "memory": "2Gi"}, {"cpu": "spot", "memory": "spot"}
    assignment = {"name": "main", "flavors": flavors, "resourceUsage": usage}
    admission = {"podSetAssignments": [assignment]} if given else None
    found = {"metadata": meta("w", version, owner="job"), "status": {"admission": admission}}
    return msgspec.convert(found, Workload)


def pod(name: str, version: int, *, cpu: str = "1", **more: Any) -> Pod:
    """Return a pod as admission makes it, but for labels, annotations, owner and selector."""
    asked = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    found = {
        "metadata": {
            **meta(name, version, owner=more.get("owner", "job")),
            "labels": {POD_SET: "main", **more.get("labels", {})},
            "annotations": more.get("annotations", {ANNOTATION: "w"}),
            "deletionTimestamp": more.get("deleted", ""),
        },
        "spec": {
            "containers": [{"name": "c", "resources": asked}],
            "nodeName": "n",
            "nodeSelector": more.get("selector", {"pool": "spot"}),
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]},
    }
    return msgspec.convert(found, Pod)


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger()
    spec = {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    flavor = msgspec.convert({"metadata": meta("spot", 1), "spec": spec}, Flavor)
    found.admissions.flavor(flavor)
    found.admissions.job(msgspec.convert({"metadata": meta("child", 2, owner="job")}, Job))
    found.admissions.workload(workload(3, given=False))
    found.admissions.workload(workload(10))
    return found


def misplaced(ledger: Ledger, *pods: Pod) -> list[str]:
    for each in pods:
        ledger.pod(ADDED, each)
    return ledger.ask().misplaced


def test_pods_as_their_admission_has_them_are_right(ledger: Ledger) -> None:
    assert misplaced(ledger, pod("a", 11), pod("b", 12, owner="child")) == []


LACKS: dict[str, tuple[dict[str, Any], str]] = {
    "no annotation": ({"annotations": {}}, "has the annotation None"),
    "another pod set": ({"labels": {POD_SET: "other"}}, "is of pod set 'other'"),
    "no place": ({"selector": {}}, "has not what flavor spot asks for"),
    "a child Job's": ({"owner": "child", "annotations": {}}, "has the annotation None"),
}


@pytest.mark.parametrize(("more", "want"), LACKS.values(), ids=LACKS)
def test_a_pod_that_lacks_something_is_found(
    ledger: Ledger, more: dict[str, Any], want: str
) -> None:
    [said] = misplaced(ledger, pod("a", 11, **more))
    assert said.startswith("ns/a of workload w ")
    assert want in said
    assert len(ledger.ask().misplaced) == 1  # it is still there
    ledger.pod(DELETED, pod("a", 12, **more))
    ledger.ask()
    assert ledger.ask().misplaced == []


def test_a_pod_of_before_the_admission_that_lives_on_is_found(ledger: Ledger) -> None:
    assert len(misplaced(ledger, pod("a", 5, annotations={}))) == 1


@pytest.mark.parametrize("bound", [9, 11])
@pytest.mark.parametrize(("gone", "found"), [(12, 0), (14, 1)])
def test_a_pod_of_before_the_admission_is_gone_before_the_first_of_it(
    ledger: Ledger, bound: int, gone: int, found: int
) -> None:
    ledger.pod(ADDED, pod("earlier", bound, annotations={}))
    ledger.pod(ADDED, pod("first", 13))
    ledger.pod(DELETED, pod("earlier", gone, annotations={}))
    assert len(ledger.ask().misplaced) == found


def test_a_pod_that_is_being_deleted_at_the_admission_is_right(ledger: Ledger) -> None:
    ledger.pod(ADDED, pod("a", 5, annotations={}))
    ledger.pod("MODIFIED", pod("a", 9, annotations={}, deleted="2026-11-26T00:00:00Z"))
    assert ledger.ask().misplaced == []


def test_pods_of_one_pod_set_in_two_groups_are_found(ledger: Ledger) -> None:
    [said] = misplaced(ledger, pod("a", 11, labels={GROUP: "g"}), pod("b", 12))
    assert said == "pods of main of w have PodGroups ['', 'g']"


def test_pods_that_ask_for_more_than_was_given_are_found(ledger: Ledger) -> None:
    [said] = misplaced(ledger, pod("a", 11), pod("b", 12), pod("c", 13, cpu="500m"))
    assert said == (
        "workload w uses 2500m cpu, 3221225472 memory with ns/c, "
        "and was given 2000m cpu, 2147483648 memory"
    )


def test_a_pod_that_ended_before_makes_room(ledger: Ledger) -> None:
    for name, version in (("a", 11), ("b", 12)):
        ledger.pod(ADDED, pod(name, version))
    ledger.pod(DELETED, pod("a", 13))
    assert misplaced(ledger, pod("c", 14)) == []


def test_nothing_is_said_of_pods_that_no_workload_has() -> None:
    admissions = Admissions()
    assert admissions.ask() == []
    found = Ledger()
    assert misplaced(found, pod("a", 1, annotations={})) == []
