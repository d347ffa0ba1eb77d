"""The pages: lists of queues, gangs and nodes, and all that there is to say of one workload."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from extender.state.cluster.view import ClusterView
from gang_tools.page import parts, views
from gang_tools.page.access import Viewer, viewer_of
from gang_tools.page.asking import Asking, asking
from gang_tools.page.following import FollowedCluster
from gang_tools.page.history import TimeShown
from gang_tools.page.looks import line_chart, template
from gang_tools.page.parts import Growing, Parts, card, follow, frame, table
from gang_tools.page.showing import Draw, Showing
from gang_tools.page.story import story
from gang_tools.page.views import QueuesShown, Row

Asked = Mapping[str, str]
"""The parameters of an address."""
_OF_QUOTA: Final = {
    "used": "used", "borrowed": "borrowed", "room": "free", "lent": "lent to others",
    "taken": "not free on nodes",
}  # fmt: skip
_WORDS: Final = ("id", "job", "state", "reason", "queue")
"""The columns in which a text is looked for, beside the labels."""
_CHOICES: Final = {"namespace": "Namespace", "queue": "ClusterQueue"}
_OF_NODES: Final = {
    "part c0": "used by a gang", "part c0 kept": "kept for a gang", "part other": "other pods",
    "room": "free",
}  # fmt: skip
_WAITING: Final = (
    "position=# job namespace queue=ClusterQueue priority since=Waits starts=Starts reason lacks "
    "said=Why"
)
_HOLDERS: Final = "job namespace state priority since=Held_for holds=Quota"
_BY_TIME: Final = (
    "id=ClusterQueue now=Used_now mean=Mean_of_the_last_hour waits=Waiting "
    "most=Most_waiting_in_the_last_hour"
)
_GANGS: Final = (
    "position=# name=Gang namespace queue=ClusterQueue state pods=Pods_with_a_node priority "
    "since=Age reason said=Why"
)


def add_pages(showing: Showing, followed: FollowedCluster, answers: Asking) -> None:
    """Add all pages."""
    ui.add_head_html(f"<style>{template('page.css')}</style>", shared=True)
    ui.add_body_html(f"<script>{template('page.js')}</script>", shared=True)

    @ui.page("/")
    def start() -> Response:
        return RedirectResponse(_first(followed))

    @ui.page("/find")
    def find(request: Request, name: str = "") -> Response:
        viewer = viewer_of(request)
        return RedirectResponse(_found(name.strip(), followed, viewer))

    def add(path: str, title: str, draw: Callable[[Viewer, Asked], None]) -> None:
        @ui.page(path)
        def page(request: Request) -> None:
            asked = {**request.query_params, **request.path_params}
            with frame(title.format(**asked), showing, request) as viewer:
                draw(viewer, asked)

    def tell(kind: str, viewer: Viewer, asked: Asked) -> None:
        story((kind, asked["namespace"], asked["name"]), showing, followed, viewer=viewer)

    add("/queues", "Queues", partial(_queues, showing))
    add("/gangs", "Gangs", partial(_gangs, showing))
    add("/nodes", "Nodes", partial(_nodes, showing, cluster=followed.cluster))
    add("/time", "Time", lambda *_: _time(showing))
    add("/what-if", "What if", lambda viewer, _: asking(answers, viewer))
    for kind in ("workload", "gang"):
        path = f"/{kind}/{{namespace}}/{{name}}"
        add(path, "{namespace}/{name}", partial(tell, kind))


def _first(followed: FollowedCluster) -> str:
    """Return the page that is opened first: that of gangs where there is no queue."""
    return "/queues" if followed.queues.cluster_queues else "/gangs"


def _found(name: str, followed: FollowedCluster, viewer: Viewer) -> str:
    """Return the page of what has a name, or is the only one with it in any namespace."""
    groups, workloads = followed.cluster.pod_groups, followed.queues.workloads
    jobs = (f"{w.meta.namespace}/{owner.name}" for w in workloads.values() for owner in w.owners)
    there = {key for key in chain(groups, workloads, jobs) if viewer.sees(key.partition("/")[0])}
    if "/" not in name:
        there = {key for key in there if key.endswith(f"/{name}")}
        name = next(iter(there)) if len(there) == 1 else name
    if name.count("/") != 1:
        return _first(followed) + (f"?{urlencode({'text': name})}" if name else "")
    is_gang = name in there and name in groups and name not in workloads
    return f"/{'gang' if is_gang else 'workload'}/{quote(name)}"


def _filters(path: str, chosen: dict[str, str], drawn: list[Draw]) -> dict[str, ui.select]:
    """Show fields that choose what is drawn, and return those with options; the address has it."""

    def choose(name: str, value: str) -> None:
        chosen[name] = value
        query = urlencode({name: value for name, value in chosen.items() if value})
        address = f"{path}?{query}" if query else path
        if name == "queue" and path == "/queues":  # another view is followed then
            ui.navigate.to(address)
        else:
            ui.navigate.history.replace(address)
            for draw in drawn:
                draw()

    with ui.element("div").classes("filters"):
        fields = {
            name: parts.choice(_CHOICES[name], chosen[name], change=partial(choose, name))
            for name in chosen
            if name in _CHOICES
        }
        text = ui.input("Filter: text, label=value", value=chosen["text"])
        text.props("dense outlined clearable")
        text.on_value_change(lambda event: choose("text", event.value or ""))
    return fields


def _chosen(
    rows: list[Row], chosen: Asked, viewer: Viewer, *, path: str = "/workload"
) -> tuple[list[Row], str]:
    """Return the chosen rows, each with its link, and a note about those of other namespaces.

    A text may be in any of the words of a row. Of hidden rows only the queue is looked at.
    """
    link = "name_href" if path == "/gang" else "job_href"
    namespace, queue, text = chosen["namespace"], chosen["queue"], chosen["text"].lower()
    of_queue = [row for row in rows if queue in ("", row["queue"])]
    seen, others = views.hidden(of_queue, viewer.namespaces)
    found = list[Row]()
    for row in seen:
        words = (*(row.get(name, "") for name in _WORDS), *row["labels"]) if text else ("",)
        if namespace in ("", row["namespace"]) and any(text in each.lower() for each in words):
            found.append({**row, "labels": "", link: f"{path}/{row['id']}"})
    return found, f"{others} more are in other namespaces." if others else ""


def _queues(showing: Showing, viewer: Viewer, asked: Asked) -> None:
    """Show the tree of quota over what waits, and what holds the quota of a chosen queue."""
    chosen = {name: asked.get(name, "") for name in ("namespace", "queue", "text")}
    drawn = list[Draw]()
    fields = _filters("/queues", chosen, drawn)
    with card():
        with ui.element("div").classes("title"):
            parts.words("Quota", tag="h2")
            parts.legend(_OF_QUOTA)
        cells = ui.table(columns=[], rows=[], row_key="id", pagination=0)
        cells.props("grid flat hide-bottom").add_slot("item", template("queue.html"))
        tree = Growing(cells, 40, "There is no ClusterQueue here.")
    with card("Waiting"):
        waiting = Growing(table(_WAITING), 100, "Nothing waits here.")
    if chosen["queue"]:
        with card("With quota"):
            drawn.append(_holders(showing, viewer, chosen))

    def draw() -> None:
        found: QueuesShown = showing.view(("queues",))
        known = {name: of for name, of in found.queues_of.items() if viewer.sees(name)}
        names = [row["name"] for row in found.tree if row["kind"] == "ClusterQueue"]
        parts.offer(fields["namespace"], known)
        parts.offer(fields["queue"], names)
        rows, others = _chosen(found.waiting, chosen, viewer)
        waiting.set(rows, others)
        namespace, queue, text = chosen.values()
        queues = {name for name in names if text.lower() in name.lower()}
        queues.update(row["queue"] for row in rows)
        if namespace:
            queues &= known.get(namespace, set())
        if queue:
            queues &= {queue}
        is_all = not any(chosen.values())
        tree.set([row for row in found.tree if is_all or queues & {*row["queues"]}])

    drawn.append(draw)
    follow(showing, ("queues",), draw)


def _holders(showing: Showing, viewer: Viewer, chosen: Asked) -> Draw:
    """Show what holds the quota of the chosen queue, and return what draws it again."""
    key = "holders", chosen["queue"]
    rows = Growing(table(_HOLDERS), 100, "Nothing holds quota here.")

    def draw() -> None:
        rows.set(*_chosen(showing.view(key), chosen, viewer))

    follow(showing, key, draw)
    return draw


def _gangs(showing: Showing, viewer: Viewer, asked: Asked) -> None:
    chosen = {name: asked.get(name, "") for name in ("namespace", "queue", "text")}
    drawn = list[Draw]()
    fields = _filters("/gangs", chosen, drawn)
    with card("Gangs"):
        gangs = Growing(table(_GANGS), 100, "There is no gang here.")

    def draw() -> None:
        found: list[Row] = showing.view(("gangs",))
        for name, field in fields.items():
            parts.offer(field, {row[name] for row in found if viewer.sees(row["namespace"])} - {""})
        rows, others = _chosen(found, chosen, viewer, path="/gang")
        gangs.set([{**row, "state_class": parts.tone(row["state"])} for row in rows], others)

    drawn.append(draw)
    follow(showing, ("gangs",), draw)


def _to_nodes(resource: str, gang: str) -> None:
    ui.navigate.to(f"/nodes?{urlencode({'resource': resource, 'gang': gang})}")


def _nodes(showing: Showing, viewer: Viewer, asked: Asked, *, cluster: ClusterView) -> None:
    resources, gang = views.resources_of(cluster) or ["cpu"], asked.get("gang", "")
    resources.sort(key=lambda each: each != asked.get("resource"))
    key = "nodes", resources[0]
    numbers = Parts("numbers")
    with ui.element("div").classes("filters"):
        field = parts.choice("Resource", resources[0], change=lambda to: _to_nodes(to, gang))
        parts.offer(field, resources)
        gangs = parts.choice("Gang", gang, change=lambda to: _to_nodes(resources[0], to))
        parts.legend(_OF_NODES)
    with card():
        racks = ui.table(columns=[{"name": "id", "field": "id"}], rows=[], pagination=0)
        racks.props("flat hide-header hide-bottom")
        racks.add_slot("body", template("domain.html"))
        rows = Growing(racks, 10, "There is no node yet.")
    if gang:
        safe = "".join(c for c in gang if c.isalnum() or c in "./-_")
        style = f'<style>.part:not([data-gang="{safe}"]) {{ opacity: .2; }}</style>'
        ui.html(style, sanitize=False).classes("hidden")

    def draw() -> None:
        found = views.nodes_hidden(showing.view(key), viewer.namespaces)
        none = f"{gang} has no node." if gang and gang not in found.gangs else ""
        rows.set(sorted(found.rows, key=lambda row: gang not in views.gangs_in(row)), none)
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
        rows = Growing(table(_BY_TIME), 100, "No queue was used, and nothing waited.")

    def draw() -> None:
        found: TimeShown = showing.view(("time",))
        numbers.show(parts.numbers(found.numbers))
        rows.set(found.rows, found.note)
        for chart, lines in ((use, found.use), (waiting, found.waiting)):
            chart.options.clear()
            chart.options.update(_chart(lines))
            chart.update()

    follow(showing, ("time",), draw)


def _chart(lines: Mapping[str, Sequence[tuple[float, int]]]) -> dict[str, object]:
    """Return the options of a chart with a line for each queue, until now."""
    times = [at for at, _ in next(iter(lines.values()), ())]
    ends = {"min": 1000 * min(times[0], times[-1] - 600), "max": 1000 * times[-1]} if times else {}
    in_ms = {name: [(1000 * at, n) for at, n in points] for name, points in lines.items()}
    return line_chart(in_ms, {"type": "time", **ends})
