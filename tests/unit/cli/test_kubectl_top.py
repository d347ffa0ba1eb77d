"""`kubectl gang top` on a state that a test makes, without a terminal."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
from msgspec.json import encode
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from extender.config.settings import Settings
from extender.jobs.templates import group_name
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo
from extender.state.queue import events as ev
from extender.state.queue.records import NamespaceInfo, WorkloadInfo
from gang_tools.cli.kubectl.tables import TABLES, texts
from gang_tools.cli.kubectl.top import TopApp
from gang_tools.page.following import FollowedCluster
from tests.makers import NAMESPACE, ManualClock, node, observe, pod, pod_group, pods
from tests.queue_makers import cluster_queue, flavor, local_queue

NOW = 1000.0
SHORT = ConditionInfo("Scheduled", "False", "NotEnoughResources", "short of cpu 12", NOW)


def queued(name: str, cpu: int) -> WorkloadInfo:
    """Return a Workload of the queue `team`, created at 1970-01-01T00:15:00."""
    asks = {"resources": {"requests": {"cpu": str(cpu)}}}
    template = {"spec": {"containers": [{"name": "c", "image": "i", **asks}]}}
    meta = {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "1"}
    found = {
        "metadata": {**meta, "creationTimestamp": "1970-01-01T00:15:00Z"},
        "spec": {
            "queueName": "team",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }
    return QueueDecoder(Decoder()).workload(encode(found))


def followed(clock: ManualClock) -> FollowedCluster:
    """Return a cluster of two nodes with a gang that runs, one that waits, and two queued jobs."""
    seen = FollowedCluster(Settings(), cast("KubeClient", None), clock)
    running = [pod(f"runs-{n}", 2, group="runs", on="n1") for n in range(2)]
    waits = pod_group("waits", 5, created=NOW - 90, status=PodGroupStatusInfo(conditions=(SHORT,)))
    observe(seen._cluster, node("n1"), node("n2", unschedulable=True, ready=False), running)
    observe(seen._cluster, pod_group("runs", 2, created=NOW - 600), waits)
    observe(seen._cluster, pods(5, 4, group="waits"))
    queues = (NamespaceInfo(NAMESPACE), flavor(), cluster_queue("team", 4), local_queue("team"))
    for each in (*queues, queued("large", 8), queued("small", 3)):
        seen._queues.apply(ev.Applied(each))
    return seen


def rows(
    seen: FollowedCluster, name: str, text: str = "", column: int | None = None
) -> list[tuple[str, ...]]:
    """Return the cells of a table."""
    return [cells for _, cells in texts(TABLES[name](seen, ""), text, column)]


WAITS = ("ns", "waits", "", "", "0 of 5", "NotEnoughResources", "1", "0", "90s", "short of cpu 12")
RUNS = ("ns", "runs", "", "", "2 of 2", "", "", "0", "10m", "")


def test_each_table_says_what_there_is() -> None:
    seen = followed(ManualClock(NOW))
    assert rows(seen, "queues") == [
        ("team", "2", "0", "0 of 4 cpu", "ExceedsMaxQuota 1, PendingEvaluation 1")
    ]
    assert rows(seen, "gangs") == [WAITS, RUNS]
    assert rows(seen, "jobs") == [
        ("ns", "large", "team", "1", "0", "ExceedsMaxQuota", "4 cpu of default", "100s"),
        ("ns", "small", "team", "2", "0", "PendingEvaluation", "", "100s"),
    ]
    assert rows(seen, "nodes") == [
        ("n1", "Ready", "2", "4 of 4", "", "ns/runs"),
        ("n2", "NotReady,SchedulingDisabled", "0", "0 of 4", "", ""),
    ]
    assert rows(seen, "reasons") == [
        ("NotEnoughResources", "1", "0", "90s"),
        ("ExceedsMaxQuota", "0", "1", "100s"),
        ("PendingEvaluation", "0", "1", "100s"),
    ]
    assert TABLES["gangs"](seen, "other").rows == {}
    assert TABLES["jobs"](seen, "other").rows == {}


def test_rows_are_chosen_by_a_text_and_sorted_by_a_column() -> None:
    seen = followed(ManualClock(NOW))
    age = TABLES["gangs"](seen, "").heads.index("AGE")
    assert rows(seen, "gangs", "SHORT OF") == [WAITS]
    assert rows(seen, "gangs", column=1) == [RUNS, WAITS]
    assert rows(seen, "gangs", column=age) == [RUNS, WAITS]
    position = TABLES["gangs"](seen, "").heads.index("POSITION")
    observe(seen._cluster, pod_group("next", 3, created=NOW - 60), pods(3, 4, group="next"))
    places = [row[position] for row in rows(seen, "gangs", column=position)]
    assert places == ["2", "1", ""]


def test_a_gang_is_shown_with_the_queue_of_its_job() -> None:
    seen = followed(ManualClock(NOW))
    observe(seen._cluster, pod_group(group_name("small"), 1))
    queue = TABLES["gangs"](seen, "").heads.index("QUEUE")
    assert sorted(row[queue] for row in rows(seen, "gangs")) == ["", "", "team"]


def test_a_queue_shows_only_what_waits_in_it() -> None:
    seen = followed(ManualClock(NOW))
    seen._queues.apply(ev.Applied(cluster_queue("tea", 4)))
    [key] = [key for key in TABLES["queues"](seen, "").rows if key.endswith("=tea")]
    assert rows(seen, "jobs", key.removeprefix("jobs/")) == []
    assert len(rows(seen, "jobs", "Queue=team")) == 2


@asynccontextmanager
async def shown(
    seen: FollowedCluster, clock: ManualClock, size: tuple[int, int] = (160, 40)
) -> AsyncIterator[Pilot[None]]:
    """Run the program on a screen of the test."""
    async with TopApp(seen, clock).run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


def names(pilot: Pilot[None]) -> list[str]:
    """Return the second cell of each row that is on the screen, from top to bottom."""
    table = pilot.app.query_one(DataTable)
    return [str(table.get_row_at(n)[1]) for n in range(table.row_count)]


def text(pilot: Pilot[None]) -> str:
    """Return the text that is open; nothing where a table is shown."""
    found = pilot.app.query_one("#text", Static)
    assert found.parent is not None
    return str(found.render()) if found.parent.display else ""


async def keys(pilot: Pilot[None], *pressed: str) -> None:
    """Press keys, and wait until they have been heard."""
    await pilot.press(*pressed)
    await pilot.pause()


async def until(pilot: Pilot[None], reached: Callable[[], bool]) -> None:
    """Wait for something on the screen."""
    while not reached():
        await pilot.pause(0.05)


async def test_keys_filter_sort_open_and_quit() -> None:
    clock = ManualClock(NOW)
    async with shown(followed(clock), clock) as pilot:
        await keys(pilot, "2")
        assert names(pilot) == ["waits", "runs"]
        await keys(pilot, "slash", *"run", "enter")
        assert names(pilot) == ["runs"]
        assert not pilot.app.query_one(Input).display
        await keys(pilot, "escape", "s", "s")
        assert names(pilot) == ["runs", "waits"]
        heads = [str(each.label) for each in pilot.app.query_one(DataTable).columns.values()]
        assert heads[:2] == ["NAMESPACE", "NAME (sorted)"]
        await keys(pilot, "escape")
        assert names(pilot) == ["waits", "runs"]

        await keys(pilot, "up", "enter")
        assert "State         Waiting (NeverFits)" in text(pilot)
        await keys(pilot, "escape")
        assert text(pilot) == ""
        await keys(pilot, "3", "enter")
        assert "Workload      ns/large" in text(pilot)
        await keys(pilot, "question_mark")
        assert "q             quit" in text(pilot)
        await keys(pilot, "q")
    assert pilot.app.return_code == 0


async def test_enter_on_a_queue_or_a_reason_shows_what_waits_there() -> None:
    clock = ManualClock(NOW)
    async with shown(followed(clock), clock) as pilot:
        await keys(pilot, "enter")
        assert names(pilot) == ["large", "small"]
        await keys(pilot, "5", "down", "down", "enter")
        assert names(pilot) == ["small"]


@pytest.mark.parametrize("pressed", ["q", "ctrl+c"])
async def test_a_key_quits_also_from_the_filter(pressed: str) -> None:
    clock = ManualClock(NOW)
    async with shown(followed(clock), clock) as pilot:
        await keys(pilot, "slash")
        assert pilot.app.query_one(Input).has_focus
        await keys(pilot, *(["escape"] if pressed == "q" else []), pressed)
        assert not pilot.app.is_running
    assert pilot.app.return_code == 0


async def test_a_change_shows_and_the_cursor_stays_on_its_row() -> None:
    clock = ManualClock(NOW)
    seen = followed(clock)
    async with shown(seen, clock) as pilot:
        await keys(pilot, "2", "down")
        observe(seen._cluster, pod_group("first", 1, created=NOW), pods(1, 9, group="first"))
        await until(pilot, lambda: names(pilot) == ["waits", "first", "runs"])
        assert pilot.app.query_one(DataTable).cursor_row == 2
        await keys(pilot, "enter")
        assert "State         Started" in text(pilot)
        observe(seen._cluster, pod("runs-0", 2, group="runs", on="n1", terminating=True))
        await until(pilot, lambda: "being deleted" in text(pilot))


async def test_a_change_cuts_no_cell_and_keeps_the_columns_that_are_shown() -> None:
    clock = ManualClock(NOW)
    seen = followed(clock)
    async with shown(seen, clock, size=(60, 20)) as pilot:
        await keys(pilot, "2", "right", "right")
        table = pilot.app.query_one(DataTable)
        await until(pilot, lambda: table.scroll_x > 0)
        before = table.scroll_x
        observe(seen._cluster, pod_group("a-long-name", 1, created=NOW))
        cast("TopApp", pilot.app)._show()  # it may be painted from now on
        assert table.ordered_columns[1].get_render_width(table) >= len("a-long-name")
        await pilot.pause()
        assert table.scroll_x == before


async def test_a_look_at_an_app_that_has_ended_is_none() -> None:
    clock = ManualClock(NOW)
    app = TopApp(followed(clock), clock)
    async with app.run_test() as pilot:
        await pilot.press("q")

    app.look()
