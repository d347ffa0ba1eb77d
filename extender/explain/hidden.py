"""What a tenant is shown: everything about its own namespace, and of others only the amounts."""

from typing import TypeVar

from extender.api.visibility_v1beta2 import Explanation, PendingWorkload, WaitingFor

T = TypeVar("T", PendingWorkload, Explanation)


def within(found: T, namespace: str) -> T:
    """Return an answer without the names of workloads of other namespaces."""
    shown = {"waiting_for": [_only(each, namespace) for each in found.waiting_for]}
    if isinstance(found, Explanation):
        return found.model_copy(update={**shown, "notes": []})  # notes name others
    return found.model_copy(update=shown)


def _only(lack: WaitingFor, namespace: str) -> WaitingFor:
    """Return a lack with the holders of one namespace; the others are counted."""
    own = [each for each in lack.holders if each.namespace == namespace]
    others = len(lack.holders) - len(own)
    return lack.model_copy(update={"holders": own, "more_holders": lack.more_holders + others})
