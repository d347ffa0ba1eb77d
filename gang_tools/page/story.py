"""The whole story of one workload or gang: what it passed, what it lacks, who holds that."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from nicegui import context, ui

from extender.api.explanations import (
    Explanation,
    GroupAhead,
    GroupExplanation,
    PassedGate,
    Position,
    RoomKept,
)
from extender.api.wellknown import POD_GROUP_LABEL
from extender.explain.lists import within
from extender.kube.errors import ApiError
from gang_tools.page import parts
from gang_tools.page.access import Viewer
from gang_tools.page.following import EVENTS_SECONDS, FollowedCluster
from gang_tools.page.parts import Part, Parts, card, follow, listed, on_nodes, words
from gang_tools.page.showing import Showing, ViewKey
from gang_tools.page.views import OTHERS, Row

Told = tuple[Explanation | None, GroupExplanation | None, int | str]
"""A workload, its gang, either of which may be missing, and the estimated start."""

_MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "Passed": ("✓", "good"),
    "Refused": ("✗", "bad"),
    "NotAsked": ("·", "quiet"),
    "Unknown": ("?", "quiet"),
}
_QUOTAS: Final = "flavor resource asked=Asks_for available used nominal missing"
_KEPT: Final = "name=Gang kind=By nodes amounts=Room message=Until"
_EVENTS: Final = "at=Last_seen_(UTC) count=Times reason about message"
_HOLDERS: Final = "holder=Workload cluster_queue=ClusterQueue amount=Holds since=For"
_POD_SETS: Final = "name=Pod_set count=Pods each=Each_asks_for flavors=Flavor"
_AHEAD: Final = "name=Gang priority needed=Pods_it_needs"
_MEMBERS: Final = "name=Pod state node message"


def story(key: ViewKey, showing: Showing, followed: FollowedCluster, *, viewer: Viewer) -> None:
    """Show a workload or a gang, `(kind, namespace, name)`, and follow it."""
    kind, namespace, name = key
    if not viewer.sees(namespace):
        parts.empty(f"{viewer.name} may not see what is in the namespace {namespace}.")
        return
    boxes = [Parts(layout) for layout in ("stack", "two", "stack", "two", "stack")]
    events, known, client = Parts(), list[Row](), context.client

    async def show_events() -> None:
        nonlocal known
        none, error = "There are none, or they have expired.", list[Part]()
        try:
            known = await followed.events(namespace, *_names(showing.view(key), name))
        except ApiError as why:  # those that are known stay
            none, error = "", [Part("error", f"Events cannot be read now: {why}", parts.empty)]
        if not client.is_deleted:
            events.show([*listed("Events", _EVENTS, known, none=none), *error])

    def draw() -> None:
        told: Told = showing.view(key)
        found = _tell(told, viewer)
        if told[:2] == (None, None):
            text = f"There is no {kind} {namespace}/{name}, or it is gone."
            found[0] = [Part("nothing", text, parts.empty)]
        for box, shown in zip(boxes, found, strict=True):
            box.show(shown)

    follow(showing, key, draw)
    ui.timer(EVENTS_SECONDS, show_events)


def _names(told: Told, name: str) -> list[str]:
    """Return the names of all objects that are shown."""
    workload, group, _ = told
    names = [name]
    if workload is not None:
        names += [workload.name, *(owner.name for owner in workload.owners[:3])]
    if group is not None:
        names += [group.name, *(each.name for each in group.members[:3])]
    return [*dict.fromkeys(names)]


def _tell(told: Told, viewer: Viewer) -> list[Iterable[Part]]:
    """Return the parts: head and cards of the workload, and of the gang, and commands."""
    workload, group, start = told
    found: list[Iterable[Part]] = [[], [], [], [], []]
    if workload is not None:
        if viewer.namespaces is not None:
            workload = within(workload, workload.namespace)
        facts = _facts_of_workload(workload, start if workload.state == "Pending" else "")
        found[:2] = [_head(workload, facts)], _of_workload(workload)
    if group is not None:
        found[2:4] = [_head(group, _facts_of_group(group))], _of_group(group, viewer)
    if workload is not None or group is not None:
        link = f"/nodes?gang={group.namespace}/{group.name}" if group is not None else ""
        commands = [*_commands(workload, group)], link
        found[4] = [Part("commands", commands, _draw_commands)]
    return found


def _of_workload(found: Explanation) -> Iterator[Part]:
    rows = [each.model_dump() for each in found.quotas]
    for row in rows:
        lacks = row["unfit"] or row["missing"] != "0"
        row["missing"] = row["unfit"] or (f"✗ {row['missing']}" if lacks else "✓ none")
        row["missing_class"] = "bad" if lacks else "good"
    yield from listed(f"Quota in {found.cluster_queue}", _QUOTAS, rows)
    for lack in found.waiting_for:
        rows = [each.model_dump() for each in lack.holders]
        for row in rows:
            row["holder"] = f"{row['namespace']}/{row['name']}"
            row["holder_href"] = f"/workload/{row['holder']}"
            row["since"] = int(row["since"].timestamp()) if row["since"] else ""
        yield from listed(
            f"Lacks {lack.missing} {lack.resource} of flavor {lack.flavor}, held by",
            _HOLDERS,
            rows,
            more=lack.more_holders,
            none="no workload: the quota itself is smaller",
            name=f"lacks {lack.resource} of {lack.flavor}",
        )
    rows = [each.model_dump() for each in found.pod_sets]
    for row in rows:
        row["each"] = _amounts(row["each"])
        row["flavors"] = ", ".join(sorted({*row["flavors"].values()}))
    yield from listed("Pods", _POD_SETS, rows)
    yield from on_nodes("Nodes of its pods", found.nodes)
    rows = [each.model_dump() for each in found.conditions]
    for row in rows:
        row["at"] = f"{row['last_transition_time']:%Y-%m-%d %H:%M:%S}"
        row["name"] = f"{row['type']}={row['status']}"
    yield from listed("What happened", "at=Time_(UTC) name=Condition reason message=Why", rows)


def _of_group(found: GroupExplanation, viewer: Viewer) -> Iterator[Part]:
    if found.gates:
        yield Part("gates", found.gates, _draw_gates)
    room = found.room
    if room is not None:
        shown = {
            "Pods that fit now": f"{room.fit} of {room.wanted}",
            "If nothing were kept": room.fit_if_nothing_were_kept,
            "On empty nodes": room.fit_on_empty_nodes,
            "Short of": _amounts(room.short),
            "All within one": room.within,
            "Nodes it may use": f"{room.usable_nodes} of {room.all_nodes}",
        }
        yield Part("room", shown, _draw_room)
        yield from on_nodes("Where they would go", room.nodes)
    rows = [{**each.model_dump(), **_link(each, viewer)} for each in found.ahead]
    yield from listed("Gangs that go first", _AHEAD, rows, more=found.more_ahead)
    yield from listed("Room kept for it", _KEPT, (_kept(each, viewer) for each in found.kept))
    rows = [_kept(each, viewer) for each in found.kept_from_it]
    yield from listed("Room kept from it", _KEPT, rows, more=found.more_kept)
    rows = [{**each.model_dump(), "state_class": parts.tone(each.state)} for each in found.members]
    none = "It has no pods now."
    yield from listed("Pods", _MEMBERS, rows, more=found.more_members, none=none)


def _kept(each: RoomKept, viewer: Viewer) -> Row:
    amounts = {"nodes": len(each.nodes), "amounts": _amounts(each.amounts)}
    return {**_link(each, viewer), "kind": each.kind, **amounts, "message": each.ends}


def _link(to: RoomKept | GroupAhead, viewer: Viewer) -> Row:
    namespace, name = to.namespace, to.name
    if not viewer.sees(namespace):
        return {"name": OTHERS}
    return {"name": f"{namespace}/{name}", "name_href": f"/gang/{namespace}/{name}"}


def _head(found: Explanation | GroupExplanation, facts: Mapping[str, object]) -> Part:
    kind, hints = "Workload", list[str]()
    if isinstance(found, GroupExplanation):
        kind, hints = "Gang", found.would_help
    title = f"{found.namespace}/{found.name}", kind
    said = found.state, found.reason, found.message
    return Part("head", (title, said, found.notes, facts, hints), _draw_head)


def _draw_head(shown: tuple[Any, ...]) -> None:
    (title, kind), (state, reason, message), notes, facts, hints = shown
    with card():
        with ui.element("div").classes("title"):
            words(title, tag="h1")
            words(kind, tag="small")
            words(state, f"state {parts.tone(state)}")
        with ui.element("p"):
            if reason != state:
                words(reason, "chip q-mr-sm")
            words(message)
        for note in notes:
            words(note, "quiet", "p")
        parts.facts(facts)
        for hint in hints:
            words(f"→ {hint}", tag="p")


def _facts_of_workload(found: Explanation, start: int | str) -> dict[str, object]:
    named = f" ({found.priority_class})" if found.priority_class else ""
    at = _utc(datetime.fromtimestamp(start, UTC)) if isinstance(start, int) else start
    return {
        "Job": ", ".join(f"{owner.kind}/{owner.name}" for owner in found.owners[:3]),
        "LocalQueue": found.local_queue,
        "ClusterQueue": found.cluster_queue or "none",
        "Cohort": found.cohort,
        "Position": _place(found.position_in_cluster_queue),
        "Priority": f"{found.priority}{named}",
        "Created": _utc(found.created),
        "Starts at the earliest": at,
        "This estimate assumes": "jobs of unknown run time run forever" if at else "",
    }


def _facts_of_group(found: GroupExplanation) -> dict[str, object]:
    return {
        "Pods with a node": f"{found.pods.bound} of {found.needed} needed",
        "minMember": found.min_member,
        "Phase": found.phase,
        "Position": _place(found.position),
        "Priority": found.priority,
        "Waits since": _utc(found.waits_since),
        "Nodes are set aside from": _utc(found.claim_due),
    }


def _draw_gates(gates: Iterable[PassedGate]) -> None:
    with card("Gates before it starts"):
        for each in gates:
            mark, classes = _MARKS[each.answer]
            with ui.element("div").classes(f"gate {classes if classes == 'quiet' else ''}"):
                words(mark, f"mark {classes}")
                words(each.gate)
                words(f"{each.have} of {each.need}" if each.need is not None else "")
                words(each.message, "said quiet")


def _draw_room(shown: Mapping[str, object]) -> None:
    with card("Room on nodes"):
        parts.facts(shown)


def _draw_commands(shown: tuple[list[str], str]) -> None:
    commands, link = shown
    with card("The same in a terminal"):
        for each in commands:
            parts.command(each)
        if link:
            ui.link("Show it on the map of nodes", link)


def _commands(workload: Explanation | None, group: GroupExplanation | None) -> Iterator[str]:
    """Yield the equivalent terminal commands."""
    if workload is not None:
        within_namespace = f"-n {workload.namespace}"
        for owner in workload.owners[:1]:
            kind = f"--kind {owner.kind}"
            yield f"gang-extender explain job {owner.name} {within_namespace} {kind}"
        yield f"kubectl describe workload {workload.name} {within_namespace}"
    if group is not None:
        within_namespace = f"-n {group.namespace}"
        yield f"gang-extender explain podgroup {group.name} {within_namespace}"
        yield f"kubectl describe podgroup {group.name} {within_namespace}"
        yield f"kubectl get pods {within_namespace} -l {POD_GROUP_LABEL}={group.name} -o wide"


def _place(position: Position | None) -> str:
    return f"{position.index + 1} of {position.of}" if position is not None else ""


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items())


def _utc(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at is not None else ""
