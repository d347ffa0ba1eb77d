"""All groups in a list, without a look for room: what is known of each at once."""

from collections.abc import Callable

from extender.api.gang_explanations import GroupLine, GroupList
from extender.api.reasons import Reason
from extender.explain.gang_facts import GroupFacts
from extender.explain.gang_members import counts, group_state
from extender.explain.summary import PageRequest
from extender.gang.gates import cannot_start
from extender.steps import Steps


def group_list(
    seen: Callable[[], GroupFacts], page: PageRequest, *, namespace: str | None = None
) -> Steps[GroupList]:
    """Return a part of the groups, by namespace and name; `seen` returns the state as it is now.

    With a namespace it is that part of its groups.
    """
    view = seen().view
    keys = {*view.pod_groups, *view.groups}
    yield
    if namespace is not None:
        keys = {key for key in keys if key.startswith(f"{namespace}/")}
    order = sorted(keys)
    items = []
    for key in order[page.offset : page.end]:
        yield
        found = _line(key, seen())
        if found is not None:
            items.append(found)
    return GroupList(items=items, more=max(0, len(order) - page.end))


def _line(group: str, facts: GroupFacts) -> GroupLine | None:
    view = facts.view
    pod_group, tally = view.pod_group(group), view.tally(group)
    if pod_group is None and not tally.members:
        return None  # it went in a pause
    state = group_state(group, view)
    namespace, _, name = group.partition("/")
    queued = pod_group is not None and group in view.queue
    return GroupLine(
        namespace=namespace,
        name=name,
        state=state,
        phase=(pod_group.status.phase or None) if pod_group is not None else None,
        reason=_reason(group, facts) if state == "Waiting" else None,
        priority=tally.priority,
        min_member=pod_group.min_member if pod_group is not None else 0,
        needed=view.quorum(pod_group) if pod_group is not None else 0,
        pods=counts(group, view),
        position=view.queue.position(view.turn(pod_group)) if pod_group and queued else None,
    )


def _reason(group: str, facts: GroupFacts) -> str | None:
    """Return why a group waits: what it lacks, or the failure that is remembered."""
    refusal = cannot_start(group, view=facts.view)
    if refusal is not None:
        return refusal.reason
    known = facts.remembered(group)
    if known.denied is not None:
        return Reason.RECENTLY_DENIED
    return known.last_failure.reason if known.last_failure is not None else None
