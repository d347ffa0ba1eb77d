"""Whatever happens in whatever order, counts that are kept up are what a recount gives."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.api.core_v1 import LabelSelector
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, Pattern, PodInfo, PodTerm, Shape
from tests.makers import cluster_of, deleted, event_of, node, nodes, pod, pod_group, requests, shape
from tests.recount import check_tables

TERM = PodTerm(LabelSelector(match_labels={"app": "x"}))
SHAPES = (shape(), Shape(requests(1), shuns=(TERM,)), Shape(requests(1), seeks=(TERM,)))
PATTERNS = [Pattern(shape(), "ns", {"app": name}, frozenset()) for name in ("x", "y")]
NAMES = st.sampled_from(("a", "b", "c"))
NODES = st.sampled_from(("n0", "n1"))


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    """Return a version of one of three pods."""
    return pod(
        draw(NAMES),
        draw(st.sampled_from(SHAPES)),
        group="gang",
        on=draw(st.none() | NODES),
        priority=draw(st.integers(0, 1)),
        scheduler=draw(st.sampled_from(("one", "other"))),
        gates=draw(st.sampled_from(((), ("gate",)))),
        unschedulable=draw(st.sampled_from((None, "no node"))),
        terminating=draw(st.booleans()),
        nominated=draw(st.none() | NODES),
    )


EVENTS: st.SearchStrategy[Any] = st.one_of(
    pods().map(event_of),
    pods().map(ev.PodSeen),
    pods().map(lambda each: ev.PodRefused(each, "r")),
    NAMES.map(deleted),
    NAMES.map(lambda name: ev.PodsTried((name,))),
    NAMES.map(lambda name: ev.Unreserved((name,))),
    st.dictionaries(NAMES, NODES).map(ev.Planned),
    st.builds(ev.PodWaiting, pods(), NODES),
    st.builds(ev.PodBinding, pods(), NODES),
    st.lists(pods(), unique_by=lambda each: each.uid).map(
        lambda found: ev.ObjectsListed(PodInfo, found)
    ),
    st.builds(lambda name, cpu: event_of(node(name, cpu)), NODES, st.integers(1, 2)),
    NODES.map(lambda name: deleted(name, NodeInfo)),
    st.builds(
        ev.Looked,
        st.sampled_from(PATTERNS),
        st.lists(NODES),
        st.floats(0, 200),
        st.booleans(),
    ),
)


@given(st.lists(EVENTS, max_size=40))
def test_each_event_leaves_counts_that_a_recount_gives(events: list[Any]) -> None:
    cluster = cluster_of(nodes(4, 4), pod_group())
    view = cluster.view()
    for event in events:
        cluster.apply(event)
        check_tables(cluster)
        every = view.pods.values()
        for of in PATTERNS:
            named = any(
                each.shape.shuns or (each.shape.seeks and each.node is None) for each in every
            )
            assert view.is_named(of) is (named and of.labels["app"] == "x")
            assert set(view.good_nodes(of)) <= view.nodes.keys()
        waiting = [
            each.priority
            for each in every
            if not (each.node or each.gates or each.unschedulable or each.terminating)
            and each.uid not in view.refused
            and view.reservation(each.uid) is None
        ]
        assert view.highest_fresh(("one", "other")) == max(waiting, default=None)
        for name in view.nodes:
            others = {view.pods[uid].scheduler for uid in view.pods_on(name)} - {"one"}
            there = view.nodes_of_others(("one",))
            assert any(name in each for each in there) >= bool(others)
