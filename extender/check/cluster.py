"""The checks of a cluster, in the order in which their findings are shown."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from extender.api.manifests import Schema, schema_of
from extender.api.wellknown import no_effect_sentence
from extender.check.facts import (
    CertificateFacts,
    ClusterFacts,
    CrdFacts,
    ExtenderFacts,
    LeaseFacts,
    OtherFacts,
    Rights,
    ServerFacts,
    WebhookFacts,
)
from extender.check.findings import Finding, Unknown, failure, ok, warning
from extender.check.scheduler import scheduler

LEAST: Final = (1, 31)
"""The oldest version of Kubernetes: the CRDs need selectable fields, and CEL's `quantity`."""
TESTED: Final = (1, 36)
CLOCK_SECONDS: Final = 5.0
"""The most by which clocks may differ: a Lease that is renewed every two seconds allows it."""
KUEUE: Final = "kueue-controller-manager"
PLUGINS: Final = "scheduler-plugins-controller"
NOT_QUEUED: Final = {
    "AppWrapper": "workload.codeflare.dev/v1beta2/appwrappers",
    "Deployment": "apps/v1/deployments",
    "JAXJob": "kubeflow.org/v1/jaxjobs",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1/leaderworkersets",
    "PaddleJob": "kubeflow.org/v1/paddlejobs",
    "RayCluster": "ray.io/v1/rayclusters",
    "RayService": "ray.io/v1/rayservices",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2/sparkapplications",
    "StatefulSet": "apps/v1/statefulsets",
    "TrainJob": "trainer.kubeflow.org/v1alpha1/trainjobs",
}
"""The kinds that Kueue queues and this queue does not, and where their objects are."""
WRONG_METRICS: Final = (
    ("errors", "internal_errors_total", "internal errors since its start", ""),
    (
        "disagreements",
        "scheduler_disagreements",
        "pods about which it disagrees with kube-scheduler",
        "name the resource in gang.ignoredResources; Events of the pods say which",
    ),
    (
        "refusals",
        "credential_refusals_total",
        "requests whose credentials the API server refused",
        "renew its kubeconfig (docs/tasks/admin/credentials.md)",
    ),
    (
        "objects",
        "objects_set_aside",
        "objects that it cannot read",
        "look at Events with the reason Unreadable",
    ),
)
"""The metrics that should be 0: the id, the metric, what it counts, and the mend."""
_APPLY: Final = "kubectl apply -f manifests/crds"
_BESIDE: Final = "read docs/tasks/admin/beside-others.md"
_LOG: Final = "look at the extender's log"


def check(facts: ClusterFacts) -> list[Finding]:
    """Return all findings; of a cluster that does not answer, those that need no answer."""
    if isinstance(facts.server, Unknown):
        why = f"the API server does not answer: {facts.server.why}"
        mend = "name a kubeconfig with --kubeconfig, or see why the API server does not answer"
        away = failure("server.version", why, mend)
        return [away, *scheduler(facts.scheduler), *_extender(facts.extender)]
    return [
        *_server(facts.server),
        *map(_crd, facts.crds),
        *(each for name, users in facts.rights.items() for each in _rights(name, users)),
        *_policies(facts.server, facts.policies),
        *scheduler(facts.scheduler),
        *_others(facts.others, queue=facts.queue),
        *(_queued(facts) if facts.queue else ()),
        *_extender(facts.extender),
        *([_lease(facts.lease)] if facts.elects else ()),
        *_webhooks(facts.webhooks),
        *(_certificate(each, facts.now) for each in facts.certificates),
    ]


def _server(found: ServerFacts) -> Iterator[Finding]:
    name, (least, tested) = "server.version", (f"{major}.{part}" for major, part in (LEAST, TESTED))
    if found.minor is None:
        why = f"{found.version} is no version of Kubernetes"
        yield warning(name, why, f"use {least} or later")
    elif found.minor < LEAST:
        why = f"Kubernetes {found.version}: the CRDs need {least}"
        yield failure(name, why, f"upgrade the cluster to {least} or later")
    elif found.minor < TESTED:
        why = f"Kubernetes {found.version}; gang-extender is tested on {tested}"
        yield warning(name, why, "try it with --smoke before you rely on it")
    else:
        yield ok(name, f"Kubernetes {found.version}")
    if found.ahead is not None and abs(found.ahead) > CLOCK_SECONDS:
        side = "ahead of" if found.ahead > 0 else "behind"
        yield warning(
            "server.clock",
            f"the API server's clock is {abs(found.ahead):.0f} s {side} this machine's",
            "synchronise the clocks (NTP): waits and back-offs are counted from times in objects",
        )
    elif found.ahead is not None:
        within = f"the API server's clock is within {CLOCK_SECONDS:g} s of this machine's"
        yield ok("server.clock", within)


def _crd(crd: CrdFacts) -> Finding:
    name, title, version = f"crds.{crd.name}", crd.title, crd.version
    if isinstance(crd.served, Unknown):
        mend = "use a kubeconfig that may read CRDs"
        return warning(name, f"{title} cannot be looked at: {crd.served.why}", mend)
    if crd.stored is None:
        return failure(name, f"there is no CRD {title}", _APPLY)
    if version not in crd.served:
        served = ", ".join(sorted(crd.served)) or "nothing"
        return failure(name, f"{title} is served in {served}, and {version} is needed", _APPLY)
    if isinstance(crd.stored, Unknown):
        return ok(name, f"{title} {version} is served")
    other = next((x["name"] for x in crd.stored["spec"]["versions"] if x.get("storage")), "none")
    if other != version:
        return failure(name, f"{title} is stored as {other}, not as {version}", _APPLY)
    return _fields(crd, crd.stored)


def _fields(crd: CrdFacts, stored: Mapping[str, Any]) -> Finding:
    """Return whether the cluster's CRD has all fields of the shipped one."""
    name, title, version = f"crds.{crd.name}", crd.title, crd.version
    absent = missing(schema_of(crd.shipped, version), schema_of(stored, version))
    if absent:
        shown = ", ".join(absent[:4]) + ", ..." * (len(absent) > 4)
        return failure(
            name,
            f"{title} is another CRD, or one of an older version: the API server drops {shown}",
            f"{_APPLY}, or {_BESIDE} where another controller owns it",
        )
    return ok(name, f"{title} {version}")


def missing(ours: Schema, theirs: Schema, path: str = "") -> list[str]:
    """Return the paths of fields that a schema has and another one drops."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return []
    absent: list[str] = []
    there = theirs.get("properties", {})
    for name, schema in ours.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        absent += missing(schema, there[name], where) if name in there else [where]
    for inside in ("items", "additionalProperties"):
        mine, other = ours.get(inside), theirs.get(inside)
        if isinstance(mine, dict) and isinstance(other, dict):
            absent += missing(mine, other, f"{path}[]")
    return absent


def _rights(process: str, users: Rights | Unknown) -> Iterator[Finding]:
    """Yield what a process may not do, as the user with the most rights of those it may be."""
    name = f"rights.{process}"
    if isinstance(users, Unknown):
        why = f"the rights of the {process} cannot be looked at: {users.why}"
        mend = "use a kubeconfig that may create SubjectAccessReviews, or the process's own"
        yield warning(name, why, mend)
        return
    absent = {
        user: [right for right, allowed in rights.items() if not allowed]
        for user, rights in users.items()
    }
    user = min(absent, key=lambda each: len(absent[each]))
    count, mend = len(users[user]), f"kubectl apply -f manifests/rbac/{process}.yaml"
    if not absent[user]:
        yield ok(name, f"{user} has all {count} rights")
    elif len(absent[user]) == count:
        yield failure(name, f"{' and '.join(users)}: none of the {count} rights", mend)
    else:
        verbs: dict[str, list[str]] = {}
        for right in absent[user]:
            plural, _, subresource = right.resource.partition("/")
            title = ".".join(part for part in (plural, right.group) if part)
            title += f"/{subresource}" * bool(subresource)
            title += f" {right.name}" * bool(right.name)
            title += f" in {right.namespace}" * bool(right.namespace)
            verbs.setdefault(title, []).append(right.verb)
        for title, missed in verbs.items():
            found = f"{user} may not {', '.join(missed)} {title}"
            yield failure(f"{name}.{title.partition(' ')[0]}", found, mend)


def _policies(server: ServerFacts, found: Mapping[str, bool] | Unknown) -> Iterator[Finding]:
    """Yield whether the policies are there that narrow these rights to single fields."""
    name = "policies.bound"
    if server.minor is not None and server.minor < LEAST:
        return
    if isinstance(found, Unknown):
        mend = "use a kubeconfig that may read ValidatingAdmissionPolicies"
        yield warning(name, f"the policies cannot be looked at: {found.why}", mend)
        return
    absent = sorted(each for each, there in found.items() if not there)
    if absent:
        yield warning(
            name,
            f"{', '.join(absent)}: not there, or without a binding; the right to patch pods is as "
            "strong as the right to replace their images then",
            "kubectl apply -f manifests/policies",
        )
    elif found:
        yield ok(name, f"all {len(found)} policies are there, and bound")


def _others(found: OtherFacts | Unknown | None, *, queue: bool) -> Iterator[Finding]:
    if found is None:
        return
    if isinstance(found, Unknown):
        mend = "use a kubeconfig that may read Deployments, and pods of kube-system"
        yield warning("others.known", f"it cannot be looked at: {found.why}", mend)
        return
    kueue, plugins = found.deployments.get(KUEUE), found.deployments.get(PLUGINS)
    if kueue is None:
        yield ok("others.kueue", "Kueue does not run here")
    elif not queue:
        yield ok("others.kueue", f"Kueue runs in {kueue}, and our queue is off")
    else:
        yield failure(
            "others.kueue",
            f"Kueue runs in {kueue}: both queues would admit the same jobs",
            f"apply overlays/beside-kueue, which runs the reconciler with --no-queue; {_BESIDE}",
        )
    if plugins is None:
        yield ok("others.plugins", "the controller of scheduler-plugins does not run here")
    else:
        where = f"the controller of scheduler-plugins runs in {plugins}"
        yield failure(
            "others.plugins",
            f"{where}: both write the status of PodGroups",
            f"scale it to 0, and take the coscheduling plugin out of kube-scheduler; {_BESIDE}",
        )
    yield _native(found)
    if found.without_config:
        yield warning(
            "others.scheduler",
            f"{', '.join(found.without_config)} runs without --config: it asks no extender",
            "put --config back (gang-extender render static-pod), and into kubeadm's "
            "ClusterConfiguration: kubeadm upgrade writes the file anew "
            "(docs/tasks/admin/install-static-pod.md)",
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
            "set gang.native to extender, or turn GangScheduling on too "
            "(docs/tasks/admin/native-gangs.md)",
        )
    if found.native == "extender" and found.native_cycles and not found.half_gated:
        return failure(
            name,
            f"{served}, and kube-scheduler schedules them, but gang.native is extender",
            "set gang.native to auto or scheduler (docs/tasks/admin/native-gangs.md)",
        )
    none = "and no PodGroup shows that kube-scheduler starts them as a whole"
    starts = "kube-scheduler starts them as a whole" if found.native_cycles else none
    return warning(
        name,
        f"{served}; gang.native is {found.native}, {starts}",
        "give a pod either spec.schedulingGroup or our label: the label does not count where "
        "kube-scheduler starts the group (docs/tasks/admin/native-gangs.md)",
    )


def _queued(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield the queues, flavors and jobs with what has no effect on them."""
    if isinstance(facts.without_effect, Unknown):
        why = f"queues and jobs cannot be looked at: {facts.without_effect.why}"
        yield warning("queue.known", why, "use a kubeconfig that may read them")
        return
    for kind, name, paths in facts.without_effect:
        mend = "take them out: the decisions are made as if they were not there"
        if kind in NOT_QUEUED:
            mend = (
                "it runs without quota, or waits for ever where it was created suspended: queue a "
                "kind of docs/tasks/user/kinds-of-jobs.md instead"
            )
        yield warning(f"queue.{kind}.{name}", f"{kind} {name}: {no_effect_sentence(paths)}", mend)
    if not facts.without_effect:
        yield ok("queue.honoured", "all fields, labels and annotations of the queues are honoured")


def _extender(found: ExtenderFacts | None) -> Iterator[Finding]:
    name = "extender.ready"
    if found is None:
        mend = "give its URL with --extender, or kube-scheduler's file with --scheduler-config"
        yield warning(name, "no extender was asked", mend)
        return
    if isinstance(found.ready, Unknown):
        mend = "start it; until then kube-scheduler places no pod where it asks this extender"
        yield failure(name, f"{found.url} does not answer: {found.ready.why}", mend)
        return
    status, text = found.ready
    if status == 200:
        yield ok(name, f"{found.url} is ready")
    else:
        troubles = [line[3:] for line in text.splitlines() if line.startswith("[-]")]
        said = "; ".join(troubles) or text.strip()[:200] or f"status {status}"
        mend = "a CRD or a right is missing, or a watch is silent: see the lines above, and its log"
        yield failure(name, f"{found.url} is not ready: {said}", mend)
    yield from _metrics(found)


def _metrics(found: ExtenderFacts) -> Iterator[Finding]:
    if isinstance(found.samples, Unknown):
        why = f"{found.url}/metrics cannot be read: {found.samples.why}"
        yield warning("extender.metrics", why, _LOG)
        return
    values: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
    for each in found.samples:
        values[each.name.removeprefix("gang_extender_")].append((each.labels, each.value))
    for name, metric, what, mend in WRONG_METRICS:
        count = sum(value for _, value in values[metric])
        if count > 0:
            yield warning(f"extender.{name}", f"{count:.0f} {what}", mend or _LOG)
    calls = values["request_duration_seconds_count"]
    if calls and not any(value for labels, value in calls if labels.get("verb") == "filter"):
        yield warning(
            "extender.asked",
            "kube-scheduler has not asked it about a pod since its start",
            "start a pod (--smoke does); only the kube-scheduler that leads asks, its own extender",
        )


def _lease(lease: LeaseFacts | Unknown | None) -> Finding:
    name = "reconciler.lease"
    mend = "kubectl -n gang-extender-system get pods, and look at the log of a replica"
    if lease is None:
        found = "no reconciler has led yet: no job is admitted, PodGroups get no status"
        return warning(name, found, "apply the manifests (docs/tasks/admin/install.md)")
    if isinstance(lease, Unknown):
        why = f"the Lease cannot be read: {lease.why}"
        return warning(name, why, "use a kubeconfig that may read it")
    if not lease.holder:
        return failure(name, "no reconciler leads: the last one let the Lease go", mend)
    if lease.age > lease.seconds:
        found = f"{lease.holder} renewed the Lease {lease.age:.0f} s ago: no reconciler leads"
        return failure(name, found, mend)
    return ok(name, f"{lease.holder} leads")


def _webhooks(found: Sequence[WebhookFacts] | Unknown) -> Iterator[Finding]:
    if isinstance(found, Unknown):
        why = f"webhooks cannot be looked at: {found.why}"
        yield warning("webhooks.known", why, "use a kubeconfig that may read their configurations")
        return
    for each in found:
        name = f"webhooks.{each.name}"
        if not each.has_authority:
            yield failure(
                name,
                "the API server has no certificate to trust for it, which the reconciler writes: "
                "every call fails",
                "start a reconciler, and look at its log",
            )
        elif isinstance(each.trouble, Unknown):
            why = f"a request cannot be tried: {each.trouble.why}"
            yield warning(name, why, "use a kubeconfig that may create such an object")
        elif each.trouble:
            mend = "see that a reconciler runs, and that the control plane reaches port 9443 of it"
            yield failure(name, f"the API server does not reach it: {each.trouble}", mend)
        else:
            yield ok(name, "the API server reaches it")


def _certificate(each: CertificateFacts, now: float) -> Finding:
    name = f"certificates.{each.name}"
    if isinstance(each.ends, Unknown):
        mend = "run the command where it can be read, with the rights for it"
        return warning(name, f"{each.title} cannot be read: {each.ends.why}", mend)
    days = (each.ends - now) / 86400
    day = datetime.fromtimestamp(each.ends, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if days <= 0:
        return failure(name, f"{each.title} ended {day}", each.renewal)
    if days < 7 and not each.is_brief:
        return warning(name, f"{each.title} ends {day}, in {days:.1f} days", each.renewal)
    return ok(name, f"{each.title} ends {day}")
