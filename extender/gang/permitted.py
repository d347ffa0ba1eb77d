"""What only the extender has found out about a group, as its condition `Permitted`."""

from extender.api.reasons import Reason
from extender.api.wellknown import ConditionType
from extender.gang.gates import cannot_start
from extender.gang.verdicts import Refuse, about
from extender.state.cluster.records import ConditionInfo
from extender.state.cluster.view import ClusterView


def decide(
    group: str, *, view: ClusterView, denied: Refuse | None, now: float, asked: bool = True
) -> ConditionInfo | None:
    """Return the condition to write, or None where the stored one will do.

    Nothing is written about a group that starts as it should: it would be one write for each gang,
    without a reader. `denied` is the group's last failure, which counts while it could start but
    for room; `now` is since the epoch. An extender that was never `asked` about the group is beside
    another kube-scheduler, and takes nothing back.
    """
    pod_group = view.pod_group(group)
    if pod_group is None:
        return None
    stored = pod_group.status.condition(ConditionType.PERMITTED)
    tally, quorum = view.tally(group), view.quorum(pod_group)
    if tally.assigned >= quorum:
        if stored is None or stored.status == "True":
            return None
        said = ("True", Reason.QUORUM_REACHED, "")
    elif tally.waiting:
        text = f"{tally.assigned}/{quorum} pods have a node and wait for the others"
        said = ("False", Reason.WAITING_FOR_BIND, text)
    elif denied is not None and cannot_start(group, view=view) is None:
        text = f"failed recently, {denied.message.removeprefix(about(group))}"
        refused = denied.reason is Reason.BINDING_REFUSED
        said = ("False", denied.reason if refused else Reason.RECENTLY_DENIED, text)
    elif asked and stored is not None and stored.status == "False":
        said = ("Unknown", Reason.NOT_TRIED, "no pod waits with a node now")
    else:
        return None
    if stored is not None and (stored.status, stored.reason, stored.message) == said:
        return None
    since = stored.transition if stored is not None and stored.status == said[0] else now
    return ConditionInfo(ConditionType.PERMITTED, *said, since, pod_group.generation)
