"""The rows of the page: use of quota, who waits where, and the map of nodes."""

from dataclasses import replace

from extender.api.core_v1 import Toleration
from extender.explain.facts import GroupFacts
from extender.gang.verdicts import GangOptions
from extender.state.cluster import events as ev
from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo, PodInfo
from extender.state.cluster.reservations import Claim
from extender.state.queue import events as qv
from extender.state.queue.records import TopologyInfo
from gang_tools.page import views
from tests.makers import cluster_of, node, nodes, pod, pod_group, taint
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    cohort,
    condition,
    flavor,
    group,
    local_queue,
    meta,
    quota,
    workload,
)
from tests.unit.explain.scene import facts, holding

TEAM = (
    *(flavor(), cohort("all"), cohort("team", "all")),
    *(cluster_queue("a", 4, "team"), local_queue("a")),
    *(cluster_queue("b", 4, "team"), local_queue("b")),
    *(cluster_queue("alone", quota(2)), local_queue("alone")),
)


def bar(row: views.Row) -> tuple[object, ...]:
    """Return the one bar of a row: parts in per cent, and its text."""
    [found] = row["bars"]
    parts = found["used"], found["borrowed"], found["lent"]
    return *parts, f"{found['text']} {found['more']}".strip()


def test_each_queue_is_under_its_cohort_with_what_it_uses_borrows_and_lends() -> None:
    queues = Admissions(*TEAM)
    queues.put(holding("large", 7, "a"), holding("small", 1, "b"))

    found = views.queues_shown(facts(queues), {}, {}).tree

    assert [(row["depth"], row["name"]) for row in found] == [
        (0, "all"), (1, "team"), (2, "a"), (2, "b"), (0, "alone"),
    ]  # fmt: skip
    rows = {row["name"]: row for row in found}
    assert bar(rows["all"]) == (100, 0, 0, "8 of 8")
    assert bar(rows["a"]) == (57.14, 42.86, 0, "7 of 4 3 borrowed")
    assert bar(rows["b"]) == (25, 0, 75, "1 of 4 3 lent")
    assert bar(rows["alone"]) == (0, 0, 0, "0 of 2")
    assert [rows[name]["admitted"] for name in ("all", "a", "alone")] == [2, 1, 0]


def test_under_its_quota_is_what_is_free_on_the_nodes_of_a_flavor() -> None:
    large = {"size": "large"}
    cluster = cluster_of(
        node("used", 4, labels=large, taints=(taint(),)),
        node("kept", 4, labels=large),
        node("not-ready", 4, labels=large, ready=False),
        node("cordoned", 4, labels=large, unschedulable=True),
        node("tainted", 4, labels=large, taints=(taint("broken"),)),
        node("small", 4),
        *(pod("plain", 1, on="used"), pod_group("gang", 2), pod("m-0", 2, group="gang")),
    )
    cluster.apply(ev.Planned({"m-0": "kept"}))
    flavors = (
        flavor(node_labels=large, node_taints=(taint(),)),
        flavor("none", node_labels={"a": ""}),
    )
    queues = Admissions(
        *flavors,
        cluster_queue("a", 4),
        cluster_queue("b", group(none=2)),
        cluster_queue("below", 4, cohort="all"),
    )

    room = views.room_shown(cluster.view(), flavors)

    tree = views.queues_shown(facts(queues), room, {}).tree
    bars = {row["name"]: row["bars"][0] for row in tree}
    assert (bars["a"]["on_nodes"], bars["a"]["taken"]) == ("5 free of 8", 37.5)
    assert (bars["b"]["on_nodes"], bars["b"]["taken"]) == ("none", 100)
    assert bars["all"]["on_nodes"] == "5 free of 8"
    assert "on_nodes" not in bars["below"]


def test_the_map_and_the_queues_have_as_much_free() -> None:
    members = [pod(f"m-{number}", 3, group="gang") for number in range(2)]
    cluster = cluster_of(
        *nodes(4, 4, 4, 4), node("n4", unschedulable=True), node("n5", ready=False),
        pod("runs", 4, on="n0"), pod("part", 1, on="n1"), pod_group("gang", 2), *members,
    )  # fmt: skip
    cluster.apply(ev.Planned({"m-0": "n2"}))
    cluster.apply(ev.PodBinding(members[1], "n3"))
    cluster.apply(ev.Claimed([Claim("ns/gang", 0, {"n0": {"cpu": 4000}, "n1": {"cpu": 1000}})]))

    every = flavor(tolerations=(Toleration(operator="Exists"),))
    free, _ = views.room_shown(cluster.view(), [every])["default"]

    shown = views.nodes_shown(cluster.view(), Admissions().view, "cpu")
    assert (free["cpu"], shown.total["free"]) == (4000, "4")


def test_who_waits_is_counted_by_reason_in_its_queue_and_above() -> None:
    queues = Admissions(*TEAM)
    queues.put(holding("large", 8, "a"), workload("first", 2, "b"), workload("second", 3, "b"))

    shown = views.queues_shown(facts(queues), {}, {})

    waiting = [(row["position"], row["id"], row["reason"], row["lacks"]) for row in shown.waiting]
    assert waiting == [
        (1, "ns/first", "WaitingForQuota", "2 cpu of default"),
        (2, "ns/second", "WaitingForQuota", "3 cpu of default"),
    ]
    assert [row["said"] for row in shown.waiting] == ["", ""]  # the same, perhaps of earlier
    assert shown.queues_of == {"ns": {"a", "b", "alone"}}
    rows = {row["name"]: row for row in shown.tree}
    for name in ("all", "team", "b"):
        assert rows[name]["reasons"] == [{"name": "WaitingForQuota", "count": 2}], name
    assert rows["a"]["waiting"] == 0


def test_who_waits_has_the_start_that_is_expected_or_never_or_none_that_is_known() -> None:
    queues = Admissions(*TEAM)
    queues.put(*(workload(name, 9, "alone") for name in ("known", "never", "new")))
    starts = {"ns/known": 1_000_000, "ns/never": None}
    found = views.queues_shown(facts(queues), {}, starts).waiting
    assert {row["id"]: row["starts"] for row in found} == {
        "ns/known": 1_000_000, "ns/never": "never", "ns/new": "",
    }  # fmt: skip


def test_a_workload_that_waits_has_the_labels_of_its_pods() -> None:
    template = b'{"metadata":{"labels":{"user":"ada"}}}'
    for raw, labels in ((template, ["user=ada"]), (b"", []), (b'{"metadata":[1]}', [])):
        queues = Admissions(*TEAM)
        waits = workload("waits", 9, "alone")
        queues.put(replace(waits, pod_sets=(replace(waits.pod_sets[0], template=raw),)))
        [row] = views.queues_shown(facts(queues), {}, {}).waiting
        assert row["labels"] == labels


def test_what_waits_in_a_queue_that_is_stopped_has_no_place_but_a_reason() -> None:
    queues = Admissions(flavor(), cluster_queue("cq", stop_policy="Hold"), local_queue())
    queues.put(workload("held"))

    shown = views.queues_shown(facts(queues), {}, {})

    assert [(row["position"], row["id"], row["reason"]) for row in shown.waiting] == [
        ("", "ns/held", "Suspended")
    ]
    assert shown.tree[0]["waiting"] == 1
    assert "stopped" in shown.tree[0]["inactive"]


def test_the_map_has_a_row_for_each_domain_and_what_each_gang_has() -> None:
    queues = Admissions()
    queues.put(TopologyInfo(meta("racks"), ("zone", "rack", "kubernetes.io/hostname")))
    cluster = cluster_of(
        node("n1", 4, labels={"zone": "z", "rack": "r1"}),
        node("n0", 4, labels={"zone": "z", "rack": "r1"}, unschedulable=True),
        node("n2", 4, labels={"zone": "z", "rack": "r2"}),
        pod("m-0", 2, group="gang", on="n1"),
        pod("plain", 1, on="n1"),
    )

    found = views.nodes_shown(cluster.view(), queues.view, "cpu")

    assert [(row["path"], [n["name"] for n in row["nodes"]]) for row in found.rows] == [
        (["z", "r1"], ["n0", "n1"]),
        (["z", "r2"], ["n2"]),
    ]
    tile = found.rows[0]["nodes"][1]
    parts = [(part["gang"], part["kind"], part["width"]) for part in tile["parts"]]
    assert parts == [("ns/gang", "used", 50), ("other pods", "used", 25)]
    assert (tile["free"], tile["of"]) == ("1", "4")
    assert found.rows[0]["nodes"][0]["trouble"] == "cordoned"
    assert found.gangs == ["ns/gang"]
    assert found.total == {
        "nodes": 3, "cpu in all": "12", "used": "3", "kept for gangs": "0", "free": "5",
        "cordoned or not ready": "4",
    }  # fmt: skip


def test_only_the_tiles_that_a_change_concerns_are_made_again() -> None:
    member = pod("m-0", 2, group="gang")
    cluster = cluster_of(*nodes(4, 4), pod_group("gang", 1), member)
    changes = [
        ev.Planned({"m-0": "n0"}),
        ev.ObjectApplied(pod("m-0", 2, group="gang", on="n0")),
        ev.ObjectApplied(pod("m-0", 3, group="gang", on="n0")),
        ev.ObjectApplied(node("n0", 4, unschedulable=True)),
        ev.ObjectDeleted(PodInfo, "m-0"),
    ]
    found = views.nodes_shown(cluster.view(), Admissions().view, "cpu")
    for change in changes:
        before = found
        cluster.apply(change)
        found = views.nodes_shown(cluster.view(), Admissions().view, "cpu", before=before)
        assert found == views.nodes_shown(cluster.view(), Admissions().view, "cpu") != before
        assert found.tiles["n1"] is before.tiles["n1"]


def test_what_waits_in_no_queue_is_listed_with_its_reason() -> None:
    queues = Admissions(flavor(), cluster_queue("cq"), local_queue())
    queues.put(workload("lost", queue="nope"))

    shown = views.queues_shown(facts(queues), {}, {})

    [row] = shown.waiting
    assert (row["id"], row["queue"], row["reason"]) == ("ns/lost", "", "Misconfigured")
    assert "LocalQueue nope" in row["said"]


def test_room_that_is_kept_on_a_node_in_use_is_not_subtracted_twice() -> None:
    members = [pod(f"m-{number}", 4, group="gang") for number in range(2)]
    cluster = cluster_of(*nodes(4, 4), pod("runs", 4, on="n0"), pod_group("gang", 2), *members)
    cluster.apply(ev.Claimed([Claim("ns/gang", 0, {"n0": {"cpu": 4000}})]))

    found = views.nodes_shown(cluster.view(), Admissions().view, "cpu")

    assert [tile["free"] for tile in found.rows[0]["nodes"]] == ["0", "4"]
    assert [found.total[name] for name in ("used", "kept for gangs", "free")] == ["4", "4", "4"]


def test_scarce_resources_come_first() -> None:
    view = cluster_of(node("n0", gpu=8), node("n1")).view()
    assert views.resources_of(view) == ["example.com/gpu", "cpu"]


def test_room_that_is_kept_is_neither_used_nor_free() -> None:
    members = [pod(f"m-{number}", 2, group="gang") for number in range(2)]
    cluster = cluster_of(*nodes(4), pod_group("gang", 2), *members)
    cluster.apply(ev.Planned({"m-0": "n0"}))

    found = views.nodes_shown(cluster.view(), Admissions().view, "cpu")

    [tile] = found.rows[0]["nodes"]
    [part] = tile["parts"]
    assert (part["gang"], part["kind"], part["why"]) == ("ns/gang", "kept", "planned")
    assert found.rows[0]["path"] == ["all nodes"]
    assert [found.total[name] for name in ("used", "kept for gangs", "free")] == ["0", "2", "2"]


def test_the_workloads_with_quota_of_a_queue_are_shown_with_what_each_holds() -> None:
    queues = Admissions(*TEAM)
    asks = workload("assumed", 1, "a")
    held = replace(admission(asks, "a"), reserved_only=True)
    queues.put(
        holding("old", 2, "a"), holding("elsewhere", 2, "b"), asks, workload("waits", 9, "a")
    )
    queues.apply(qv.Assumed(asks.key, held))

    rows = views.holders_shown(facts(queues), "a")

    assert [(row["id"], row["state"], row["since"], row["holds"]) for row in rows] == [
        ("ns/assumed", "QuotaReserved", "", "1 cpu of default"),
        ("ns/old", "Admitted", 100, "2 cpu of default"),
    ]
    assert views.holders_shown(facts(queues), "none") == []
    old = holding("old", 2, "a")
    queues.put(replace(old, conditions=(*old.conditions, condition("Evicted"))))
    assert [row["state"] for row in views.holders_shown(facts(queues), "a")][1:] == ["Evicted"]


def test_a_gang_is_in_the_queue_of_its_workload() -> None:
    queues = Admissions(*TEAM)
    done = workload("done", 1, "a", conditions=(condition("Finished"),))
    queues.put(holding("runs", 2, "b"), workload("waits", 2, "a"), done)
    names = "runs", "waits", "done", "plain"
    cluster = cluster_of(*nodes(4), *(pod_group(name, 2) for name in names))

    rows = views.gangs_shown(GroupFacts(cluster.view(), GangOptions(), 0), queues.view)

    queue_of = {row["name"]: row["queue"] for row in rows}
    assert queue_of == {"runs": "b", "waits": "a", "done": "", "plain": ""}


def test_gangs_that_wait_come_first_with_what_the_reconciler_says_of_them() -> None:
    why = ConditionInfo("Scheduled", "False", "NotEnoughResources", "0 of 1 pods fit", 0)
    waits = PodGroupStatusInfo(conditions=(why,))
    cluster = cluster_of(
        *nodes(4),
        *(pod_group("runs", 1), pod("r", 1, group="runs", on="n0")),
        *(pod_group("waits", 1, created=9.5, status=waits), pod("w", 8, group="waits")),
        *(pod_group("lacks", 2), pod("l", 1, group="lacks", labels={"user": "ada", "a": "b"})),
    )
    rows = views.gangs_shown(GroupFacts(cluster.view(), GangOptions(), 0), Admissions().view)

    assert [(row["position"], row["name"], row["state"], row["pods"]) for row in rows] == [
        (1, "waits", "Waiting", "0 of 1"),
        ("", "lacks", "Waiting", "0 of 2"),
        ("", "runs", "Started", "1 of 1"),
    ]
    assert [(row["reason"], row["said"], row["since"]) for row in rows] == [
        ("NotEnoughResources", "0 of 1 pods fit", 9),
        ("NotEnoughPods", "", 0),
        ("", "", 0),
    ]
    assert [row["labels"] for row in rows] == [[], ["a=b", "user=ada"], []]


def test_no_list_ends_before_its_last_item() -> None:
    queues = Admissions(flavor(), cluster_queue("cq", 1), local_queue())
    queues.put(holding("holder", 1), *(workload(f"w{number}", 1) for number in range(1002)))
    shown = views.queues_shown(facts(queues), {}, {})
    assert shown.tree[0]["waiting"] == len(shown.waiting) == 1002
    assert shown.waiting[-1]["position"] == 1002

    cluster = cluster_of(*nodes(4), *(pod_group(f"g{number:04}") for number in range(1001)))
    rows = views.gangs_shown(GroupFacts(cluster.view(), GangOptions(), 0), Admissions().view)
    assert rows[-1]["name"] == "g1000"


def test_a_person_sees_rows_of_some_namespaces_and_how_many_more_there_are() -> None:
    rows = [{"namespace": "a"}, {"namespace": "b"}, {"namespace": "b"}]
    assert views.hidden(rows, None) == (rows, 0)
    assert views.hidden(rows, {"a"}) == ([{"namespace": "a"}], 2)


def test_the_map_names_no_gang_of_another_namespace() -> None:
    two = pod("m-0", 2, group="gang", on="n0"), pod("m-1", 1, group="gang-too", on="n0")
    own = replace(pod("own", 1, on="n0"), group="other/own")
    cluster = cluster_of(*nodes(4), *two, own)
    found = views.nodes_shown(cluster.view(), Admissions().view, "cpu")
    assert "ns/gang-too" in str(found)

    hidden = views.nodes_hidden(found, {"other"})

    assert "ns/" not in str(hidden)
    assert hidden.total == found.total
    [seen, rest] = hidden.rows[0]["nodes"][0]["parts"]
    assert seen["gang"] == "other/own"
    assert rest == {
        "gang": views.OTHERS, "kind": "used", "amount": 3000, "width": 75, "text": "3",
    }  # fmt: skip
    assert views.nodes_hidden(found, {"ns", "other"}) == found == views.nodes_hidden(found, None)
