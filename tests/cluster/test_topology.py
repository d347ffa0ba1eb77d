"""Gangs in one domain of a label of nodes, or in few."""

from typing import Any

import pytest

from tests.cluster.alone import Proxied, pair_behind_proxy
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler

RACK = "example.com/rack"
REQUIRED = "scheduling.x-k8s.io/required-topology"
PREFERRED = "scheduling.x-k8s.io/preferred-topology"
INDEX = "batch.kubernetes.io/job-completion-index"
LATE = "late"
NODES = "/api/v1/nodes"
RACKS = 13
IN_RACK = 10
"""With as many racks these are more nodes than kube-scheduler looks at for one pod."""


@pytest.fixture
def whole(gang: GangScheduler) -> Any:
    """The pair of the other tests, whole again after the test."""
    yield gang
    gang.revive()


late = pair_behind_proxy(LATE)
"""Its extender may see nodes after the other."""


def on(gangs: Gangs, group: str) -> set[str]:
    """Return the nodes of a group's pods."""
    return {pod["spec"].get("nodeName", "none") for pod in gangs.members(group)}


def test_a_gang_is_in_one_rack_and_what_it_loses_comes_back_there(
    whole: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    large = nodes(2, prefix="a", labels={RACK: "a"})
    rack = nodes(3, prefix="b", labels={RACK: "b"})
    nodes(3, prefix="none")
    gangs.create_group("g", 3, annotations={REQUIRED: RACK})
    gangs.add("g", 3, cpu="3")
    gangs.await_phases("g", Running=3)
    assert on(gangs, "g") == set(rack)

    whole.extender.kill()
    whole.extender.start()
    whole.wait_ready()
    [lost] = [pod["spec"]["nodeName"] for pod in gangs.members("g")][:1]
    name = next(p["metadata"]["name"] for p in gangs.members("g") if p["spec"]["nodeName"] == lost)
    gangs.delete([name])
    api.create(gangs.pod("blocker", cpu="3", node_name=lost))
    gangs.add("g", 1, start=3, cpu="3")
    gangs.await_refused("g", f"0 of the 1 pods that it still needs fit in its domain of '{RACK}'")
    assert len(gangs.bound("g")) == 2

    api.patch("nodes", large[0], body={"metadata": {"labels": {RACK: "b"}}})
    gangs.await_phases("g", Running=3)
    assert large[0] in on(gangs, "g")


def test_a_label_that_kube_scheduler_sees_first_brings_the_gang(
    late: Proxied, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    pair, proxy = late.gang, late.proxy
    [there] = nodes(1, prefix="a", labels={RACK: "a"})
    [other] = nodes(1, prefix="none")
    gangs.create_group("g", 2, annotations={REQUIRED: RACK})
    gangs.add("g", 2, cpu="3", scheduler_name=LATE)
    text = f"1 of the 2 pods that it still needs fit in one domain of '{RACK}'"
    gangs.await_refused("g", text, count=2)

    proxy.stand_still(NODES)
    before = pair.attempts()
    api.patch("nodes", other, body={"metadata": {"labels": {RACK: "a"}}})
    api.wait_for("both were tried", lambda: pair.attempts() >= before + 2)
    assert proxy.withheld
    proxy.move()

    gangs.await_phases("g", Running=2)
    assert on(gangs, "g") == {there, other}


@pytest.mark.usefixtures("gang")
def test_a_gang_waits_for_room_in_one_rack_and_not_in_two(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2, prefix="a", labels={RACK: "a"})
    other = nodes(2, prefix="b", labels={RACK: "b"})
    [more] = nodes(1, prefix="c")
    gangs.create_group("g", 3, annotations={REQUIRED: RACK})
    gangs.add("g", 3, cpu="3")
    gangs.await_refused("g", f"2 of the 3 pods that it still needs fit in one domain of '{RACK}'")
    assert gangs.bound("g") == set()

    gangs.create_group("few", 3, annotations={PREFERRED: RACK})
    api.patch("nodes", more, body={"metadata": {"labels": {RACK: "b"}}})
    gangs.await_phases("g", Running=3)
    assert on(gangs, "g") == {*other, more}


@pytest.mark.usefixtures("gang")
def test_a_gang_that_prefers_a_rack_takes_few(gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(2, prefix="a", labels={RACK: "a"})
    three = nodes(3, prefix="b", labels={RACK: "b"})
    [one] = nodes(1, prefix="c", labels={RACK: "c"})
    gangs.create_group("g", 4, annotations={PREFERRED: RACK})
    gangs.add("g", 4, cpu="3")
    gangs.await_phases("g", Running=4)
    assert on(gangs, "g") == {*three, one}


@pytest.mark.usefixtures("gang")
def test_neighbouring_indexes_are_on_neighbouring_nodes_of_the_rack(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """The node in the middle has least left, and would be filled first."""
    nodes(2, prefix="a", labels={RACK: "a"})
    rack = nodes(3, prefix="b", labels={RACK: "b"})
    api.create(gangs.pod("beside", cpu="500m", node_name=rack[1]))
    gangs.await_seen()
    gangs.create_group("g", 6, annotations={REQUIRED: RACK})
    api.create(
        objects.job(
            *("ranks", 6),
            namespace=gangs.namespace,
            indexed=True,
            group="g",
            cpu="1500m",
            run_for="1h",
        )
    )
    gangs.await_phases("g", Running=6)

    by_index = {int(p["metadata"]["labels"][INDEX]): p for p in gangs.members("g")}
    places = [by_index[index]["spec"]["nodeName"] for index in range(6)]
    assert places == [name for name in rack for _ in range(2)]


@pytest.mark.usefixtures("gang")
@pytest.mark.collisions(32)  # on a slow machine kube-scheduler goes on among many members
def test_gangs_are_in_one_rack_each_where_kube_scheduler_sends_a_sample(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    racks = [
        set(nodes(IN_RACK, prefix=f"r{number}", labels={RACK: f"r{number}"}))
        for number in range(RACKS)
    ]
    names = [f"g{number}" for number in range(4)]
    for name in names:
        gangs.create_group(name, IN_RACK - 2, annotations={REQUIRED: RACK})
        gangs.add(name, IN_RACK, cpu="3")
    for name in names:
        gangs.await_phases(name, Running=IN_RACK)
    found = [on(gangs, name) for name in names]
    assert all(nodes in racks for nodes in found)


@pytest.mark.usefixtures("gang", "reconciler")
@pytest.mark.parametrize(
    ("annotations", "reason", "text"),
    [
        ({REQUIRED: RACK, PREFERRED: RACK}, "InvalidTopology", "remove one of them"),
        ({REQUIRED: "50%d" + "x" * 2000}, "InvalidTopology", "is no key of a label"),
        ({REQUIRED: "no/such"}, "NeverFits", "no node has the label 'no/such'"),
    ],
    ids=["both", "unknown", "no key"],
)
def test_an_annotation_that_cannot_be_kept_is_named_on_the_pod_group(
    annotations: dict[str, str],
    reason: str,
    text: str,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    nodes(2, labels={RACK: "a"})
    gangs.create_group("g", 2, annotations=annotations)
    gangs.add("g", 2, cpu="1")

    def said() -> bool:
        found = (api.get(POD_GROUPS, "g", gangs.namespace).get("status") or {}).get("conditions")
        return any(each["reason"] == reason and text in each["message"] for each in found or ())

    api.wait_for("the PodGroup says why", said)
    assert gangs.bound("g") == set()

    mended = {REQUIRED: RACK, PREFERRED: None}
    api.patch(POD_GROUPS, "g", gangs.namespace, body={"metadata": {"annotations": mended}})
    gangs.await_phases("g", Running=2)
