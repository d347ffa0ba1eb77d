"""The views of the page, as rows of plain values, made once for all; no I/O, no clock."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Final
from zlib import crc32

import msgspec

from extender.api.wellknown import HOSTNAME_LABEL, ZONE_LABEL
from extender.explain import lists
from extender.explain.facts import LARGEST_LIMIT, Facts, GroupFacts, job_of
from extender.explain.lists import PageRequest
from extender.explain.outlook import Lacks, briefly
from extender.queueing.quota import QuotaNode
from extender.queueing.status import activity
from extender.resources.quantity import show
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.reservations import OF_PODS
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import FlavorResource
from extender.state.queue.view import QueueView
from extender.steps import at_once

Row = dict[str, Any]

OTHERS: Final = "other namespaces"
"""The name that stands for namespaces that a person may not see."""
_TILES: Final = 48
"""The most nodes of one row of the map: only rows that are seen are drawn."""
_COLOURS: Final = 7
"""Colours that colour-blind people can tell apart; the name stands beside each."""
_COMMON: Final = {"cpu", "memory"}
_SUMMED: Final = ("has", "used", "kept", "left")


@dataclass(frozen=True, slots=True)
class QueuesShown:
    """The tree of quota, and the workloads that wait."""

    tree: list[Row]
    waiting: list[Row]


def queues_shown(facts: Facts) -> QueuesShown:
    """Return cohorts and ClusterQueues, each under its parent, and all that wait in them."""
    names = sorted(facts.queues.cluster_queues)
    waiting = [*_waiting(facts)]
    of_queue = defaultdict[str, list[Row]](list)
    for row in waiting:
        of_queue[row["queue"]].append(row)
    roots = {id(root): root for root in (facts.tree.queue(name).root for name in names)}
    for name in sorted(facts.queues.cohorts):
        node = facts.tree.cohort(name)
        if node is not None:
            roots.setdefault(id(node.root), node.root)
    order = sorted(roots.values(), key=lambda node: (node.is_queue, node.name))
    return QueuesShown(
        [row for root in order for row in _subtree(root, 0, facts, waiting=of_queue)], waiting
    )


def _waiting(facts: Facts) -> Iterator[Row]:
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
            "said": outlook.message,
            "lacks": "; ".join(
                f"{each.missing} {each.resource} of {each.flavor}" for each in lacking
            ),
            "since": int(since),
            "labels": [*chain.from_iterable(_labels(s.template) for s in workloads[key].pod_sets)],
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


@lru_cache(4096)
def _labels(template: bytes) -> tuple[str, ...]:
    """Return the labels of a pod template, `name=value` each: workloads have none of their own."""
    try:
        found = msgspec.json.decode(template, type=dict[str, Any]).get("metadata") or {}
        return tuple(f"{name}={value}" for name, value in (found.get("labels") or {}).items())
    except (AttributeError, msgspec.MsgspecError, RecursionError):
        return ()


def _subtree(
    node: QuotaNode, depth: int, facts: Facts, *, waiting: Mapping[str, list[Row]]
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
        "bars": [*_bars(node)],
        "waiting": len(rows),
        "reasons": [{"name": name, "count": count} for name, count in reasons.most_common()],
        "admitted": sum(len(facts.queues.reserving(name)) for name in below),
        "inactive": inactive,
        "queues": below,
    }
    for child in sorted(node.children, key=lambda each: (each.is_queue, each.name)):
        yield from _subtree(child, depth + 1, facts, waiting=waiting)


def _bars(node: QuotaNode) -> Iterator[Row]:
    """Yield the use of quota by flavor and resource, in parts of the longest bar of the row."""
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
        whole, more = max(has, uses), ((borrowed, "borrowed"), (lent, "taken"))
        yield {
            "flavor": flavor,
            "resource": resource,
            "used": round(100 * (uses - borrowed) / whole, 2),
            "borrowed": round(100 * borrowed / whole, 2),
            "lent": round(100 * lent / whole, 2),
            "text": f"{show(resource, uses)} of {show(resource, has)}",
            "more": ", ".join(f"{show(resource, n)} {word}" for n, word in more if n),
        }


def _add_quota(node: QuotaNode, into: Counter[FlavorResource]) -> None:
    for what, quota in node.quotas.items():
        into[what] += quota.nominal
    for child in node.children:
        _add_quota(child, into)


def gangs_shown(facts: GroupFacts) -> list[Row]:
    """Return all gangs that have not ended: those that wait first, in their order."""
    number = len({*facts.view.pod_groups, *facts.view.groups})
    pages = map(PageRequest, range(0, number, LARGEST_LIMIT))
    parts = [at_once(lists.group_list(lambda: facts, page)).items for page in pages]
    there = [each for each in chain.from_iterable(parts) if each.state != "Finished"]
    last = len(there)
    there.sort(key=lambda each: last if each.position is None else each.position)
    return [
        {
            **each.model_dump(),
            "id": f"{each.namespace}/{each.name}",
            "pods": f"{each.pods.bound} of {each.min_member}",
            "position": "" if each.position is None else each.position + 1,
        }
        for each in there
    ]


# --- the map of nodes ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodesShown:
    """The map: rows of nodes by domain, and the largest gangs."""

    resource: str
    rows: list[Row]
    gangs: list[str]
    total: Row


def resources_of(cluster: ClusterView) -> list[str]:
    """Return the resources that the map is made for, the scarce ones first."""
    found = {name for node in cluster.nodes.values() for name in node.allocatable}
    return [*sorted(name for name in found if "/" in name), *sorted(found & _COMMON)]


def nodes_shown(cluster: ClusterView, queues: QueueView, resource: str) -> NodesShown:
    """Return the map for one resource."""
    levels = _levels(queues)
    domains = defaultdict[tuple[str, ...], list[NodeInfo]](list)
    for node in cluster.nodes.values():
        domains[tuple(node.labels.get(level, "") for level in levels)].append(node)
    kept = _kept(cluster, resource)
    rows: list[Row] = []
    gangs, total = Counter[str](), Counter[str]()
    for path, nodes in sorted(domains.items()):
        nodes.sort(key=lambda node: node.name)
        for number in range(0, len(nodes), _TILES):
            some = nodes[number : number + _TILES]
            tiles = [_tile(node, resource, cluster, kept=kept) for node in some]
            rows.append(
                {
                    "id": f"{'/'.join(path)}#{number}",
                    "path": [name or "—" for name in path] if any(path) else ["all nodes"],
                    "of": len(nodes),
                    "nodes": tiles,
                }
            )
            for tile in tiles:
                total.update({"nodes": 1, **{what: tile[what] for what in _SUMMED}})
                gangs.update({p["gang"]: p["amount"] for p in tile["parts"] if p["kind"] == "used"})
    sums = {name: show(resource, total[name]) for name in _SUMMED}
    named = {"nodes": total["nodes"], f"{resource} in all": sums["has"], "used": sums["used"]}
    return NodesShown(
        resource,
        rows,
        [gang for gang, _ in gangs.most_common() if "/" in gang],
        {**named, "kept for gangs": sums["kept"], "free": sums["left"]},
    )


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
        owner = each.owner if pod is None else _owner(pod)
        for node, amounts in each.amounts.items():
            if amounts.get(resource):
                found[node].append(
                    {"gang": owner, "kind": "kept", "amount": amounts[resource], "why": each.kind}
                )
    return found


def _tile(
    node: NodeInfo, resource: str, cluster: ClusterView, *, kept: Mapping[str, list[Row]]
) -> Row:
    has = node.allocatable.get(resource, 0)
    by_gang, pods = Counter[str](), Counter[str]()
    for pod in map(cluster.pods.__getitem__, cluster.pods_on(node.name)):
        name = _owner(pod)
        by_gang[name] += pod.shape.requests.get(resource, 0)
        pods[name] += 1
    parts: list[Row] = [
        {"gang": name, "kind": "used", "amount": amount, "pods": pods[name]}
        for name, amount in sorted(by_gang.items())
    ]
    parts += kept.get(node.name, ())
    for part in parts:
        part["width"] = round(100 * part["amount"] / has, 2) if has else 0
        part["text"] = show(resource, part["amount"])
        part["colour"] = crc32(part["gang"].encode()) % _COLOURS
    used = sum(by_gang.values())
    held = sum(part["amount"] for part in parts if part["kind"] == "kept")
    trouble = "not ready" if not node.ready else "cordoned" if node.unschedulable else ""
    # Room may be kept on a node that is still in use; of one in trouble nothing can be used.
    left = 0 if trouble else max(0, has - used - held)
    return {
        "name": node.name,
        "has": has,
        "used": used,
        "kept": held,
        "left": left,
        "free": show(resource, left),
        "of": show(resource, has),
        "parts": parts,
        "trouble": trouble,
    }


def _owner(pod: PodInfo) -> str:
    return pod.group or "other pods"


# --- what a person may see -------------------------------------------------------------------


def hidden(rows: Iterable[Row], namespaces: Collection[str] | None) -> tuple[list[Row], int]:
    """Return the rows of namespaces that a person may see, and the number of others."""
    rows = [*rows]
    if namespaces is None:
        return rows, 0
    shown = [row for row in rows if row["namespace"] in namespaces]
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
    return replace(found, rows=rows, gangs=gangs)
