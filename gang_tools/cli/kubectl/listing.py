"""The table of `kubectl gang list`: queues, gangs and jobs as the API server has them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec
import yaml

from extender.api.wellknown import POD_GROUP_GROUPS
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.pod_groups import VERSION
from extender.kube.queues import collection, objects
from extender.kube.watch import Reader, everything
from gang_tools.cli.context import age

Object = dict[str, Any]
HEADS: Final = ("KIND", "NAME", "QUEUE", "PHASE", "REASON", "AGE")
WIDE: Final = (
    *("MINMEMBER", "SCHEDULED", "RUNNING", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "MESSAGE"),
)
_HELD: Final = ("Finished", "Evicted", "Admitted", "QuotaReserved")
"""The conditions that are phases of a workload with quota: the first of these that is true."""


async def listed(
    reader: Reader, namespace: str, kinds: str, *, selector: str = ""
) -> tuple[list[Object], list[ForbiddenError]]:
    """Return queues, gangs and Workloads in this order, and which of them may not be read.

    Those of all namespaces for '', and the ClusterQueues then. `kinds` is `all` or names one. A
    kind that the API server does not serve has no objects. Raises ApiError, also where it serves
    none of them.
    """
    labels = f"&labelSelector={quote(selector)}" if selector else ""
    found: list[Object] = []
    refused: list[ForbiddenError] = []
    unknown: list[NotFoundError] = []
    paths = [*_paths(namespace, kinds)]
    for path in paths:
        try:
            found += await everything(reader, path, msgspec.json.decode, selector=labels)
        except NotFoundError as error:
            unknown.append(error)
        except ForbiddenError as error:
            refused.append(error)
    if len(unknown) == len(paths):
        raise unknown[0]
    return found, refused


def _paths(namespace: str, kinds: str) -> Iterator[str]:
    if kinds in {"all", "queues"}:
        for plural in ("localqueues",) if namespace else ("clusterqueues", "localqueues"):
            yield collection(plural, namespace)
    if kinds in {"all", "gangs"}:
        for group in POD_GROUP_GROUPS:
            yield objects(group, VERSION, "podgroups", namespace=namespace)
    if kinds in {"all", "jobs"}:
        yield collection("workloads", namespace)


def name_of(found: Object) -> str:
    """Return kind and name as kubectl has them, such as podgroup.scheduling.x-k8s.io/train."""
    group = found["apiVersion"].partition("/")[0]
    return f"{found['kind'].lower()}.{group}/{found['metadata']['name']}"


def objects_text(found: Sequence[Object], form: str) -> str:
    """Return the objects as a List in `json` or `yaml`."""
    whole = {"apiVersion": "v1", "kind": "List", "items": found}
    if form == "yaml":
        return yaml.safe_dump(whole, sort_keys=False)
    return msgspec.json.format(msgspec.json.encode(whole), indent=4).decode() + "\n"


def table_text(found: Sequence[Object], heads: Sequence[str], now: datetime) -> str:
    """Return the table with these columns, as kubectl spaces it; ages are counted to `now`."""
    rows = [heads]
    for each in found:
        cells = _cells(each, now)
        texts = (cells[head] for head in heads)
        rows.append(["<none>" if x in {None, ""} else _plain(str(x)) for x in texts])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return "".join(f"{'   '.join(cells).rstrip()}\n" for cells in padded)


def _plain(text: str) -> str:
    """Return a text on one line, without what could change the terminal."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _cells(found: Object, now: datetime) -> dict[str, Any]:
    """Return the cell of each column; a Workload has the name of its job if it has one."""
    meta, (spec, status) = found["metadata"], (found.get(x, {}) for x in ("spec", "status"))
    owners: Sequence[Object] = meta.get("ownerReferences", ()) * (found["kind"] == "Workload")
    owner = next((each for each in owners if each.get("controller")), next(iter(owners), None))
    phase, why = _phase(found["kind"], status)
    return {
        "NAMESPACE": meta.get("namespace"),
        "KIND": owner["kind"] if owner else found["kind"],
        "NAME": owner["name"] if owner else meta["name"],
        "QUEUE": spec.get("queueName") or spec.get("clusterQueue"),
        "PHASE": "Terminating" if meta.get("deletionTimestamp") else phase,
        "REASON": why.get("reason"),
        "AGE": age(int((now - datetime.fromisoformat(meta["creationTimestamp"])).total_seconds())),
        "MINMEMBER": spec.get("minMember"),
        "SCHEDULED": status.get("scheduled"),
        "RUNNING": status.get("running"),
        "PENDING WORKLOADS": status.get("pendingWorkloads"),
        "ADMITTED WORKLOADS": status.get("admittedWorkloads"),
        "MESSAGE": why.get("message"),
    }


def _phase(kind: str, status: Object) -> tuple[str, Mapping[str, str]]:
    """Return the phase that follows from a status, and the condition that says why."""
    said = {each["type"]: each for each in status.get("conditions", ())}
    if kind == "PodGroup":
        return status.get("phase", ""), said.get("Scheduled", {})
    if kind != "Workload":
        active = said.get("Active", {})
        return {"True": "Active", "False": "Inactive"}.get(active.get("status"), ""), active
    held = _HELD if status.get("admission") else _HELD[:1]
    true = (each for each in held if said.get(each, {}).get("status") == "True")
    phase = next(true, "Pending")
    named = {"Pending": "QuotaReserved", "QuotaReserved": "Admitted"}.get(phase, phase)
    return phase, said.get(named) or said.get(phase, {})
