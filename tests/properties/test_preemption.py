"""Victims of whole gangs, against a search of every set of units: few nodes, few units.

What may go and what fits is written anew here; only which members of a gang are above minMember is
taken from the code, and tested by itself (`tests/unit/gang/test_units.py`).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from extender.api.core_v1 import LabelSelector
from extender.gang.verdicts import GangOptions
from extender.gang.victims import Preemption, Unit, choosing, stands
from extender.state.cluster import events as ev
from extender.state.cluster.records import (
    BudgetInfo,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    Shape,
    in_order,
)
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.effort import examples
from tests.makers import NAMESPACE, cluster_of, node, pod, pod_group, shape
from tests.recount import check_tables

NOW = 10_000.0
OPTIONS = GangOptions()
ZONE = "zone"
SHAPES = [shape(1), shape(2), shape(3), shape(1, gpu=1), shape(1, one_per_node=True)]


@dataclass
class Scene:
    """Nodes, pods on them, and a gang that comes."""

    nodes: list[NodeInfo]
    running: list[PodInfo] = field(default_factory=list)
    groups: list[PodGroupInfo] = field(default_factory=list)
    gang: PodGroupInfo = field(default_factory=pod_group)
    members: list[PodInfo] = field(default_factory=list)
    zones: list[str] = field(default_factory=list)
    """The zone of each member, where a queue has chosen them."""

    @property
    def priority(self) -> int:
        return self.members[0].priority

    def cluster(self) -> Cluster:
        return cluster_of(self.nodes, self.running, self.groups, self.gang, self.members)

    def room(self, gone: Collection[str] = ()) -> dict[str, Counter[str]]:
        """Return what is left of each node; pods that are being deleted are going anyway."""
        left = {each.name: Counter(each.allocatable) for each in self.nodes}
        for each in self.running:
            if each.uid not in gone and not each.terminating:
                left[each.node or ""].subtract(each.shape.requests)
        return left

    def fits(self, gone: Collection[str] = ()) -> bool:
        """Return whether all members fit without some pods, in the zones where they have to be."""
        left = self.room(gone)
        zones: dict[str, list[NodeInfo]] = {}
        for each in self.nodes:
            label = each.labels[ZONE] if self.gang.required_topology or self.zones else ""
            zones.setdefault(label, []).append(each)
        if self.zones:
            asked_in: dict[str, list[Shape]] = {}
            for member, zone in zip(self.members, self.zones, strict=True):
                asked_in.setdefault(zone, []).append(member.shape)
            return all(packs(asked_in[zone], zones.get(zone, ()), left) for zone in asked_in)
        asked = [member.shape for member in self.members]
        return any(packs(asked, there, left) for there in zones.values())


def takes(room: Mapping[str, int], asked: Shape) -> bool:
    return all(room.get(name, 0) >= amount for name, amount in asked.requests.items() if amount)


def packs(
    asked: Sequence[Shape], nodes: Sequence[NodeInfo], left: Mapping[str, Counter[str]]
) -> bool:
    """Return whether pods go to nodes, by trying everything."""
    if not asked:
        return True
    first, rest = asked[0], asked[1:]
    for each in nodes:
        room = left[each.name]
        if room[f"shy {id(first)}"] < 0:
            continue
        if takes(room, first):
            after = room.copy()
            after.subtract(first.requests)
            if first.one_per_node:
                after[f"shy {id(first)}"] -= 1
            if packs(rest, nodes, {**left, each.name: after}):
                return True
    return False


@st.composite
def scenes(draw: st.DrawFn, *, alike: bool = True) -> Scene:
    """Draw at most four nodes and about eight units, of five priorities."""
    nodes = [
        node(
            f"n{number}",
            draw(st.sampled_from([3, 4, 4, 6])),
            slots=draw(st.sampled_from([3, 8, 8, 8])),
            gpu=draw(st.sampled_from([0, 1, 2, 2])),
            labels={ZONE: draw(st.sampled_from("ab"))},
        )
        for number in range(draw(st.sampled_from([1, 2, 2, 3, 3, 4])))
    ]
    scene = Scene(nodes)
    for number in range(draw(st.integers(3, 7))):
        size, priority = draw(st.integers(1, 3)), draw(st.integers(0, 4))
        gang = size > 1 or draw(st.booleans())
        name, asks = f"low{number}", draw(st.sampled_from(SHAPES[:4]))
        members = []
        for index in range(size):
            rooms = scene.room()
            able = [
                n for n in nodes if all(rooms[n.name][r] >= a for r, a in asks.requests.items())
            ]
            if able:
                on = draw(st.sampled_from(able))
                one = pod(
                    f"{name}-{index}",
                    asks,
                    group=name if gang else None,
                    on=on.name,
                    priority=priority,
                    cost=draw(st.sampled_from([None, None, 1, -1])),
                    bound_at=draw(st.integers(1, 4)),
                    terminating=draw(st.integers(0, 9)) == 0,
                )
                members.append(one)
                scene.running.append(one)
        if gang and members:
            least = draw(st.integers(1, len(members)))
            scene.groups.append(pod_group(name, least))
    kinds = (
        [draw(st.sampled_from(SHAPES))]
        if alike
        else draw(st.lists(st.sampled_from(SHAPES), min_size=2, max_size=3, unique=True))
    )
    count = draw(st.integers(len(kinds), 4))
    priority = draw(st.sampled_from([1, 2, 3, 4, 5, 5]))
    said: dict[str, Any] = {
        "group": "gang",
        "priority": priority,
        "pod_set": "main",
        "controller": "job",
    }
    scene.members = [pod(f"gang-{n}", kinds[n % len(kinds)], index=n, **said) for n in range(count)]
    topology = draw(st.sampled_from([None, "required", "chosen"]))
    if topology == "chosen":
        scene.zones = draw(st.lists(st.sampled_from("ab"), min_size=count, max_size=count))
        assigned = {"main": in_order((ZONE,), [(zone,) for zone in scene.zones])}
        scene.gang = pod_group("gang", count, assigned=assigned)
    else:
        scene.gang = pod_group("gang", count, required_topology=ZONE if topology else None)
    return scene


def choose(scene: Scene, options: GangOptions = OPTIONS) -> tuple[Preemption | None, Cluster]:
    cluster = scene.cluster()
    version = cluster.view().version
    found = at_once(choosing(scene.gang, view=cluster.view(), now=NOW, options=options))
    check_tables(cluster)
    assert cluster.view().version == version
    return found, cluster


def legal(scene: Scene) -> Iterator[frozenset[str]]:
    """Yield every set of pods that may go: of a gang all, or as many as it can do without."""
    per_owner: dict[str, list[PodInfo]] = {}
    for each in scene.running:
        per_owner.setdefault(each.group or each.uid, []).append(each)
    ways: list[list[frozenset[str]]] = []
    for owner, members in per_owner.items():
        there = [each for each in members if not each.terminating]
        may = [each for each in there if each.priority < scene.priority]
        if len(may) < len(there):  # a gang is as important as its first member
            continue
        group = next((g for g in scene.groups if g.key == owner), None)
        spare = len(there) if group is None else max(0, len(there) - group.min_member)
        sets = [
            frozenset(p.uid for p in some)
            for count in range(min(spare, len(may)) + 1)
            for some in combinations(may, count)
        ]
        sets.append(frozenset(p.uid for p in there))
        ways.append(list(dict.fromkeys(sets)))
    found = [frozenset[str]()]
    for way in ways:
        found = [each | more for each in found for more in way]
    yield from found


def uids(units: Collection[Unit]) -> frozenset[str]:
    return frozenset(pod.uid for unit in units for pod in unit.all_pods)


def highest(scene: Scene, gone: Collection[str]) -> int:
    return max((each.priority for each in scene.running if each.uid in gone), default=-1)


@settings(max_examples=examples(500))
@given(scenes())
def test_victims_are_as_few_and_as_unimportant_as_can_be(scene: Scene) -> None:
    found, cluster = choose(scene)
    if scene.fits():
        event("fits without")
        assert found is None
        return
    enough = [gone for gone in legal(scene) if scene.fits(gone)]
    if found is None:
        event("does not fit")
        assert not enough
        return
    event("preempts")
    chosen = uids(found.victims)
    assert chosen in enough
    assert highest(scene, chosen) == min(highest(scene, each) for each in enough)
    for count in range(len(found.victims)):
        for some in combinations(found.victims, count):
            assert not scene.fits(uids(some)), "fewer units would do"
    check_places(scene, found)
    assert stands(found, view=cluster.view(), now=NOW)
    again, _ = choose(scene)
    assert again is not None
    assert uids(again.victims) == chosen


def check_places(scene: Scene, found: Preemption) -> None:
    """Fail where a member has no place, or none once the victims are gone."""
    left = scene.room(uids(found.victims))
    assert {each.uid for each in scene.members} == set(found.pods)
    alone = set()
    for member in scene.members:
        name = found.pods[member.uid]
        left[name].subtract(member.shape.requests)
        if member.shape.one_per_node:
            assert (name, member.shape) not in alone
            alone.add((name, member.shape))
    assert all(amount >= 0 for room in left.values() for amount in room.values())
    zones = {each.labels[ZONE] for each in scene.nodes if each.name in found.pods.values()}
    assert len(zones) == 1 or not scene.gang.required_topology
    zone_of = {each.name: each.labels.get(ZONE) for each in scene.nodes}
    for member, zone in zip(scene.members, scene.zones, strict=False):
        assert zone_of[found.pods[member.uid]] == zone
    assert found.nodes.keys() == {*found.pods.values()}
    for name, amounts in found.nodes.items():
        want = Counter[str]()
        for member in scene.members:
            if found.pods[member.uid] == name:
                want.update(member.shape.requests)
        assert Counter(amounts) == want


@st.composite
def gangs_of_unlike_size(draw: st.DrawFn) -> Scene:
    """Draw gangs of one to five pods, equal in all else, of which some share nodes."""
    scene = Scene([])
    for number, size in enumerate(draw(st.lists(st.integers(1, 5), min_size=2, max_size=5))):
        name = f"low{number}"
        for index in range(size):
            room = scene.room()
            half = [each for each in scene.nodes if room[each.name]["cpu"]]
            shares: bool = draw(st.booleans())
            if half and shares:
                on = draw(st.sampled_from(half))
            else:
                on = node(f"n{len(scene.nodes)}", 2)
                scene.nodes.append(on)
            scene.running.append(pod(f"{name}-{index}", 1, group=name, on=on.name))
        age = float(draw(st.integers(1, 3)))
        scene.groups.append(pod_group(name, size, started=age))
    for each in scene.nodes:
        if scene.room()[each.name]["cpu"]:
            scene.running.append(pod(f"stays-{each.name}", 1, on=each.name, priority=9))
    low = sum(each.group is not None for each in scene.running)
    count = draw(st.integers(1, min(7, low)))
    scene.members = [pod(f"gang-{n}", 1, group="gang", priority=5) for n in range(count)]
    scene.gang = pod_group("gang", count)
    return scene


@settings(max_examples=examples(300))
@given(gangs_of_unlike_size())
def test_no_gang_could_have_stayed(scene: Scene) -> None:
    found, _ = choose(scene)
    assert found is not None
    chosen = uids(found.victims)
    assert scene.fits(chosen)
    for unit in found.victims:
        assert not scene.fits(chosen - uids([unit]))


@settings(max_examples=examples(200))
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_of_equal_pods_as_few_go_as_members_lack_room(
    counts: list[int], data: st.DataObject
) -> None:
    """Each node has room for four pods, of which some are there."""
    scene = Scene([node(f"n{number}", 4) for number in range(len(counts))])
    for number, count in enumerate(counts):
        said: dict[str, Any] = {
            "priority": data.draw(st.integers(0, 2)),
            "bound_at": data.draw(st.integers(1, 4)),
        }
        scene.running += [pod(f"p{number}-{n}", 1, on=f"n{number}", **said) for n in range(count)]
    free = 4 * len(counts) - sum(counts)
    size = data.draw(st.integers(free + 1, 4 * len(counts)))
    scene.members = [pod(f"gang-{n}", 1, group="gang", priority=5) for n in range(size)]
    scene.gang = pod_group("gang", size)
    found, _ = choose(scene)
    assert found is not None
    assert len(uids(found.victims)) == size - free


@settings(max_examples=examples(300))
@given(scenes(alike=False))
def test_of_unlike_members_what_is_said_to_fit_fits(scene: Scene) -> None:
    found, _ = choose(scene)
    if found is None:
        return
    # In domains that a queue chose unlike pods are placed in one order alone.
    assert scene.zones or not scene.fits() or not found.victims
    assert uids(found.victims) in set(legal(scene))
    check_places(scene, found)


@settings(max_examples=examples(200))
@given(scenes(), st.data())
def test_budgets_are_kept_where_units_that_none_protects_are_enough(
    scene: Scene, data: st.DataObject
) -> None:
    """A budget allows no eviction here: then it is exact which units may go."""
    guarded = {p.uid for p in scene.running if data.draw(st.integers(0, 3)) == 0}
    scene.running = [
        replace(p, labels={"app": "a"}) if p.uid in guarded else p for p in scene.running
    ]
    budget = BudgetInfo(NAMESPACE, "b", LabelSelector(match_labels={"app": "a"}), 0)
    cluster = scene.cluster()
    cluster.apply(ev.ObjectApplied(budget))
    found, strict = (
        at_once(choosing(scene.gang, view=cluster.view(), now=NOW, options=options))
        for options in (OPTIONS, GangOptions(strict_budgets=True))
    )
    if scene.fits():
        assert found is strict is None
        return
    enough = [gone for gone in legal(scene) if scene.fits(gone)]
    kept = [gone for gone in enough if not gone & guarded]
    assert (found is not None) == bool(enough)
    if strict is not None:
        event("keeps the budget")
        assert found is not None
        assert uids(found.victims) == uids(strict.victims)
        assert uids(strict.victims) in kept
        lowest = min(highest(scene, each) for each in kept)
        assert highest(scene, uids(strict.victims)) == lowest
    elif found is not None:
        event("breaks the budget")
        assert uids(found.victims) in enough
        assert uids(found.victims) & guarded
