"""The tables of `kubectl gang top`, as plain values, and how they are filtered and sorted."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.resources.quantity import show
from gang_tools.cli.context import age
from gang_tools.page import views
from gang_tools.page.following import FollowedCluster

Cell = str | int
Rows = list[tuple[str, tuple[str, ...]]]
"""The cells of each row, keyed by what Enter opens."""
_AGES: Final = frozenset(("AGE", "OLDEST"))
"""The columns of seconds."""


@dataclass(frozen=True, slots=True)
class TopTable:
    """The heads of a table, and its rows by what Enter opens.

    That is `gang/NAMESPACE/NAME`, `workload/NAMESPACE/NAME`, or another table with only the rows
    that `texts` finds, such as `jobs/queue=NAME`; or nothing, such as `node/NAME`.
    """

    heads: tuple[str, ...]
    rows: Mapping[str, tuple[Cell, ...]]


def queues(seen: FollowedCluster, _namespace: str) -> TopTable:
    """Return cohorts and ClusterQueues, each below its parent."""
    heads = ("NAME", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "QUOTA", "REASONS")
    rows = {
        (f"jobs/queue={each['name']}" if each["kind"] == "ClusterQueue" else each["id"]): (
            f"{'  ' * each['depth']}{each['name']}",
            each["waiting"],
            each["admitted"],
            ", ".join(f"{bar['text']} {bar['resource']}" for bar in each["bars"]),
            each["inactive"] or ", ".join(f"{x['name']} {x['count']}" for x in each["reasons"]),
        )
        for each in views.queues_shown(seen.facts(), {}, {}).tree
    }
    return TopTable(heads, rows)


def gangs(seen: FollowedCluster, namespace: str) -> TopTable:
    """Return the gangs that have not ended, those that wait first."""
    heads = ("NAMESPACE", "NAME", "QUEUE", "PHASE", "SCHEDULED", "REASON", "POSITION", "PRIORITY")
    own = ("namespace", "name", "queue", "phase", "pods", "reason", "position", "priority")
    facts = seen.group_facts()
    rows = {
        f"gang/{each['id']}": (
            *(each[x] for x in own),
            each["since"] and int(facts.now) - each["since"],
            each["said"],
        )
        for each in views.gangs_shown(facts, seen.queues)
        if namespace in {"", each["namespace"]}
    }
    return TopTable((*heads, "AGE", "MESSAGE"), rows)


def jobs(seen: FollowedCluster, namespace: str) -> TopTable:
    """Return the jobs that wait, by queue and place."""
    heads = ("NAMESPACE", "NAME", "QUEUE", "POSITION", "PRIORITY", "REASON", "LACKS", "AGE")
    own = ("namespace", "job", "queue", "position", "priority", "reason", "lacks")
    facts = seen.facts()
    rows = {
        f"workload/{each['id']}": (*(each[x] for x in own), int(facts.now) - each["since"])
        for each in views.queues_shown(facts, {}, {}).waiting
        if namespace in {"", each["namespace"]}
    }
    return TopTable(heads, rows)


def nodes(seen: FollowedCluster, _namespace: str) -> TopTable:
    """Return the nodes with what pods use, what is kept for gangs, and which gangs are there."""
    cluster, kept = seen.cluster, defaultdict[str, Counter[str]](Counter)
    resources = views.resources_of(cluster)
    for each in cluster.reserved:
        for name, amounts in each.amounts.items():
            kept[name].update(amounts)
    rows: dict[str, tuple[Cell, ...]] = {}
    for name, node in sorted(cluster.nodes.items()):
        status = f"{'' if node.ready else 'Not'}Ready"
        has, used, there = node.allocatable, cluster.used(name), cluster.pods_on(name)
        groups = {cluster.pods[uid].group or "" for uid in there} - {""}
        rows[f"node/{name}"] = (
            name,
            f"{status},SchedulingDisabled" if node.unschedulable else status,
            len(there),
            *(f"{show(x, used.get(x, 0))} of {show(x, has.get(x, 0))}" for x in resources),
            ", ".join(f"{show(x, amount)} {x}" for x, amount in sorted(kept[name].items())),
            ", ".join(sorted(groups)),
        )
    columns = (name.upper() for name in resources)
    return TopTable(("NAME", "STATUS", "PODS", *columns, "KEPT", "GANGS"), rows)


def reasons(seen: FollowedCluster, namespace: str) -> TopTable:
    """Return why gangs and jobs wait, the most frequent reasons first."""
    of_gangs, of_jobs, oldest = Counter[Cell](), Counter[Cell](), Counter[Cell]()
    for table, counted in ((gangs(seen, namespace), of_gangs), (jobs(seen, namespace), of_jobs)):
        why, age = map(table.heads.index, ("REASON", "AGE"))
        for row in table.rows.values():
            counted[row[why]] += 1
            oldest[row[why]] = max(oldest[row[why]], int(row[age] or 0))
    rows: dict[str, tuple[Cell, ...]] = {
        f"{'gangs' if of_gangs[x] else 'jobs'}/reason={x}": (x, of_gangs[x], of_jobs[x], oldest[x])
        for x, _ in (of_gangs + of_jobs).most_common()
        if x
    }
    return TopTable(("REASON", "GANGS", "JOBS", "OLDEST"), rows)


TABLES: Final[Mapping[str, Callable[[FollowedCluster, str], TopTable]]] = {
    each.__name__: each for each in (queues, gangs, jobs, nodes, reasons)
}
"""The functions that make the tables, in the order of their tabs; '' is for all namespaces."""


def texts(found: TopTable, text: str, column: int | None) -> Rows:
    """Return the rows that have a text, sorted by a column; numbers begin with the largest.

    A text such as `queue=team` is the whole cell of a column.
    """
    rows = [*found.rows.items()]
    if column is not None:
        are_numbers = all(isinstance(row[column], int) or not row[column] for _, row in rows)
        rows.sort(key=lambda row: _order(row[1][column]), reverse=are_numbers)
    shown = ((key, _texts(found.heads, row)) for key, row in rows)
    head, _, cell = text.partition("=")
    if head.upper() in found.heads:
        of_head = found.heads.index(head.upper())
        return [(key, cells) for key, cells in shown if cells[of_head] == cell]
    return [(key, cells) for key, cells in shown if text.lower() in "  ".join(cells).lower()]


def _texts(heads: Sequence[str], row: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(
        age(cell) if head in _AGES and isinstance(cell, int) else str(cell)
        for head, cell in zip(heads, row, strict=True)
    )


def _order(cell: Cell) -> tuple[bool, int, str]:
    return (True, cell, "") if isinstance(cell, int) else (False, 0, cell.lower())
