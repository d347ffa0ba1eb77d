"""Of members that wait one is woken that kube-scheduler tries for a patch."""

from dataclasses import replace

from extender.api.reasons import Reason
from extender.gang import wake
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster
from tests.makers import key, nodes, observe, pod_group, pods


def test_a_member_that_our_refusal_did_not_stop_last_is_woken_last() -> None:
    """A patch does not bring what kube-scheduler's own filters rejected on every node."""
    cluster = Cluster()
    first, *others = pods(4, 1, group="gang")
    observe(cluster, nodes(4), pod_group("gang", 3), first, *others)
    observe(cluster, *(ev.PodRefused(each, Reason.RECENTLY_DENIED) for each in (first, *others)))
    text = "0/1 nodes are available: 1 Insufficient example.com/gpu."
    observe(cluster, replace(first, unschedulable=text))

    woken = wake.decide_group(key("gang"), view=cluster.view()).retry

    assert [each.uid for each in woken] == [others[0].uid]
