"""Gangs that claim volumes or devices: who passes when, and which devices are taken back."""

import asyncio
from collections.abc import Sequence

import pytest
from typing_extensions import override

from extender.api.core_v1 import NodeSelector
from extender.api.reasons import Reason
from extender.gang.filter import lacking_claims, match_volumes, may_be_deallocated
from extender.gang.verdicts import FilterVerdict, OneNode, Refuse
from extender.permit.plans import DryRounds
from extender.permit.timing import CHECK_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.records import ClaimInfo, PodInfo, StorageClassInfo, VolumeInfo
from extender.state.cluster.store import Cluster
from tests.makers import (
    ManualClock,
    deleted,
    key,
    labelled,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
)
from tests.unit.server.scene import NoClaims

DEVICES = frozenset(("DeviceClass gpu",))
LOCAL = "StorageClass local"
GIB = 2**30


def devices(owner: str, *, allocated: bool = False, users: Sequence[str] = ()) -> ClaimInfo:
    """Return a pod's claim to a device."""
    return ClaimInfo(
        f"resourceclaims/ns/{owner}",
        version="7",
        classes=DEVICES,
        allocated=allocated,
        users=frozenset(users),
    )


def storage(owner: str, size: int = GIB, *, allocated: bool = False) -> ClaimInfo:
    """Return a pod's claim to a local volume."""
    claim = f"persistentvolumeclaims/ns/{owner}"
    return ClaimInfo(claim, classes=frozenset((LOCAL,)), allocated=allocated, size=size)


def volume(name: str, host: str, size: int = GIB, claim: str = "") -> VolumeInfo:
    """Return a volume on a node."""
    on = NodeSelector([labelled("host", "In", host)])
    return VolumeInfo(f"persistentvolumes/{name}", LOCAL, size, claim=claim, nodes=on)


def member(claim: ClaimInfo, *, on: str | None = None) -> PodInfo:
    """Return the pod of a claim."""
    name = claim.key.rpartition("/")[2]
    group = name.rpartition("-")[0] or None
    return pod(name, group=group, on=on, claim_keys=(claim.key,))


def know(cluster: Cluster, *found: ClaimInfo | VolumeInfo | StorageClassInfo) -> None:
    """Show claims, volumes and classes to the state."""
    observe(cluster, [ev.ObjectApplied(each) for each in found])


class Scene:
    """The gangs `g` and `h` of two, each with two claims to devices, and room planned for both."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.clock = cluster, ManualClock()
        self.woken: list[str] = []
        claims = [devices(f"{group}-{number}") for group in "gh" for number in range(2)]
        know(cluster, *claims)
        observe(
            cluster,
            nodes(9, 9),
            [pod_group(name, 2) for name in "gh"],
            [member(each) for each in claims],
        )
        self.claims = DryRounds(
            cluster,
            NoClaims(),
            clock=self.clock,
            wake_after=lambda each, _: self.woken.append(each),
        )
        self.plan("g")
        self.plan("h")

    def plan(self, group: str) -> None:
        observe(self.cluster, ev.Planned({f"{group}-0": "n0", f"{group}-1": "n1"}))

    def ask(self, name: str, *sent: str) -> FilterVerdict:
        """Return the answer to a member that has a planned node."""
        asked = self.cluster.view().pods[name]
        verdict = OneNode("n0")
        found = self.claims.judge(asked, asked.group or "", verdict, sent=sent or ("n0", "n1"))
        if isinstance(found, Refuse):
            self.cluster.apply(ev.PodRefused(asked, found.reason))
            self.claims.refused(asked)
        else:
            self.claims.answered(asked, refused=False)
        return found

    def reason(self, name: str) -> Reason | None:
        """Return the reason for which a member is refused, if it is."""
        found = self.ask(name)
        return found.reason if isinstance(found, Refuse) else None


@pytest.fixture
def scene(cluster: Cluster) -> Scene:
    return Scene(cluster)


def test_the_last_member_that_has_a_node_lets_all_pass(scene: Scene) -> None:
    assert scene.reason("g-0") is Reason.NODES_FOR_ALL_FIRST
    assert scene.reason("g-0") is Reason.NODES_FOR_ALL_FIRST
    assert scene.reason("g-1") is None
    assert scene.woken == ["g-0"]
    assert scene.reason("g-0") is None


def test_nodes_that_were_found_long_ago_count_no_more(scene: Scene) -> None:
    scene.ask("g-0")
    scene.clock.now += CHECK_SECONDS + 1
    assert scene.reason("g-1") is Reason.NODES_FOR_ALL_FIRST
    assert scene.woken == ["g-0"]
    assert scene.reason("g-0") is None


def test_a_node_that_has_changed_counts_no_more(scene: Scene) -> None:
    scene.ask("g-0", "n0")
    observe(scene.cluster, node("n0", 9, unschedulable=True))
    assert scene.reason("g-1") is Reason.NODES_FOR_ALL_FIRST


def test_a_plan_that_ends_ends_the_round(scene: Scene) -> None:
    scene.ask("g-0")
    observe(scene.cluster, ev.Unreserved(("g-0", "g-1")))
    scene.plan("g")
    assert scene.reason("g-1") is Reason.NODES_FOR_ALL_FIRST


@pytest.mark.parametrize("end", ["bound", "sent away"])
def test_gangs_of_one_class_pass_one_after_the_other(scene: Scene, end: str) -> None:
    for name in ("h-0", "g-0", "g-1"):
        scene.ask(name)
    assert scene.reason("h-1") is Reason.CLASS_IN_USE
    scene.woken.clear()
    if end == "bound":
        observe(scene.cluster, [member(devices(name), on="n0") for name in ("g-0", "g-1")])
    else:
        observe(scene.cluster, ev.Unreserved(("g-0", "g-1")))
    assert set(scene.woken) == {key("h"), "h-0", "h-1"}
    # What it found before was perhaps given to the other one.
    assert scene.reason("h-1") is Reason.NODES_FOR_ALL_FIRST
    assert scene.reason("h-0") is None


def test_a_gang_whose_claims_are_all_allocated_has_no_round(scene: Scene) -> None:
    know(scene.cluster, *(devices(f"g-{number}", allocated=True) for number in range(2)))
    assert scene.reason("g-0") is None


def test_a_member_that_claims_nothing_has_to_have_a_node_too(cluster: Cluster) -> None:
    scene = Scene(cluster)
    observe(cluster, pod("g-1", group="g"))
    scene.plan("g")
    assert scene.reason("g-0") is Reason.NODES_FOR_ALL_FIRST
    assert scene.reason("g-1") is None


def test_a_claim_that_is_not_known_counts_as_one_without_anything(cluster: Cluster) -> None:
    observe(cluster, member(devices("g-0")))
    assert lacking_claims(key("g"), view=cluster.view()) == ["resourceclaims/ns/g-0"]


# --- volumes that are made by hand ---------------------------------------------------------------


def short(cluster: Cluster, found: dict[str, list[str]], *objects: VolumeInfo) -> str | None:
    """Return the class that is short of volumes, for pods with nodes by their names."""
    hosts = {name: node(name, labels={"host": name}) for name in ("n0", "n1")}
    know(cluster, StorageClassInfo(LOCAL, static=True), *objects)
    matched = match_volumes(
        {uid: [hosts[name] for name in names] for uid, names in found.items()},
        len(found),
        view=cluster.view(),
    )
    return matched if isinstance(matched, str) else None


@pytest.fixture
def two(cluster: Cluster) -> Cluster:
    """Two members that claim one volume each, of one and of two GiB."""
    claims = storage("g-0"), storage("g-1", 2 * GIB)
    know(cluster, *claims)
    observe(cluster, [member(each) for each in claims])
    return cluster


BOTH = {"g-0": ["n0", "n1"], "g-1": ["n0", "n1"]}


def test_each_claim_needs_a_volume_of_its_own(two: Cluster) -> None:
    large = volume("a", "n0", 2 * GIB)
    assert short(two, BOTH, large) == LOCAL
    assert short(two, BOTH, volume("b", "n1")) is None


def test_a_claim_takes_another_volume_where_one_is_needed_elsewhere(two: Cluster) -> None:
    found = {"g-0": ["n0", "n1"], "g-1": ["n0"]}
    assert short(two, found, volume("a", "n0", 2 * GIB), volume("b", "n1", 4 * GIB)) is None
    assert short(two, {**found, "g-0": ["n0"]}) == LOCAL


def test_a_volume_that_is_too_small_or_anothers_is_none(two: Cluster) -> None:
    small, others = (
        volume("a", "n0"),
        volume("b", "n0", 4 * GIB, claim="persistentvolumeclaims/x/y"),
    )
    assert short(two, BOTH, volume("c", "n0"), small, others) == LOCAL


def test_a_volume_that_is_bound_is_forgotten(two: Cluster) -> None:
    assert short(two, BOTH, volume("a", "n0"), volume("b", "n0", 2 * GIB)) is None
    bound = VolumeInfo("persistentvolumes/a", LOCAL, GIB, free=False)
    assert short(two, BOTH, bound) == LOCAL


def test_volumes_that_are_made_on_demand_are_not_counted(two: Cluster) -> None:
    assert short(two, BOTH, volume("a", "n0")) == LOCAL
    know(two, StorageClassInfo(LOCAL, static=False))
    assert match_volumes(dict.fromkeys(BOTH), 2, view=two.view()) == {}


def test_a_member_leaves_the_volume_that_only_its_sibling_can_use(two: Cluster) -> None:
    """Its plan says n0, where the one volume is that the sibling reaches."""
    hosts = [node(name, 9, labels={"host": name}) for name in ("n0", "n1")]
    observe(two, hosts, pod_group("g", 2))
    volumes = volume("a", "n0", 2 * GIB), volume("b", "n1", 2 * GIB)
    know(two, StorageClassInfo(LOCAL, static=True), *volumes)
    claims = DryRounds(two, NoClaims(), clock=ManualClock(), wake_after=lambda *_: None)
    observe(two, planned(g_0="n0", g_1="n0"))
    first, second = (two.view().pods[name] for name in ("g-0", "g-1"))
    claims.judge(first, key("g"), OneNode("n0"), sent=["n0", "n1"])
    assert claims.judge(second, key("g"), OneNode("n0"), sent=["n0"]) == OneNode("n0")
    found = claims.judge(first, key("g"), OneNode("n0"), sent=["n0", "n1"])
    assert found == OneNode("n1", {"g-0": "n1"})


def test_a_gang_short_of_volumes_keeps_no_room(two: Cluster) -> None:
    know(two, StorageClassInfo(LOCAL, static=True), volume("a", "n0", 2 * GIB))
    observe(two, nodes(9), pod_group("g", 2))
    claims = DryRounds(two, NoClaims(), clock=ManualClock(), wake_after=lambda *_: None)
    verdict = OneNode("n0", reserve={"g-0": "n0", "g-1": "n0"})
    found = claims.judge(two.view().pods["g-0"], key("g"), verdict, sent=["n0"])
    assert isinstance(found, Refuse)
    assert (found.reason, found.deny, found.reserve) == (Reason.NOT_ENOUGH_VOLUMES, True, {})


# --- devices that are taken back -----------------------------------------------------------------


def taken_back(cluster: Cluster, claim: ClaimInfo, *refused: str) -> bool:
    """Return whether the devices of a claim are taken back when these members were refused."""
    know(cluster, claim)
    return may_be_deallocated(claim, view=cluster.view(), refused=refused)


def test_devices_of_a_member_that_was_refused_are_taken_back(cluster: Cluster) -> None:
    observe(cluster, nodes(4), member(devices("g-0")))
    held = devices("g-0", allocated=True, users=["g-0"])
    assert taken_back(cluster, held, "g-0")
    assert not taken_back(cluster, held), "kube-scheduler may be about to bind it"
    assert not taken_back(cluster, devices("g-0"), "g-0"), "there are none"


def test_devices_of_others_are_left_alone(cluster: Cluster) -> None:
    held = devices("g-0", allocated=True, users=["g-0"])
    plain = pod("plain", claim_keys=(held.key,))
    observe(cluster, nodes(4), member(held), plain)
    assert not taken_back(cluster, held, "g-0", "plain"), "a pod beside the gang names it"
    observe(cluster, deleted("plain"))
    stranger = devices("g-0", allocated=True, users=["g-0", "plain"])
    assert not taken_back(cluster, stranger, "g-0"), "it is reserved for what is not known"
    assert taken_back(cluster, held, "g-0")
    observe(cluster, planned(g_0="n0"))
    assert not taken_back(cluster, held, "g-0"), "its gang has a plan"
    observe(cluster, member(held, on="n0"))
    assert not taken_back(cluster, held, "g-0"), "it has a node"


def test_a_claim_that_is_allocated_is_looked_at_again(cluster: Cluster) -> None:
    """kube-scheduler may write it after the member was refused, and our watch is later still."""
    written: list[str] = []
    done = asyncio.Event()

    class Writer(NoClaims):
        @override
        async def deallocate(self, claim: ClaimInfo) -> None:
            written.append(claim.version)
            know(cluster, devices("g-0"))
            done.set()

    async def play() -> None:
        claims = DryRounds(cluster, Writer(), clock=ManualClock(), wake_after=lambda *_: None)
        observe(cluster, member(devices("g-0")))
        work = asyncio.create_task(claims.run())
        claims.refused(cluster.view().pods["g-0"])
        await asyncio.sleep(0)
        know(cluster, devices("g-0", allocated=True, users=["g-0"]))
        await done.wait()
        claims.answered(cluster.view().pods["g-0"], refused=False)
        know(cluster, devices("g-0", allocated=True, users=["g-0"]))
        for _ in range(9):
            await asyncio.sleep(0)
        work.cancel()

    asyncio.run(play())
    assert written == ["7"]
