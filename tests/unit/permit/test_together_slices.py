"""Large groups begin to be bound slice by slice; each is judged by the books of its moment."""

import asyncio
from collections.abc import Iterator

import pytest

from extender.gang.verdicts import AnyNode
from extender.permit.timing import SLICE_PODS
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from tests.makers import deleted, key, node, nodes, observe, pod, pod_group, pods, taint, until
from tests.unit.permit.test_together import EQUAL, Play
from tests.unit.server.scene import Scene

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("patient", "in_pieces")]

GANG = key("gang")
COUNT = 3 * SLICE_PODS


def play_of(cluster: Cluster) -> Play:
    """Return the play of a gang of three slices: the first one on n2, the last one on n0."""
    many = pods(COUNT, pattern=EQUAL)
    observe(cluster, *nodes(*[SLICE_PODS] * 3, slots=999), *many, pod_group(min_member=COUNT))
    # The last member begins first.
    cluster.apply(ev.Planned({each.uid: f"n{n // SLICE_PODS}" for n, each in enumerate(many)}))
    return Play(Scene(cluster))


async def first_slice(cluster: Cluster) -> Play:
    """Return the play when the first slice has begun, and no other."""
    play = play_of(cluster)
    play.start(play.scene.view.pods["gang-0"])
    await until(lambda: play.scene.view.tally(GANG).binding)
    assert len(play.scene.view.tally(GANG).binding) == SLICE_PODS
    return play


async def test_room_that_another_pod_got_between_two_slices_is_not_taken(cluster: Cluster) -> None:
    """A plan yields to a pod of higher priority."""
    play = await first_slice(cluster)
    observe(cluster, vip := pod("vip", priority=9))
    assert isinstance(play.filter(vip, "n0"), AnyNode)
    bound = play.scene.loop.create_task(play.scene.bind(vip, "n0"))
    await asyncio.sleep(1)

    assert await bound == ""
    assert not play.scene.view.is_overcommitted("n0", ["cpu"]) or (
        not play.scene.view.tally(GANG).binding
    )
    assert play.scene.binder.calls == [("vip", "n0")]


async def test_a_pod_that_was_answered_between_two_slices_has_its_room(cluster: Cluster) -> None:
    """kube-scheduler has assumed it, and asks for its Binding later."""
    play = await first_slice(cluster)
    observe(cluster, vip := pod("vip", priority=9))
    assert isinstance(play.filter(vip, "n0"), AnyNode)
    await asyncio.sleep(1)

    assert play.scene.binder.calls == []
    assert not play.scene.view.tally(GANG).binding


async def test_a_node_that_changed_between_two_slices_is_not_used(cluster: Cluster) -> None:
    play = await first_slice(cluster)
    observe(cluster, node("n0", SLICE_PODS, slots=999, taints=(taint(),)))
    await asyncio.sleep(1)

    assert play.scene.binder.calls == []
    assert not play.scene.view.tally(GANG).binding


async def test_kube_scheduler_that_is_found_behind_between_two_slices_judges_all(
    cluster: Cluster,
) -> None:
    play = play_of(cluster)
    behind = False
    play.scene.ahead._is_behind = lambda: behind  # type: ignore[method-assign]
    play.start(play.scene.view.pods["gang-0"])
    await until(lambda: play.scene.view.tally(GANG).binding)
    behind = True
    await asyncio.sleep(1)

    assert play.scene.binder.calls == []
    assert not play.scene.view.tally(GANG).binding


# --- the look before it


async def test_what_changes_during_the_look_counts(cluster: Cluster) -> None:
    """The room of members that were looked at first is gone when the look ends."""
    play = play_of(cluster)
    play.start(play.scene.view.pods["gang-0"])
    for _ in range(COUNT // 64 - 2):
        await asyncio.sleep(0)
    assert not play.scene.view.tally(GANG).binding
    observe(cluster, pod("vip", 1, on="n2", priority=9))
    await asyncio.sleep(1)

    assert play.scene.binder.calls == []
    assert not play.scene.view.tally(GANG).binding


async def test_a_group_that_changes_during_a_look_in_vain_is_looked_at_again(
    cluster: Cluster,
) -> None:
    play = play_of(cluster)
    observe(cluster, vip := pod("vip", 1, on="n2", priority=9))
    play.start(play.scene.view.pods["gang-0"])
    for _ in range(COUNT // 64 - 2):
        await asyncio.sleep(0)
    cluster.apply(deleted(vip.uid))
    play.scene.waiting.decide(GANG)
    await until(lambda: len(play.scene.binder.calls) == COUNT)


async def test_nothing_begins_when_the_process_is_about_to_stop_during_a_look(
    cluster: Cluster,
) -> None:
    play = play_of(cluster)
    play.start(play.scene.view.pods["gang-0"])
    await asyncio.sleep(0)
    play.scene.waiting.refuse_all()
    await asyncio.sleep(1)

    assert play.scene.binder.calls == []
    assert not play.scene.view.tally(GANG).binding


async def test_a_fault_in_the_look_leaves_the_group_to_the_next_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, faults = play_of(cluster), FAULTS.counts["bind-together"]

    def fails(*_: object, **__: object) -> Iterator[None]:
        yield
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr("extender.gang.ahead.members_able", fails)
        play.start(play.scene.view.pods["gang-0"])
        await until(lambda: FAULTS.counts["bind-together"] > faults)
    play.scene.waiting.decide(GANG)

    await until(lambda: len(play.scene.binder.calls) == COUNT)


@pytest.mark.parametrize("where", ["judging", "releasing", "taking back"])
async def test_a_fault_frees_what_was_begun_and_the_group_starts_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    play = await first_slice(cluster)
    joined = play.scene.loop.create_task(
        play.scene.bind(play.scene.view.pods[f"gang-{COUNT - 1}"], "n2")
    )
    faults = FAULTS.counts["bind-together"]

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        if where == "judging":
            patched.setattr("extender.gang.ahead.still_able", fails)
        elif where == "releasing":
            patched.setattr(play.scene.waiting, "release", fails)
        else:
            observe(cluster, node("n0", SLICE_PODS, slots=999, taints=(taint(),)))
            patched.setattr(play.scene.waiting, "follow", fails)
        await until(lambda: FAULTS.counts["bind-together"] > faults)
        await asyncio.sleep(0)
        assert not play.scene.view.tally(GANG).binding
        assert play.scene.binder.calls == []
    observe(cluster, node("n0", SLICE_PODS, slots=999))
    nodes_of = {f"gang-{number}": f"n{number // SLICE_PODS}" for number in range(COUNT)}
    free = nodes_of.keys() - play.scene.view.tally(GANG).waiting
    cluster.apply(ev.Planned({uid: nodes_of[uid] for uid in free}))
    play.start(play.scene.view.pods["gang-1"])
    await asyncio.sleep(2)

    assert len(play.scene.binder.calls) == COUNT
    assert joined.done()
