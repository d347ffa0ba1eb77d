"""The views of the page, as rows of plain values, made once for all; no I/O, no clock."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from math import isfinite
from typing import Any, Final
from zlib import crc32

import msgspec

from extender.api.reasons import Unadmitted
from extender.api.wellknown import HOSTNAME_LABEL, ZONE_LABEL, ConditionType
from extender.explain import lists
from extender.explain.facts import LARGEST_LIMIT, Facts, GroupFacts, job_of
from extender.explain.lists import PageRequest
from extender.explain.outlook import Lacks, briefly
from extender.jobs.workload import pod_group_key
from extender.queueing.quota import QuotaHolder, QuotaNode
from extender.queueing.status import activity
from extender.resources.quantity import Resources, show
from extender.room.pods import nodes_of
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.reservations import NEVER, OF_PODS, YIELDS
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import FlavorInfo, FlavorResource, WorkloadInfo
from extender.state.queue.view import QueueView
from extender.steps import at_once

Row = dict[str, Any]
Room = Mapping[str, tuple[Resources, Resources]]
"""The resources that are free on the nodes of each flavor, and all that these nodes have."""
Starts = Mapping[str, int | None]
"""The starts of workloads at the earliest, in seconds since the epoch; None is for never."""

OTHERS: Final = "other namespaces"
"""The name that stands for namespaces that a person may not see."""
_TILES: Final = 48
"""The most nodes of one row of the map: only rows that are seen are drawn."""
_QUOTA: Final = (Unadmitted.WAITING_FOR_QUOTA, Unadmitted.EXCEEDS_MAX_QUOTA)
_COLOURS: Final = 7
"""Colours that colour-blind people can tell apart; the name stands beside each."""


@dataclass(frozen=True, slots=True)
class QueuesShown:
    """The tree of quota, and the workloads that wait."""

    tree: list[Row]
    waiting: list[Row]
    queues_of: dict[str, set[str]]
    """The ClusterQueues that the LocalQueues of each namespace lead to."""


def queues_shown(facts: Facts, room: Room, starts: Starts) -> QueuesShown:
    """Return cohorts and ClusterQueues, each under its parent, and all that wait in them."""
    names = sorted(facts.queues.cluster_queues)
    waiting = [*_waiting(facts, starts)]
    of_queue = defaultdict[str, list[Row]](list)
    for row in waiting:
        of_queue[row["queue"]].append(row)
    nodes = chain(map(facts.tree.queue, names), map(facts.tree.cohort, facts.queues.cohorts))
    roots = {id(node.root): node.root for node in nodes if node is not None}
    order = sorted(roots.values(), key=lambda node: (node.is_queue, node.name))
    tree = (_subtree(root, 0, facts, waiting=of_queue, room=room) for root in order)
    queues_of = defaultdict[str, set[str]](set)
    for each in facts.queues.local_queues.values():
        queues_of[each.meta.namespace].add(each.cluster_queue)
    return QueuesShown([*chain.from_iterable(tree)], waiting, queues_of)


def _waiting(facts: Facts, starts: Starts) -> Iterator[Row]:
    """Yield the waiting workloads by queue and position, then those without a position."""
    lacks, workloads = Lacks(facts), facts.queues.workloads

    def row(key: str, since: float, *, queue: str, place: int | str = "") -> Row:
        outlook = briefly(workloads[key], facts, lacks)
        lacking = lacks.waiting_for(outlook.lacks, queue) if place else []
        namespace, _, name = key.partition("/")
        return {
            "id": key,
            "position": place,
            "namespace": namespace,
            "job": job_of(workloads[key]) or name,
            "queue": queue,
            "priority": workloads[key].priority,
            "reason": outlook.reason,
            # The message has the amounts of the last cycle, beside those that it lacks now.
            "said": "" if lacking and outlook.reason in _QUOTA else outlook.message,
            "lacks": "; ".join(
                f"{each.missing} {each.resource} of {each.flavor}" for each in lacking
            ),
            "since": int(since),
            "starts": starts_shown(key, starts),
            "labels": _labels_of(workloads[key]),
        }

    for queue in sorted(facts.queues.cluster_queues):
        for place, order in enumerate(sorted(facts.pending.queue(queue).orders()), start=1):
            yield row(order[-1], order[1], queue=queue, place=place)
    for key, workload in sorted(workloads.items()):
        waits = not workload.finished and not facts.queues.admission(key)
        if waits and not facts.pending.cluster_queue_of(key):
            there = facts.queues.local_queues.get(workload.queue)  # nothing checks that it exists
            queue = there.cluster_queue if there is not None else ""
            yield row(key, workload.meta.created, queue=queue)


def starts_shown(key: str, starts: Starts) -> int | str:
    """Return the estimated start of a workload, `never`, or nothing where there is no estimate."""
    found = starts.get(key, "")
    return "never" if found is None else found


def _labels_of(workload: WorkloadInfo) -> list[str]:
    """Return the labels of its pods, `name=value` each: a Workload has none of its own."""
    return [*chain.from_iterable(_labels(each.template) for each in workload.pod_sets)]


@lru_cache(4096)
def _labels(template: bytes) -> tuple[str, ...]:
    try:
        found = msgspec.json.decode(template, type=dict[str, Any]).get("metadata") or {}
        return tuple(f"{name}={value}" for name, value in (found.get("labels") or {}).items())
    except (AttributeError, msgspec.MsgspecError, RecursionError):
        return ()


def _subtree(
    node: QuotaNode, depth: int, facts: Facts, *, waiting: Mapping[str, list[Row]], room: Room
) -> Iterator[Row]:
    """Yield the row of a node, then those of what is under it."""
    below = [each.name for each in node.queues]
    rows = [row for name in below for row in waiting.get(name, ())]
    reasons = Counter(row["reason"] for row in rows)
    inactive = ""
    if node.is_queue:
        active = activity(facts.queues.cluster_queues[node.name], facts.queues)
        inactive = "" if active.active else active.message
    yield {
        "id": f"{'queue' if node.is_queue else 'cohort'}/{node.name}",
        "kind": "ClusterQueue" if node.is_queue else "Cohort",
        "name": node.name,
        "depth": depth,
        "bars": [*_bars(node, room)],
        "waiting": len(rows),
        "reasons": [{"name": name, "count": count} for name, count in reasons.most_common()],
        "admitted": sum(len(facts.queues.reserving(name)) for name in below),
        "inactive": inactive,
        "queues": below,
    }
    for child in sorted(node.children, key=lambda each: (each.is_queue, each.name)):
        yield from _subtree(child, depth + 1, facts, waiting=waiting, room={})


def _bars(node: QuotaNode, room: Room) -> Iterator[Row]:
    """Yield the use of quota by flavor and resource, in parts of the longest bar of the row.

    Under it is the room on nodes, if that is given: only at the root, as all below share it.
    """
    nominal, used = Counter[FlavorResource](), Counter[FlavorResource]()
    _add_quota(node, nominal)
    for queue in node.queues:
        used.update(queue.usage)
    for what in sorted({*nominal, *used}, key=lambda each: ("/" not in each[1], each)):
        flavor, resource = what
        has, uses = nominal[what], used[what]
        if not has and not uses:
            continue
        borrowed = max(0, uses - has)
        unused = has - uses + borrowed
        lent = 0  # at least: what it could not use now, however many others lend too
        if node.is_queue and node.parent is not None:
            lent = max(0, min(unused, unused - max(0, node.available(what))))
        whole, more = max(has, uses), ((borrowed, "borrowed"), (lent, "lent"))
        yield {
            "flavor": flavor,
            "resource": resource,
            "used": round(100 * (uses - borrowed) / whole, 2),
            "borrowed": round(100 * borrowed / whole, 2),
            "lent": round(100 * lent / whole, 2),
            "text": f"{show(resource, uses)} of {show(resource, has)}",
            "more": ", ".join(f"{show(resource, n)} {word}" for n, word in more if n),
            **_on_nodes(resource, room.get(flavor)),
        }


def _on_nodes(resource: str, of_flavor: tuple[Resources, Resources] | None) -> Row:
    if of_flavor is None:
        return {}
    free, whole = (each.get(resource, 0) for each in of_flavor)
    text = f"{show(resource, free)} free of {show(resource, whole)}" if whole else "none"
    return {"on_nodes": text, "taken": round(100 * (whole - free) / whole, 2) if whole else 100}


def _add_quota(node: QuotaNode, into: Counter[FlavorResource]) -> None:
    for what, quota in node.quotas.items():
        into[what] += quota.nominal
    for child in node.children:
        _add_quota(child, into)


def holders_shown(facts: Facts, queue: str) -> list[Row]:
    """Return the workloads that hold quota of a ClusterQueue, the latest first."""
    if queue not in facts.queues.cluster_queues:
        return []  # nothing is remembered of names that somebody makes up
    held = facts.tree.holders.held_in(queue).holders
    return [
        {
            "id": key,
            "job": job_of(each.workload) or each.workload.meta.name,
            "namespace": each.workload.meta.namespace,
            "queue": queue,
            "state": _state_of(each),
            "priority": each.workload.priority,
            "since": int(each.since) if isfinite(each.since) else "",
            "holds": "; ".join(
                f"{show(resource, amount)} {resource} of {flavor}"
                for (flavor, resource), amount in sorted(each.usage.items())
            ),
            "labels": _labels_of(each.workload),
        }
        for key, each in sorted(held.items(), key=lambda item: (-item[1].since, item[0]))
    ]


def _state_of(holder: QuotaHolder) -> str:
    if holder.workload.meta.terminating:
        return "Terminating"
    reserved = "QuotaReserved" if holder.admission.reserved_only else "Admitted"
    return "Evicted" if holder.leaves else reserved


def gangs_shown(facts: GroupFacts, queues: QueueView) -> list[Row]:
    """Return all gangs that have not ended: those that wait first, in their order."""
    queue_of = {
        pod_group_key(each): queues.cluster_queue_of(each) or ""
        for each in queues.workloads.values()
        if not each.finished
    }
    number = len({*facts.view.pod_groups, *facts.view.groups})
    pages = map(PageRequest, range(0, number, LARGEST_LIMIT))
    parts = [at_once(lists.group_list(lambda: facts, page)).items for page in pages]
    there = [each for each in chain.from_iterable(parts) if each.state != "Finished"]
    there.sort(key=lambda each: (each.position is None, each.position or 0))
    rows = list[Row]()
    for each in there:
        key = f"{each.namespace}/{each.name}"
        group = facts.view.pod_group(key)
        # The pods of a Job share one mapping.
        labels = {id(pod.labels): pod.labels for pod in facts.view.members(key)}
        said = group.status.condition(ConditionType.SCHEDULED) if group is not None else None
        why = (said.reason, said.message) if said and said.status == "False" else (each.reason, "")
        made: Row = {
            **each.model_dump(),
            "id": key,
            "phase": each.phase or "",
            "queue": queue_of.get(key, ""),
            "pods": f"{each.pods.bound} of {each.min_member}",
            "position": "" if each.position is None else each.position + 1,
            "since": int(group.created) if group is not None else "",
            "reason": why[0] or "",
            "said": why[1],
            "labels": sorted({f"{x}={of}" for some in labels.values() for x, of in some.items()}),
        }
        rows.append(made)
    return rows


def room_shown(cluster: ClusterView, flavors: Iterable[FlavorInfo]) -> Room:
    """Return the room on the nodes of each flavor; the map of nodes shows as much as free."""
    kept, nothing = defaultdict[str, Counter[str]](Counter), Counter[str]()
    for each in cluster.reserved:
        if YIELDS[each.kind] is not NEVER:  # the others count as used
            for node, amounts in each.amounts.items():
                kept[node].update(amounts)
    found = dict[str, tuple[Resources, Resources]]()
    for flavor in flavors:
        free, whole = found[flavor.meta.name] = Counter[str](), Counter[str]()
        for there in nodes_of(flavor, cluster):
            if not _trouble(there):
                used, held = cluster.used(there.name), kept.get(there.name, nothing)
                left = ((x, n - used.get(x, 0) - held[x]) for x, n in there.allocatable.items())
                free.update({name: amount for name, amount in left if amount > 0})
                whole.update(there.allocatable)
    return found


# --- the map of nodes ------------------------------------------------------------------------


Tile = tuple[tuple[object, ...], Row]
"""The objects that the tile of a node was made from, and the tile itself."""


@dataclass(frozen=True, slots=True)
class NodesShown:
    """The map: rows of nodes by domain, and the gangs on them."""

    resource: str
    rows: list[Row]
    gangs: list[str]
    total: Row
    tiles: dict[str, Tile] = field(compare=False, repr=False)


def resources_of(cluster: ClusterView) -> list[str]:
    """Return the resources that the map is made for, the scarce ones first."""
    found = {name for node in cluster.nodes.values() for name in node.allocatable}
    return [*sorted(name for name in found if "/" in name), *sorted(found & {"cpu", "memory"})]


def nodes_shown(
    cluster: ClusterView, queues: QueueView, resource: str, *, before: NodesShown | None = None
) -> NodesShown:
    """Return the map for one resource, with the tiles of `before` where nothing has changed."""
    levels, known = _levels(queues), before.tiles if before is not None else {}
    domains = defaultdict[tuple[str, ...], list[NodeInfo]](list)
    kept, tiles = _kept(cluster, resource), dict[str, Tile]()
    for name, node in cluster.nodes.items():
        domains[tuple(node.labels.get(level, "") for level in levels)].append(node)
        pods = tuple(map(cluster.pods.__getitem__, cluster.pods_on(name)))
        made_of, there = (node, pods, kept.get(name, [])), known.get(name)
        if there is None or there[0] != made_of:
            there = made_of, _tile(*made_of, resource=resource)
        tiles[name] = there
    rows = list[Row]()
    for path, nodes in sorted(domains.items()):
        nodes.sort(key=lambda node: node.name)
        for number in range(0, len(nodes), _TILES):
            some = nodes[number : number + _TILES]
            rows.append(
                {
                    "id": f"{'/'.join(path)}#{number}",
                    "path": [name or "—" for name in path] if any(path) else ["all nodes"],
                    "of": len(nodes),
                    "nodes": [tiles[node.name][1] for node in some],
                }
            )

    def total(what: str) -> str:
        return show(resource, sum(tile[what] for row in rows for tile in row["nodes"]))

    numbers = {
        "nodes": len(cluster.nodes),
        f"{resource} in all": total("has"),
        "used": total("used"),
        "kept for gangs": total("kept"),
        "free": total("left"),
        "cordoned or not ready": total("lost"),
    }
    gangs = {gang for row in rows for gang in gangs_in(row) if "/" in gang}
    return NodesShown(resource, rows, sorted(gangs), numbers, tiles)


def gangs_in(row: Row) -> set[str]:
    """Return the gangs that have pods or room on the nodes of a row."""
    return {part["gang"] for node in row["nodes"] for part in node["parts"]}


def _levels(queues: QueueView) -> tuple[str, ...]:
    """Return the labels of nodes that the map goes by: those of the deepest Topology."""
    known = (each.levels for each in queues.topologies.values())
    deepest = max(known, key=lambda each: (len(each), each), default=())
    return tuple(level for level in deepest if level != HOSTNAME_LABEL) or (ZONE_LABEL,)


def _kept(cluster: ClusterView, resource: str) -> Mapping[str, list[Row]]:
    """Return the room that is kept on each node, and for whom."""
    found = defaultdict[str, list[Row]](list)
    for each in cluster.reserved:
        pod = cluster.pods.get(each.owner) if each.kind in OF_PODS else None
        owner = each.owner if pod is None else pod.group or "other pods"
        for node, amounts in each.amounts.items():
            if amounts.get(resource):
                found[node].append(
                    {"gang": owner, "kind": "kept", "amount": amounts[resource], "why": each.kind}
                )
    return found


def _tile(node: NodeInfo, of: Iterable[PodInfo], kept: Iterable[Row], *, resource: str) -> Row:
    has = node.allocatable.get(resource, 0)
    by_gang, pods = Counter[str](), Counter[str]()
    for pod in of:
        name = pod.group or "other pods"
        by_gang[name] += pod.shape.requests.get(resource, 0)
        pods[name] += 1
    parts: list[Row] = [
        {"gang": name, "kind": "used", "amount": amount, "pods": pods[name]}
        for name, amount in sorted(by_gang.items())
    ]
    parts += map(dict, kept)
    for part in parts:
        part["width"] = round(100 * part["amount"] / has, 2) if has else 0
        part["text"] = show(resource, part["amount"])
        part["colour"] = crc32(part["gang"].encode()) % _COLOURS
    used = sum(by_gang.values())
    held = sum(part["amount"] for part in parts if part["kind"] == "kept")
    trouble = _trouble(node)
    # Room may be kept on a node that is still in use; of one in trouble nothing can be used.
    left = max(0, has - used - held)
    left, lost = (0, left) if trouble else (left, 0)
    return {
        "name": node.name,
        "has": has,
        "used": used,
        "kept": held,
        "left": left,
        "lost": lost,
        "free": show(resource, left),
        "of": show(resource, has),
        "parts": parts,
        "trouble": trouble,
    }


def _trouble(node: NodeInfo) -> str:
    return "not ready" if not node.ready else "cordoned" if node.unschedulable else ""


# --- what a person may see -------------------------------------------------------------------


def hidden(rows: list[Row], namespaces: Collection[str] | None) -> tuple[list[Row], int]:
    """Return the rows of namespaces that a person may see, and the number of others."""
    shown = [row for row in rows if namespaces is None or row["namespace"] in namespaces]
    return shown, len(rows) - len(shown)


def nodes_hidden(found: NodesShown, namespaces: Collection[str] | None) -> NodesShown:
    """Return the map without the names of gangs in namespaces that a person may not see."""
    if namespaces is None:
        return found

    def name(gang: str) -> str:
        own = "/" not in gang or gang.partition("/")[0] in namespaces
        return gang if own else OTHERS

    def tile(each: Row) -> Row:
        parts = [part for part in each["parts"] if name(part["gang"]) != OTHERS]
        for kind in ("used", "kept"):
            those = [p for p in each["parts"] if p["kind"] == kind and name(p["gang"]) == OTHERS]
            if those:  # one part, without a name's colour or how many they are
                sums = {what: sum(part[what] for part in those) for what in ("amount", "width")}
                text = show(found.resource, sums["amount"])
                parts.append({"gang": OTHERS, "kind": kind, **sums, "text": text})
        return {**each, "parts": parts}

    rows = [{**row, "nodes": [*map(tile, row["nodes"])]} for row in found.rows]
    gangs = [each for each in found.gangs if name(each) != OTHERS]
    return replace(found, rows=rows, gangs=gangs, tiles={})
