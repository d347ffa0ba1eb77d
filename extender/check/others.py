"""What else is installed, and meets the same pods or jobs."""

from collections.abc import Iterator
from typing import Final

from extender.check.facts import ClusterFacts, OtherFacts, Unknown
from extender.check.findings import Finding, failure, ok, warning

KUEUE: Final = "kueue-controller-manager"
PLUGINS: Final = "scheduler-plugins-controller"
LOOKED_FOR: Final = (KUEUE, PLUGINS)
"""Names of Deployments, as their projects ship them."""
_SHOWN: Final = "and no PodGroup shows that kube-scheduler starts them as a whole"
_BESIDE: Final = "read docs/operations.md (Beside Kueue or scheduler-plugins)"


def others(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield what is to be said of other controllers and schedulers."""
    found = facts.others
    if found is None:
        return
    if isinstance(found, Unknown):
        why = f"it cannot be looked at: {found.why}"
        mend = "use a kubeconfig that may read Deployments, and pods of kube-system"
        yield warning("others.known", why, mend)
        return
    yield _kueue(found, queue=facts.queue)
    yield _plugins(found)
    yield _native(found)
    if found.without_config:
        yield warning(
            "others.scheduler",
            f"{', '.join(found.without_config)} runs without --config: it asks no extender",
            "put --config back (gang-extender render static-pod), and into kubeadm's "
            "ClusterConfiguration: kubeadm upgrade writes "
            "the file anew (docs/operations.md)",
        )


def _kueue(found: OtherFacts, *, queue: bool) -> Finding:
    name, namespace = "others.kueue", found.deployments.get(KUEUE)
    if namespace is None:
        return ok(name, "Kueue does not run here")
    if not queue:
        return ok(name, f"Kueue runs in {namespace}, and our queue is off")
    return failure(
        name,
        f"Kueue runs in {namespace}: both queues would admit the same jobs",
        f"apply overlays/beside-kueue, which runs the reconciler with --no-queue; {_BESIDE}",
    )


def _plugins(found: OtherFacts) -> Finding:
    name, namespace = "others.plugins", found.deployments.get(PLUGINS)
    if namespace is None:
        return ok(name, "the controller of scheduler-plugins does not run here")
    return failure(
        name,
        f"the controller of scheduler-plugins runs in {namespace}: both write the status of "
        "PodGroups",
        f"scale it to 0, and take the coscheduling plugin out of kube-scheduler; {_BESIDE}",
    )


def _native(found: OtherFacts) -> Finding:
    name = "others.native"
    if not found.native_gangs:
        return ok(name, "Kubernetes' own gang scheduling is off")
    served = f"Kubernetes serves groups of pods itself ({', '.join(found.native_gangs)})"
    if found.half_gated and found.native != "extender":
        return failure(
            name,
            f"{served}, and {', '.join(found.half_gated)} has the gate GenericWorkload without "
            "GangScheduling: it says that it schedules groups, and starts their pods one by one",
            "set gang.native to extender, or turn GangScheduling on too (docs/native.md)",
        )
    if found.native == "extender" and found.native_cycles and not found.half_gated:
        return failure(
            name,
            f"{served}, and kube-scheduler schedules them, but gang.native is extender",
            "set gang.native to auto or scheduler (docs/native.md)",
        )
    starts = "kube-scheduler starts them as a whole" if found.native_cycles else _SHOWN
    return warning(
        name,
        f"{served}; gang.native is {found.native}, {starts}",
        "give a pod either spec.schedulingGroup or our label: the label does not count where "
        "kube-scheduler starts the group (docs/native.md)",
    )
