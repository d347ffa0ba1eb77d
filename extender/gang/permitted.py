"""What the extender alone knows of a group, as the condition that it writes: Permitted."""

from extender.api.wellknown import Aspect, Reason
from extender.gang.pre_filter import check_group, failed_recently
from extender.gang.verdicts import Refuse, about
from extender.state.pod_groups import ConditionInfo
from extender.state.snapshot import Snapshot


def decide(
    group: str, *, snapshot: Snapshot, denied: Refuse | None, now: float, asked: bool = True
) -> ConditionInfo | None:
    """Return the condition to write, or None where the stored one will do.

    Nothing is written of a group that starts as it should: that would be one write a gang for
    nobody to read. `denied` is the group's last failure, which counts while it
    could start but for room; `now` is since the epoch. Who was never
    `asked` about the group is beside another kube-scheduler, and takes nothing back.
    """
    pod_group = snapshot.pod_group(group)
    if pod_group is None:
        return None
    stored = pod_group.status.condition(Aspect.PERMITTED)
    tally, quorum = snapshot.tally(group), snapshot.quorum(pod_group)
    if tally.assigned >= quorum:
        if stored is None or stored.status == "True":
            return None
        said = ("True", Reason.QUORUM_REACHED, "")
    elif tally.waiting:
        text = f"{tally.assigned}/{quorum} pods have a node and wait for the others"
        said = ("False", Reason.WAITING_FOR_BIND, text)
    elif denied is not None and check_group(group, snapshot=snapshot) is None:
        text = failed_recently(group, denied).removeprefix(about(group))
        said = ("False", Reason.RECENTLY_DENIED, text)
    elif asked and stored is not None and stored.status == "False":
        said = ("Unknown", Reason.NOT_TRIED, "nobody waits with a node now")
    else:
        return None
    if stored is not None and (stored.status, stored.reason, stored.message) == said:
        return None
    since = stored.transition if stored is not None and stored.status == said[0] else now
    return ConditionInfo(Aspect.PERMITTED, *said, since, pod_group.generation)
