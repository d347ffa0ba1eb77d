"""What would have to happen to a Workload if it had a job: decided from the Workload alone."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum

import msgspec

from tests.bench.queue.wire import Condition, Workload


class Step(Enum):
    """What a Workload needs."""

    WAIT = "wait"
    RUN = "run"  # for its runtime, counted from the admission, and then it is finished
    RELEASE = "release"  # its job is stopped, which takes no time here: let the quota go
    FORGET = "forget"  # it is finished


def step(workload: Workload) -> Step:
    """Return what the Workload needs now."""
    if workload.is_true("Finished"):
        return Step.FORGET
    if workload.is_true("Evicted"):
        return Step.RELEASE if workload.is_true("QuotaReserved") else Step.WAIT
    return Step.RUN if workload.is_true("Admitted") else Step.WAIT


def finish(now: str) -> bytes:
    """Return the JSON patch of the status that says finished, and touches nothing else."""
    condition = {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "It ran for its time",
        "lastTransitionTime": now,
    }
    patch = [{"op": "add", "path": "/status/conditions/-", "value": condition}]
    return msgspec.json.encode(patch)


def release(workload: Workload, now: str) -> bytes:
    """Return the merge patch of the status that lets the quota go, if nothing changed since.

    A preempted Workload goes back to its queue at once; what else evicts must put it back itself.
    """
    evicted = workload.condition("Evicted")
    why = evicted.reason if evicted else ""
    again = "True" if why == "Preempted" else "False"
    changed = (
        Condition("QuotaReserved", "False", "Pending", "It was stopped"),
        Condition("Admitted", "False", "NoReservation", "It holds no quota"),
        Condition("Requeued", again, why, "It was stopped"),
    )
    patch = {
        "metadata": {"resourceVersion": workload.metadata.resource_version},
        "status": {
            "admission": None,
            "conditions": merged(workload.status.conditions, changed, now),
        },
    }
    return msgspec.json.encode(patch)


def merged(former: Sequence[Condition], changed: Sequence[Condition], now: str) -> list[Condition]:
    """Return the conditions after a change; the time of one changes with its status."""
    conditions = {each.type: each for each in former}
    for each in changed:
        before = conditions.get(each.type)
        same = before is not None and before.status == each.status
        each.last_transition_time = before.last_transition_time if before and same else now
        each.observed_generation = before.observed_generation if before else 0
        conditions[each.type] = each
    return list(conditions.values())


def timestamp() -> str:
    """Return the time as conditions write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
