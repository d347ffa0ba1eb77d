"""The pages: lists of queues, gangs and nodes, and all that there is to say of one workload."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from gang_tools.page import parts, views
from gang_tools.page.access import Viewer, viewer_of
from gang_tools.page.asking import Asking, asking
from gang_tools.page.following import FollowedCluster
from gang_tools.page.history import TimeShown
from gang_tools.page.parts import Growing, Parts, card, follow, frame, table
from gang_tools.page.showing import Showing
from gang_tools.page.story import story
from gang_tools.page.views import QueuesShown, Row

_OF_QUOTA: Final = {
    "used": "used", "borrowed": "borrowed", "room": "free", "lent": "taken by others",
}  # fmt: skip
_OF_NODES: Final = {
    "part c0": "used by a gang", "part c0 kept": "kept for a gang", "part other": "other pods",
    "room": "free",
}  # fmt: skip
_WAITING: Final = (
    "position=# job namespace queue=ClusterQueue priority since=Waits reason lacks said=Why"
)
_BY_TIME: Final = (
    "queue=ClusterQueue now=Used_now mean=Mean_of_the_last_hour waits=Waiting "
    "most=Most_waiting_in_the_last_hour"
)
_LINES: Final = (
    ("#56b4e9", "solid"), ("#e69f00", "dashed"), ("#45c39b", "dotted"), ("#d89ac0", "solid"),
    ("#e8896a", "dashed"), ("#8fa6e0", "dotted"), ("#a89a2e", "solid"),
)  # fmt: skip
"""The colour and the pattern of each line, which has its name at its end too."""
_GANGS: Final = "position=# name=Gang namespace state pods=Pods_with_a_node priority reason"


def add_pages(showing: Showing, followed: FollowedCluster, answers: Asking) -> None:
    """Add all pages."""
    ui.add_head_html(f"<style>{parts.template('page.css')}</style>", shared=True)
    ui.add_body_html(f"<script>{parts.template('page.js')}</script>", shared=True)

    @ui.page("/")
    def start() -> Response:
        return RedirectResponse("/queues")

    @ui.page("/find")
    def find(request: Request, name: str = "") -> Response:
        viewer = viewer_of(request)
        return RedirectResponse(_found(name.strip(), followed, viewer))

    @ui.page("/queues")
    def queues(request: Request, *, namespace: str = "", queue: str = "", text: str = "") -> None:
        with frame("Queues", showing, request) as viewer:
            _Queues(showing, viewer, {"namespace": namespace, "queue": queue, "text": text})

    @ui.page("/gangs")
    def gangs(request: Request, namespace: str = "") -> None:
        with frame("Gangs", showing, request) as viewer:
            _gangs(showing, viewer, namespace)

    @ui.page("/nodes")
    def nodes(request: Request, resource: str = "", gang: str = "") -> None:
        with frame("Nodes", showing, request) as viewer:
            there = views.resources_of(followed.cluster) or ["cpu"]
            there.sort(key=lambda each: each != resource)
            _nodes(showing, viewer, resources=there, gang=gang)

    @ui.page("/what-if")
    def what_if(request: Request) -> None:
        with frame("What if", showing, request) as viewer:
            asking(answers, viewer)

    @ui.page("/time")
    def time(request: Request) -> None:
        with frame("Time", showing, request):
            _time(showing)

    @ui.page("/workload/{namespace}/{name}")
    def workload(request: Request, namespace: str, name: str) -> None:
        with frame(f"{namespace}/{name}", showing, request) as viewer:
            story(("workload", namespace, name), showing, followed, viewer=viewer, answers=answers)

    @ui.page("/gang/{namespace}/{name}")
    def gang(request: Request, namespace: str, name: str) -> None:
        with frame(f"{namespace}/{name}", showing, request) as viewer:
            story(("gang", namespace, name), showing, followed, viewer=viewer, answers=answers)


def _found(name: str, followed: FollowedCluster, viewer: Viewer) -> str:
    """Return the page of a gang, else that of a workload or job, with `namespace/name`."""
    is_gang = (
        viewer.sees(name.partition("/")[0])
        and name in followed.cluster.pod_groups
        and name not in followed.queues.workloads
    )
    if name.count("/") != 1:
        where = "text" if "/" in name else "namespace"
        return f"/queues?{urlencode({where: name})}" if name else "/queues"
    return f"/{'gang' if is_gang else 'workload'}/{quote(name)}"


class _Queues:
    """The page of queues: the tree of quota over what waits."""

    def __init__(self, showing: Showing, viewer: Viewer, chosen: dict[str, str]) -> None:
        self._showing, self._viewer, self._chosen = showing, viewer, chosen
        self._numbers = Parts("numbers")
        with ui.element("div").classes("filters"):
            change = partial(self._choose, "namespace")
            self._namespaces = parts.choice("Namespace", chosen["namespace"], change=change)
            change = partial(self._choose, "queue")
            self._queues = parts.choice("ClusterQueue", chosen["queue"], change=change)
            text = ui.input("Filter: text, label=value", value=chosen["text"]).props(
                "dense outlined clearable"
            )
            text.on_value_change(lambda event: self._choose("text", event.value or ""))
        with card():
            with ui.element("div").classes("title"):
                parts.words("Quota", tag="h2")
                parts.legend(_OF_QUOTA)
            tree = ui.table(columns=[], rows=[], row_key="id", pagination=0)
            tree.props("grid flat hide-bottom").add_slot("item", parts.template("queue.html"))
            self._tree = Growing(tree, 40, "There is no ClusterQueue here.")
        with card("Waiting"):
            self._rows = Growing(table(_WAITING, scrolls=True), 100, "Nothing waits here.")
        follow(showing, ("queues",), self._draw)

    def _choose(self, name: str, value: str) -> None:
        self._chosen[name] = value
        query = urlencode({name: value for name, value in self._chosen.items() if value})
        ui.navigate.history.replace(f"/queues?{query}" if query else "/queues")
        self._draw()

    def _draw(self) -> None:
        found: QueuesShown = self._showing.view(("queues",))
        seen, others = views.hidden(found.waiting, self._viewer.namespaces)
        queues = [row["name"] for row in found.tree if row["kind"] == "ClusterQueue"]
        parts.offer(self._namespaces, [row["namespace"] for row in seen])
        parts.offer(self._queues, queues)
        rows = [row for row in seen if self._is_chosen(row)]
        self._rows.set(
            [{**row, "labels": "", "job_href": f"/workload/{row['id']}"} for row in rows],
            f"{others} more wait in other namespaces." if others else "",
        )
        queue, *less = (self._chosen[name] for name in ("queue", "namespace", "text"))
        of_rows = {row["queue"] for row in rows}
        tree = [
            row
            for row in found.tree
            if (not queue or queue in row["queues"])
            and (not any(less) or not of_rows.isdisjoint(row["queues"]))
        ]
        self._tree.set(tree)
        admitted = [row["admitted"] for row in tree if row["kind"] == "ClusterQueue"]
        waiting = len(rows) + (0 if any(self._chosen.values()) else others)
        shown = {"workloads wait": waiting, "workloads have quota": sum(admitted)}
        self._numbers.show(parts.numbers({**shown, "ClusterQueues": len(admitted)}))

    def _is_chosen(self, row: Row) -> bool:
        text = self._chosen["text"].lower()
        words = (row["id"], row["job"], row["reason"], row["queue"], *row["labels"])
        return all(self._chosen[name] in ("", row[name]) for name in ("namespace", "queue")) and (
            any(text in each.lower() for each in words)
        )


def _gangs(showing: Showing, viewer: Viewer, namespace: str) -> None:
    with card("Gangs"):
        rows = Growing(table(_GANGS, scrolls=True), 100, "There is no gang here.")

    def draw() -> None:
        seen, others = views.hidden(showing.view(("gangs",)), viewer.namespaces)
        shown = [
            {**row, "name_href": f"/gang/{row['id']}", "state_class": parts.tone(row["state"])}
            for row in seen
            if namespace in ("", row["namespace"])
        ]
        rows.set(shown, f"{others} more are in other namespaces." if others else "")

    follow(showing, ("gangs",), draw)


def _to_nodes(resource: str, gang: str) -> None:
    ui.navigate.to(f"/nodes?{urlencode({'resource': resource, 'gang': gang})}")


def _nodes(showing: Showing, viewer: Viewer, *, resources: list[str], gang: str) -> None:
    """Show the map for the first of the resources."""
    key = "nodes", resources[0]
    numbers = Parts("numbers")
    pick = ui.html("", sanitize=False).classes("hidden")
    with ui.element("div").classes("filters"):
        field = parts.choice("Resource", resources[0], change=lambda to: _to_nodes(to, gang))
        parts.offer(field, resources)
        gangs = parts.choice("Gang", gang, change=lambda to: _to_nodes(resources[0], to))
        parts.legend(_OF_NODES)
    with card():
        racks = ui.table(columns=[{"name": "id", "field": "id"}], rows=[], pagination=0)
        racks.props("flat hide-header hide-bottom")
        racks.add_slot("body", parts.template("domain.html"))
        rows = Growing(racks, 30, "There is no node yet.")
    if gang:
        safe = "".join(c for c in gang if c.isalnum() or c in "./-_")
        pick.content = f'<style>.part:not([data-gang="{safe}"]) {{ opacity: .2; }}</style>'

    def draw() -> None:
        found = views.nodes_hidden(showing.view(key), viewer.namespaces)
        rows.set(found.rows)
        parts.offer(gangs, found.gangs)
        numbers.show(parts.numbers(found.total))

    follow(showing, key, draw)


def _time(showing: Showing) -> None:
    """Show the last hours of the queues."""
    numbers = Parts("numbers")
    with card("Use of nominal quota, %"):
        use = ui.echart({}).classes("chart").props('role=img aria-label="Use by ClusterQueue"')
    with card("Waiting workloads"):
        waiting = ui.echart({}).classes("chart").props('role=img aria-label="Waiting"')
    with card("In numbers"):
        rows = Growing(table(_BY_TIME, scrolls=True), 100, "No queue was used, and nothing waited.")

    def draw() -> None:
        found: TimeShown = showing.view(("time",))
        numbers.show(parts.numbers(found.numbers))
        rows.set(found.rows, "Of the time since the page runs, six hours at most.")
        for chart, lines in ((use, found.use), (waiting, found.waiting)):
            chart.options.clear()
            chart.options.update(_chart(lines))
            chart.update()

    follow(showing, ("time",), draw)


def _chart(lines: Mapping[str, Sequence[tuple[float, int]]]) -> dict[str, object]:
    """Return the options of a chart with a line for each queue."""
    series = [
        {
            "name": name,
            "type": "line",
            "step": "end",
            "showSymbol": len(points) == 1,
            "color": colour,
            "lineStyle": {"type": pattern},
            "endLabel": {"show": True, "formatter": "{a}", "color": "inherit"},
            "data": [[1000 * at, value] for at, value in points],
        }
        for (name, points), (colour, pattern) in zip(lines.items(), _LINES, strict=False)
    ]
    times = [at for at, _ in next(iter(lines.values()), ())]
    ends = {"min": 1000 * min(times[0], times[-1] - 600), "max": 1000 * times[-1]} if times else {}
    return {
        "animation": False,
        "textStyle": {"color": "#808a96"},
        "grid": {"left": 48, "right": 120, "top": 16, "bottom": 28},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "time", **ends},
        "yAxis": {"type": "value", "minInterval": 1},
        "series": series,
    }
