"""Room that victims leave: stored as it was chosen, and counted right whatever happens."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from extender.kube.stored import preemption_as_json, read_preemption
from extender.state.cluster import events as ev
from extender.state.cluster.records import NominatedRoom, PodGroupInfo, PreemptedRoom, VictimInfo
from tests.makers import cluster_of, deleted, key, nodes, pod_group, pods, requests
from tests.recount import check_tables

NAMES = st.text("abc-0123", min_size=1, max_size=8)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "example.com/gpu"]), st.integers(1, 2**40)
)
ROOMS = st.builds(NominatedRoom, st.lists(NAMES, max_size=3).map(tuple), AMOUNTS)
SINGLE = NAMES.map(lambda uid: VictimInfo("Pod", uid, (uid,)))
WHOLE = st.builds(VictimInfo, st.just("PodGroup"), NAMES, st.lists(NAMES, max_size=4).map(tuple))
CHOSEN = st.builds(
    PreemptedRoom,
    st.integers(0, 2**32).map(float),
    st.dictionaries(NAMES, ROOMS, max_size=4),
    st.lists(SINGLE | WHOLE, max_size=5).map(tuple),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
FIELDS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("since", "nodes", "victims", "other"), JSON)
)


@given(CHOSEN)
def test_what_is_chosen_is_read_as_it_was(chosen: PreemptedRoom) -> None:
    assert read_preemption(msgspec.json.encode(preemption_as_json(chosen))) == chosen


@given(st.binary() | (JSON | FIELDS).map(msgspec.json.encode))
def test_nothing_that_is_stored_raises(raw: bytes) -> None:
    found = read_preemption(raw)
    assert found is None or isinstance(found, PreemptedRoom)


MEMBERS = pods(3, group="high", priority=5)
HAPPENS = st.one_of(
    st.builds(
        lambda rooms: ev.Nominated(
            key("high"),
            PreemptedRoom(
                1.0, {name: NominatedRoom((), requests(cpu)) for name, cpu in rooms.items()}, ()
            ),
        ),
        st.dictionaries(st.sampled_from(["n0", "n1", "gone"]), st.integers(0, 6)),
    ),
    st.just(ev.NominationsEnded((key("high"), key("none")))),
    st.builds(
        lambda pod, node: ev.Planned({pod.uid: node}),
        st.sampled_from(MEMBERS),
        st.sampled_from(["n0", "n1"]),
    ),
    st.builds(ev.PodBinding, st.sampled_from(MEMBERS), st.sampled_from(["n0", "n1"])),
    st.sampled_from([deleted(each.uid) for each in MEMBERS]),
    st.sampled_from([ev.ObjectApplied(each) for each in MEMBERS]),
    st.just(ev.ObjectApplied(pod_group("high", 2))),
    st.just(deleted((pod_group("high").api_group, key("high")), PodGroupInfo)),
)


@given(st.lists(HAPPENS, max_size=15))
def test_it_is_kept_for_a_group_that_waits_and_for_no_other(happens: list[Any]) -> None:
    cluster = cluster_of(nodes(4, 4), pod_group("high", 2), MEMBERS)
    view = cluster.view()
    for event in happens:
        cluster.apply(event)
        check_tables(cluster)
        kept, group = view.nominated.get(key("high")), view.pod_group(key("high"))
        if kept is None:
            continue
        assert group is not None
        assert view.tally(key("high")).assigned < view.quorum(group)
        for name, node in view.nodes.items():
            own = view.free(node, priority=5, group=key("high"))
            equal = view.free(node, priority=5)
            for resource, amount in kept.amounts.get(name, {}).items():
                assert own.get(resource, 0) - equal.get(resource, 0) == amount
