"""Gangs whose members claim volumes and devices: nothing is claimed for a part of a gang."""

from collections.abc import Iterator

import pytest

from tests.cluster.claims import ZONE, Claimed, Provisioner
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs, message
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.tiers import LONG

pytestmark = pytest.mark.usefixtures("gang")

SECONDS = 90.0
ROUNDS = [pytest.param(2, id="some"), pytest.param(20, id="many", marks=LONG)]
HOST = "kubernetes.io/hostname"


@pytest.fixture
def claimed(api: Api, namespace: str) -> Iterator[Claimed]:
    """Classes, volumes and devices that are gone after the test."""
    found = Claimed(api, namespace)
    yield found
    found.close()


def with_volumes(gangs: Gangs, claimed: Claimed, group: str, count: int) -> None:
    """Make a gang of which each member claims a volume."""
    gangs.create_group(group, count)
    for number in range(count):
        name = f"{group}-{number}"
        gangs.api.create(gangs.pod(name, group=group, **claimed.claim_volume(name)))


def end(gangs: Gangs, group: str) -> None:
    """Delete a gang."""
    names = [pod["metadata"]["name"] for pod in gangs.members(group)]
    gangs.delete(names)
    gangs.api.delete(POD_GROUPS, group, gangs.namespace)
    gangs.api.wait_for(f"{group} is gone", lambda: not gangs.members(group))


def one_runs(gangs: Gangs, *groups: str) -> str:
    """Return the gang that is bound as a whole first, of gangs of three."""

    def found() -> str | None:
        return next((group for group in groups if len(gangs.bound(group)) == 3), None)

    return gangs.api.wait_for("one of the gangs is whole", found, SECONDS)


def await_failures(gangs: Gangs, group: str, words: str, count: int = 1) -> None:
    """Wait until so many members of a gang were refused with these words."""

    def refused() -> bool:
        return sum(words in message(pod) for pod in gangs.members(group)) >= count

    gangs.api.wait_for(f"{count} of {group} say '{words}'", refused, SECONDS)


def test_no_volume_is_made_while_a_member_has_no_node(
    api: Api, control_plane: ControlPlane, gangs: Gangs, nodes: NodeFactory, claimed: Claimed
) -> None:
    a, b = (nodes(1, "4", prefix=zone, labels={ZONE: zone})[0] for zone in ("a", "b"))
    claimed.storage_class("example.com/made")
    api.create(gangs.pod("full-b", cpu="4", node_name=b))
    there = claimed.volume("there", ZONE, "b", claim="there")
    bound = claimed.claim_volume("there", volume=there)
    api.wait_for("its volume is there", lambda: claimed.pvc("there")["status"]["phase"] == "Bound")
    with Provisioner(control_plane, claimed):
        gangs.create_group("g", 2)
        api.create(gangs.pod("g-0", cpu="2", group="g", **claimed.claim_volume("made")))
        await_failures(gangs, "g", "it needs exist")
        api.create(gangs.pod("g-1", cpu="2", group="g", **bound))
        await_failures(gangs, "g", "kube-scheduler has found nodes for all 2 pods that it needs")

        def says_why() -> bool:
            found = api.get(POD_GROUPS, "g", gangs.namespace).get("status", {})
            said = [c["message"] for c in found.get("conditions", ()) if c["type"] == "Permitted"]
            return any("no node for one of its pods" in text for text in said)

        api.wait_for("its PodGroup says why", says_why, SECONDS)
        assert claimed.with_volumes("made") == []
        assert gangs.bound("g") == set()

        api.create(gangs.pod("full-a", cpu="4", node_name=a))
        gangs.delete(["full-b"])
        api.wait_for("the gang is whole", lambda: len(gangs.bound("g")) == 2, SECONDS)
    assert {pod["spec"]["nodeName"] for pod in gangs.members("g")} == {b}


@pytest.mark.parametrize("rounds", ROUNDS)
def test_two_gangs_over_local_volumes_run_one_after_the_other(
    api: Api, gangs: Gangs, nodes: NodeFactory, claimed: Claimed, rounds: int
) -> None:
    hosts = nodes(2)
    claimed.storage_class()
    for turn in range(rounds):
        for number in range(4):
            claimed.volume(f"{turn}-{number}", HOST, hosts[number % 2])
        with_volumes(gangs, claimed, f"g{turn}", 3)
        with_volumes(gangs, claimed, f"h{turn}", 3)
        first = one_runs(gangs, f"g{turn}", f"h{turn}")
        second = f"h{turn}" if first.startswith("g") else f"g{turn}"
        await_failures(gangs, second, "too few free volumes")
        assert claimed.with_volumes(second) == [], "nothing is lost"
        for number in range(2):
            claimed.volume(f"{turn}-more-{number}", HOST, hosts[number])
        assert one_runs(gangs, second) == second
        end(gangs, first)
        end(gangs, second)


def test_a_member_leaves_its_sibling_the_only_volume_that_this_can_use(
    api: Api, gangs: Gangs, nodes: NodeFactory, claimed: Claimed
) -> None:
    here, there = nodes(1, "8", prefix="a")[0], nodes(1, "4", prefix="b")[0]
    claimed.storage_class()
    for name, host in (("here", here), ("there", there)):
        claimed.volume(name, HOST, host)
    gangs.create_group("g", 2)
    for name in ("g-0", "g-1"):
        more = claimed.claim_volume(name)
        selector = {HOST: there} if name == "g-1" else {}
        api.create(gangs.pod(name, group="g", nodeSelector=selector, **more))
    gangs.await_phases("g", SECONDS, Running=2)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_two_gangs_over_devices_run_one_after_the_other(
    api: Api, gangs: Gangs, nodes: NodeFactory, claimed: Claimed, rounds: int
) -> None:
    claimed.devices(nodes(2), 2)
    for turn in range(rounds):
        names = f"g{turn}", f"h{turn}"
        for name in names:
            gangs.create(name, 3, **claimed.one_device())
        first = one_runs(gangs, *names)
        second = names[1] if first == names[0] else names[0]
        end(gangs, first)
        assert one_runs(gangs, second) == second
        end(gangs, second)


def test_a_gang_that_lacks_a_device_leaves_those_that_there_are_to_others(
    api: Api, gangs: Gangs, nodes: NodeFactory, claimed: Claimed
) -> None:
    claimed.devices(nodes(), 2)
    gangs.create("g", 3, **claimed.one_device())
    await_failures(gangs, "g", "cannot allocate all claims")
    api.create(*(gangs.pod(f"plain-{number}", **claimed.one_device()) for number in range(2)))

    def run() -> bool:
        found = [api.get("pods", f"plain-{n}", gangs.namespace) for n in range(2)]
        return all("nodeName" in pod["spec"] for pod in found)

    api.wait_for("the plain pods have the devices", run, SECONDS)
    assert gangs.bound("g") == set()
    api.wait_for(
        "no member keeps one", lambda: claimed.with_devices() == ["plain-0", "plain-1"], SECONDS
    )


def test_no_device_is_allocated_for_a_gang_with_a_member_that_never_fits(
    api: Api, gangs: Gangs, nodes: NodeFactory, claimed: Claimed
) -> None:
    claimed.devices(nodes(), 2)
    gangs.create_group("old", 3)
    gangs.add("old", 2, **claimed.one_device())
    api.create(gangs.late("old-2", group="old"))
    await_failures(gangs, "old", "found nodes for all 3 pods")
    assert claimed.with_devices() == []
    gangs.create("young", 2, **claimed.one_device())
    gangs.await_phases("young", SECONDS, Running=2)
    assert claimed.with_devices() == ["young-0", "young-1"]


def test_a_gang_starts_whose_workers_have_to_be_near_a_leader_that_claims_a_device(
    api: Api, gangs: Gangs, nodes: NodeFactory, claimed: Claimed
) -> None:
    claimed.devices(nodes(), 1)
    term = {"labelSelector": {"matchLabels": {"role": "leader"}}, "topologyKey": HOST}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    gangs.create_group("g", 3)
    gangs.add("g", 2, affinity=near)
    await_failures(gangs, "g", "affinity", 2)
    leader = gangs.pod("leader", group="g", labels={"role": "leader"}, **claimed.one_device())
    api.create(leader)
    gangs.await_phases("g", Running=3)
