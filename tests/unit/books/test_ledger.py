"""What the ledger finds: each fault is named, and what only looks like one is not."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.harness.books.ledger import Ledger, Node, Pod
from tests.harness.objects import POD_GROUP_LABEL

BOUND = {"type": "PodScheduled", "status": "True"}
COLLIDED = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "why"}
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


class Cluster:
    """Makes events, each of a later version than the one before."""

    def __init__(self) -> None:
        self.ledger, self.version = Ledger(), 100

    def next(self) -> str:
        self.version += 1
        return str(self.version)

    def node(
        self, name: str = "n", kind: str = "ADDED", *, version: int | None = None, **size: Any
    ) -> None:
        size = {"cpu": "4", "pods": "110", **size}
        made = {
            "metadata": {"name": name, "resourceVersion": str(version or self.next())},
            "status": {"allocatable": size},
        }
        self.ledger.node(kind, msgspec.convert(made, Node))

    def made(
        self,
        name: str,
        node: str = "n",
        *,
        uid: str = "",
        cpu: str = "1",
        phase: str = "Pending",
        condition: dict[str, str] | None = BOUND,
        version: int | None = None,
        group: str = "",
        port: int = 0,
    ) -> Pod:
        asked: dict[str, Any] = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        if port:
            asked["ports"] = [{"hostPort": port}]
        made = {
            "metadata": {
                "name": name,
                "uid": uid or name,
                "namespace": "ns",
                "resourceVersion": str(version or self.next()),
                "labels": {POD_GROUP_LABEL: group} if group else {},
            },
            "spec": {"nodeName": node, "containers": [asked]},
            "status": {"phase": phase, "conditions": [condition] if condition else []},
        }
        return msgspec.convert(made, Pod)

    def pod(self, name: str, node: str = "n", kind: str = "ADDED", **options: Any) -> None:
        self.ledger.pod(kind, self.made(name, node, **options))

    def breaches(self) -> list[str]:
        return self.ledger.ask().breaches


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def fill(cluster: Cluster) -> None:
    """Have a node of four CPUs full."""
    cluster.node()
    for number in range(4):
        cluster.pod(f"p{number}")


def test_a_full_node_is_none_that_is_over(cluster: Cluster) -> None:
    fill(cluster)
    assert cluster.breaches() == []
    assert cluster.ledger.bound == 4


def test_a_pod_too_many_is_named_with_those_beside_it_and_their_versions(
    cluster: Cluster,
) -> None:
    fill(cluster)
    cluster.pod("late", cpu="500m")
    [breach] = cluster.breaches()
    assert breach.startswith(
        "n has 4500 of 4000 cpu in use with ns/late (version 106: 500m cpu, 1 pods). Beside it: "
    )
    for number in range(4):
        assert f"ns/p{number} (version {102 + number}: 1000m cpu, 1 pods)" in breach
    assert cluster.breaches() == [], "each is named once"


def test_a_breach_that_ends_at_once_is_named_too(cluster: Cluster) -> None:
    fill(cluster)
    cluster.pod("late")
    cluster.pod("late", kind="DELETED")
    assert len(cluster.breaches()) == 1


ROOM: dict[str, Callable[[Cluster], None]] = {
    "a pod was deleted": lambda cluster: cluster.pod("p0", kind="DELETED"),
    "a pod has finished": lambda cluster: cluster.pod("p0", kind="MODIFIED", phase="Succeeded"),
    "a pod was made smaller": lambda cluster: cluster.pod("p0", kind="MODIFIED", cpu="0"),
    "the node has grown": lambda cluster: cluster.node(kind="MODIFIED", cpu="5"),
}


@pytest.mark.parametrize("make_room", ROOM.values(), ids=ROOM)
def test_room_that_came_may_be_used(cluster: Cluster, make_room: Callable[[Cluster], None]) -> None:
    fill(cluster)
    make_room(cluster)
    cluster.pod("next")
    assert cluster.breaches() == []
    cluster.pod("one too many")
    assert len(cluster.breaches()) == 1


def test_places_for_pods_are_counted(cluster: Cluster) -> None:
    cluster.node(pods="1")
    cluster.pod("one", cpu="0")
    assert cluster.breaches() == []
    cluster.pod("two", cpu="0")
    assert "n has 2 of 1 pods in use" in cluster.breaches()[0]


def test_a_resource_that_the_node_has_not_is_over(cluster: Cluster) -> None:
    cluster.node("bare", cpu="0")
    cluster.pod("one", "bare")
    assert "bare has 1000 of 0 cpu" in cluster.breaches()[0]


def test_what_a_pod_does_not_ask_for_is_not_held_against_it(cluster: Cluster) -> None:
    fill(cluster)
    cluster.pod("by hand", condition=None)
    cluster.pod("asks for nothing", cpu="0")
    assert cluster.breaches() == []


def test_a_pod_that_was_made_with_its_node_is_not_judged_and_takes_room(cluster: Cluster) -> None:
    fill(cluster)
    cluster.pod("by hand", condition=None)
    assert cluster.breaches() == []
    cluster.pod("by hand", kind="MODIFIED")  # its kubelet has written the condition
    assert cluster.breaches() == []
    cluster.pod("p0", kind="DELETED")
    cluster.pod("next")
    assert len(cluster.breaches()) == 1


def test_a_node_that_shrinks_is_no_fault_and_what_comes_then_is(cluster: Cluster) -> None:
    fill(cluster)
    cluster.node(kind="MODIFIED", cpu="3")
    assert cluster.breaches() == []
    cluster.pod("p0", kind="DELETED")
    cluster.pod("next")
    assert "4000 of 3000 cpu" in cluster.breaches()[0]


def test_what_the_node_had_at_that_version_counts(cluster: Cluster) -> None:
    """The two watches do not come in one order."""
    fill(cluster)
    cluster.pod("next", version=120)
    cluster.node(kind="MODIFIED", cpu="5", version=110)
    assert cluster.breaches() == []
    cluster.pod("one too many", version=130)
    cluster.node(kind="MODIFIED", cpu="6", version=140)
    assert len(cluster.breaches()) == 1


def test_a_node_that_comes_after_its_pod_is_judged_then(cluster: Cluster) -> None:
    cluster.pod("early", cpu="5")
    cluster.node()
    assert "5000 of 4000 cpu" in cluster.breaches()[0]


def test_a_node_that_was_gone_is_not_judged(cluster: Cluster) -> None:
    cluster.node()
    cluster.node(kind="DELETED")
    cluster.pod("late")
    assert cluster.breaches() == []


def test_a_host_port_that_is_taken_twice_is_named(cluster: Cluster) -> None:
    cluster.node()
    cluster.node("other")
    cluster.pod("one", port=80)
    cluster.pod("beside", port=81)
    cluster.pod("elsewhere", "other", port=80)
    assert cluster.breaches() == []
    cluster.pod("two", port=80)
    [breach] = cluster.breaches()
    assert "ns/two" in breach
    assert "ns/one" in breach
    assert "host port 80 of n" in breach


@pytest.mark.parametrize(
    "end",
    [{"kind": "DELETED"}, {"kind": "MODIFIED", "phase": "Failed"}],
    ids=["it is deleted", "it has failed"],
)
def test_a_port_of_a_pod_that_has_ended_is_free(cluster: Cluster, end: dict[str, str]) -> None:
    cluster.node()
    cluster.pod("one", port=80)
    cluster.pod("one", port=80, **end)
    cluster.pod("two", port=80)
    assert cluster.breaches() == []


def test_a_pod_on_two_nodes_is_named(cluster: Cluster) -> None:
    cluster.node()
    cluster.node("other")
    cluster.pod("one")
    cluster.pod("one", "other", kind="MODIFIED")
    [breach] = cluster.breaches()
    assert breach.endswith("is on other and was on n")


def test_a_collision_is_counted_once(cluster: Cluster) -> None:
    cluster.node()
    cluster.pod("one")
    cluster.pod("two")
    cluster.pod("two", kind="MODIFIED", condition=REFUSED)  # not by that reason
    for _ in range(2):
        cluster.pod("one", kind="MODIFIED", condition=COLLIDED)
    assert cluster.ledger.ask().collisions == ["ns/one: why"]
    cluster.pod("one", kind="MODIFIED", condition=BOUND)
    cluster.pod("one", kind="MODIFIED", condition=COLLIDED)
    assert cluster.ledger.ask().collisions == []


def test_partial_groups_are_those_with_some_members_and_not_enough(cluster: Cluster) -> None:
    cluster.node()
    for name, group in (("a", "half"), ("b", "whole"), ("c", "whole"), ("d", "")):
        cluster.pod(name, group=group)
    sizes = {"ns/half": 2, "ns/whole": 2, "ns/none": 2, "ns/": 2}
    assert cluster.ledger.partial(sizes) == ["ns/half"]


def test_a_list_tells_which_pods_are_gone_and_judges_new_ones(cluster: Cluster) -> None:
    fill(cluster)
    kept = [cluster.made(f"p{number}") for number in (1, 2, 3)]
    new = [cluster.made(name) for name in ("q", "r")]
    cluster.ledger.listed([*kept, new[0]])
    assert cluster.breaches() == []
    assert cluster.ledger.versions().keys() == {"p1", "p2", "p3", "q"}
    cluster.ledger.listed([*kept, *new])
    assert len(cluster.breaches()) == 1


def test_a_list_tells_which_nodes_are_gone(cluster: Cluster) -> None:
    cluster.node()
    cluster.ledger.listed_nodes([])
    cluster.pod("late")
    assert cluster.breaches() == []
