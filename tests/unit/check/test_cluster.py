"""What is found in a cluster: versions, CRDs, rights, other controllers, what runs."""

import asyncio
import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from extender.config.settings import Settings
from extender.kube.errors import ApiError, ForbiddenError, NotFoundError
from extender.kube.reviews import Access
from gang_tools.check import cluster, smoke
from gang_tools.check.cluster import KUEUE, PLUGINS, CheckTarget, missing, shipped_crds
from gang_tools.check.extender import metrics, readiness
from gang_tools.check.findings import (
    HEADS,
    Finding,
    certificate,
    exit_code,
    failure,
    ok,
    text,
    warning,
)
from gang_tools.check.reading import together
from gang_tools.check.rights import needed_rights, rights, subjects
from gang_tools.manifests import shipped_objects

NOW = 1_000_000.0
DAY = 86400.0
FOUND = [
    ok("server.version", "Kubernetes v1.36.3"),
    failure("crds.podgroups", "there is no CRD " + "podgroups " * 12, "kubectl apply"),
]


def levels(*found: Finding) -> dict[str, str]:
    assert all(bool(each.mend) == (each.level != "ok") for each in found)
    assert {each.group for each in found} <= HEADS.keys()
    return {each.id: str(each.level) for each in found}


def test_lines_are_grouped_aligned_and_counted() -> None:
    lines = text(FOUND, 80).splitlines()

    assert lines[0] == "API server"
    assert lines[3] == "CRDs"
    columns = {line.index(word) for line, word in ((lines[1], "Kubernetes"), (lines[4], "there"))}
    assert len(columns) == 1
    [mend] = [line for line in lines if "-> kubectl apply" in line]
    assert mend.index("->") in columns
    assert lines[-1] == "1 failure, 0 warnings, 1 ok"
    assert max(map(len, lines)) <= 80
    assert exit_code(FOUND) == 1
    assert exit_code([FOUND[0], warning("server.clock", "late", "mend it")]) == 0


@pytest.mark.parametrize(
    ("major", "minor", "want"),
    [("1", "36", "ok"), ("1", "36+", "ok"), ("1", "32", "warning"), ("1", "31", "warning"),
     ("1", "30", "failure"), ("", "", "warning")],
)  # fmt: skip
def test_the_version(major: str, minor: str, want: str) -> None:
    said = {"major": major, "minor": minor, "gitVersion": "v1"}
    assert levels(cluster.version(said)) == {"server.version": want}


@pytest.mark.parametrize(("ahead", "want"), [(0.0, "ok"), (6.0, "warning"), (-6.0, "warning")])
def test_the_clock(ahead: float, want: str) -> None:
    assert levels(cluster.clocks(ahead)) == {"server.clock": want}


# --- CRDs


def stored() -> dict[str, Any]:
    return {each["metadata"]["name"]: deepcopy(dict(each)) for each in shipped_crds(queue=True)}


def of_crds(stored: dict[str, Any], *, queue: bool = True) -> dict[str, str]:
    return levels(
        *(
            cluster.crd(
                each,
                frozenset({each["spec"]["versions"][0]["name"]}),
                stored.get(each["metadata"]["name"]),
            )
            for each in shipped_crds(queue=queue)
        )
    )


def test_our_own_crds_are_right_and_each_has_a_line() -> None:
    found = of_crds(stored())

    assert len(found) == len(shipped_crds(queue=True)) == 11
    assert {*found.values()} == {"ok"}


def test_without_the_queue_its_crds_are_not_needed() -> None:
    assert of_crds({}, queue=False) == dict.fromkeys(
        ("crds.podgroups", "crds.podgroups-sigs"), "failure"
    )


def test_a_crd_that_is_stored_in_another_version_or_drops_a_field_is_a_failure() -> None:
    found = stored()
    versions = found["workloads.kueue.x-k8s.io"]["spec"]["versions"]
    versions[0]["storage"], versions[1]["storage"] = False, True
    schema = found["podgroups.scheduling.x-k8s.io"]["spec"]["versions"][0]["schema"]
    del schema["openAPIV3Schema"]["properties"]["spec"]["properties"]["minMember"]

    wrong = {name for name, level in of_crds(found).items() if level == "failure"}
    assert wrong == {"crds.workloads", "crds.podgroups"}


def test_a_version_that_is_not_served_is_a_failure() -> None:
    [shipped] = [
        each
        for each in shipped_crds(queue=False)
        if each["metadata"]["name"] == "podgroups.scheduling.x-k8s.io"
    ]
    finding = cluster.crd(shipped, frozenset({"v1"}), {})
    assert levels(finding) == {"crds.podgroups": "failure"}
    assert "served in v1, and v1alpha1" in finding.found
    assert levels(cluster.crd(shipped, frozenset({"v1alpha1"}), {})) == {"crds.podgroups": "ok"}


def test_fields_that_are_dropped_are_found_at_any_depth() -> None:
    ours: dict[str, Any] = {
        "properties": {"a": {"items": {"properties": {"b": {}, "c": {}}}}, "d": {}}
    }
    theirs: dict[str, Any] = {"properties": {"a": {"items": {"properties": {"b": {}}}}}}

    assert missing(ours, theirs) == ["a[].c", "d"]
    assert missing(ours, ours) == []
    assert missing(ours, {"x-kubernetes-preserve-unknown-fields": True}) == []


# --- rights

EXTENDER, RECONCILER = (
    shipped_objects("rbac/extender.yaml"),
    shipped_objects("rbac/reconciler.yaml"),
)
USER = "system:serviceaccount:gang-extender-system:gang-extender"
Having = tuple[str, dict[Access, bool]]


def having(user: str, *lacking: Access) -> Having:
    return user, {each: each not in lacking for each in needed_rights(EXTENDER, {})}


def test_what_is_needed_is_what_the_roles_grant() -> None:
    found = needed_rights(EXTENDER, {})

    assert Access("", "pods/binding", verb="create") in found
    assert Access("scheduling.sigs.k8s.io", "podgroups/status", verb="patch") in found
    assert len(found) == len(set(found)) > 15


def test_no_right_is_needed_on_a_resource_that_its_group_has_not() -> None:
    finalizers = {
        (x.group, x.resource) for x in needed_rights(RECONCILER, {}) if "/final" in x.resource
    }

    assert len(finalizers) == 16
    assert {("", "pods/finalizers"), ("ray.io", "rayjobs/finalizers")} <= finalizers


def test_names_and_namespaces_are_those_of_the_settings() -> None:
    found = needed_rights(RECONCILER, {"gang-extender-system": "other", "gang-queue": "mine"})

    leases = [each for each in found if each.resource == "leases"]
    assert {(each.verb, each.name, each.namespace) for each in leases} == {
        ("create", "", "other"),
        ("get", "gang-extender-reconciler", "other"),
        ("update", "gang-extender-reconciler", "other"),
    }
    webhooks = [each for each in found if each.resource.endswith("webhookconfigurations")]
    assert {each.name for each in webhooks} == {"mine"}


def test_the_users_are_those_of_the_bindings() -> None:
    account, user = subjects(EXTENDER, "other")

    assert account.name == "system:serviceaccount:other:gang-extender"
    assert "system:serviceaccounts:other" in account.groups
    assert user.name == "gang-extender"


def test_one_user_with_all_rights_is_enough_and_none_at_all_is_one_line() -> None:
    bind = Access("", "pods/binding", verb="create")
    some = dict([having(USER, bind), having("gang-extender")])
    none = dict([having(USER, *needed_rights(EXTENDER, {}))])

    assert levels(*rights("extender", some)) == {"rights.extender": "ok"}
    assert levels(*rights("extender", none)) == {"rights.extender": "failure"}


def test_missing_rights_are_named_by_resource() -> None:
    verbs = [Access("batch", "jobs", verb=verb) for verb in ("list", "watch")]
    event = Access("events.k8s.io", "events", verb="create")
    found = [*rights("extender", dict([having(USER, *verbs, event)]))]

    assert {each.id: each.found for each in found} == {
        "rights.extender.jobs.batch": f"{USER} may not list, watch jobs.batch",
        "rights.extender.events.events.k8s.io": f"{USER} may not create events.events.k8s.io",
    }
    assert {each.mend for each in found} == {"kubectl apply -f manifests/rbac/extender.yaml"}
    assert {*levels(*found).values()} == {"failure"}


# --- what else is there


@pytest.mark.parametrize(
    ("running", "queue", "want"),
    [
        ({}, True, {}),
        ({KUEUE: "kueue-system"}, True, {"others.kueue"}),
        ({KUEUE: "kueue-system"}, False, {}),
        ({PLUGINS: "a"}, True, {"others.plugins"}),
    ],
)
def test_other_controllers(running: dict[str, str], queue: bool, want: set[str]) -> None:
    found = levels(*cluster.others(running, queue=queue))
    assert {name for name, level in found.items() if level == "failure"} == {*want}


@pytest.mark.parametrize(
    ("half", "cycles", "setting", "want"),
    [
        (False, False, "auto", "warning"),
        (False, True, "extender", "failure"),
        (False, True, "auto", "warning"),
        (True, False, "auto", "failure"),
        (True, True, "extender", "warning"),
    ],
)
def test_native_groups(half: bool, cycles: bool, setting: str, want: str) -> None:
    found = cluster.native(["v1alpha2"], ["kube-scheduler-a"] * half, setting, cycles=cycles)
    assert levels(found) == {"others.native": want}
    assert levels(cluster.native([], [], setting, cycles=False)) == {"others.native": "ok"}


@pytest.mark.parametrize(
    ("words", "half"),
    [
        (["--feature-gates=GenericWorkload=true"], True),
        (["--v=2", "--feature-gates", "A=false, GenericWorkload=True"], True),
        (["--feature-gates=GenericWorkload=true,GangScheduling=false"], True),
        (["--feature-gates=GenericWorkload=true,GangScheduling=true"], False),
        (["--feature-gates=GenericWorkload=true", "--feature-gates=GangScheduling=1"], False),
        (["--feature-gates=GenericWorkload=false"], False),
        (["--feature-gates"], False),
        ([], False),
    ],
)
def test_which_gates_kube_scheduler_has(words: list[str], half: bool) -> None:
    pod = {"spec": {"containers": [{"command": ["kube-scheduler"], "args": words}]}}
    assert cluster.has_half_of_the_gates(pod) is half


# --- what runs


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({}, set()),
        ({"request_duration_seconds_count": 0}, {"extender.asked"}),
        (
            {"internal_errors_total": 1, "scheduler_disagreements": 2, "objects_set_aside": 0},
            {"extender.errors", "extender.disagreements"},
        ),
        ({"credential_end_timestamp_seconds": NOW + DAY}, {"certificates.extender-pods"}),
    ],
)
def test_the_metrics_of_an_extender(values: dict[str, float], want: set[str]) -> None:
    labels = '{kind="pods",verb="filter",credential="pods"}'
    page = {"request_duration_seconds_count": 7} | values
    lines = [f"gang_extender_{name}{labels} {value}\n" for name, value in page.items()]
    found = levels(*metrics("".join(lines), NOW))
    assert found == dict.fromkeys(want, "warning")


def test_what_is_not_ready_is_said() -> None:
    found = readiness("http://a", 503, "[+]nodes\n[-]pods: not listed yet: 403\n")
    assert found.found == "http://a is not ready: pods: not listed yet: 403"
    assert levels(found) == {"extender.ready": "failure"}


def renewed(age: float, holder: str = "a") -> dict[str, Any]:
    return {
        "renewTime": datetime.fromtimestamp(NOW - age, UTC).isoformat(),
        "holderIdentity": holder,
    }


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (None, "warning"),
        (renewed(3.0), "ok"),
        (renewed(16.0), "failure"),
        (renewed(16.0) | {"leaseDurationSeconds": 30}, "ok"),
        (renewed(1.0, ""), "failure"),
    ],
)
def test_the_lease(spec: dict[str, Any] | None, want: str) -> None:
    assert levels(cluster.lease(spec, NOW, 15.0)) == {"reconciler.lease": want}


@pytest.mark.parametrize(
    ("ends", "brief", "want"),
    [
        (NOW + 8 * DAY, False, "ok"),
        (NOW + 6 * DAY, False, "warning"),
        (NOW + 60.0, True, "ok"),
        (NOW, True, "failure"),
    ],
)
def test_certificates(ends: float, brief: bool, want: str) -> None:
    found = certificate("webhooks", "its certificate", ends, mend="renew", now=NOW, is_brief=brief)
    assert levels(found) == {"certificates.webhooks": want}


def test_a_gang_that_hangs_says_what_its_group_and_its_pods_say() -> None:
    def condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
        said = {"type": kind, "status": status, "reason": reason, "message": message}
        return {"status": {"conditions": [said]}}

    waits = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes")
    group = condition("Permitted", "False", "NotEnoughResources", "short of cpu 1m")
    bound = {"metadata": {"name": "two-1"}, "spec": {"nodeName": "a"}}
    pods = [waits | {"metadata": {"name": "two-0"}, "spec": {}}, bound]

    assert smoke.hangs(60.0, group, pods).found == (
        "1 of 2 pods are bound after 60 s: PodGroup Permitted: NotEnoughResources: short of cpu 1m;"
        " pod two-0: Unschedulable: 0/1 nodes"
    )
    assert "no scheduler has looked" in smoke.hangs(60.0, {}, [bound]).mend
    assert "extender's log" in smoke.hangs(60.0, {}, pods).mend
    assert smoke.is_refused(pods[0])
    assert not smoke.is_refused(bound)


async def test_a_read_that_fails_cancels_no_other() -> None:
    ended = []
    release = asyncio.Event()

    async def fails() -> None:
        release.set()
        raise LookupError("first")

    async def goes_on() -> None:
        await release.wait()
        await asyncio.sleep(0)
        ended.append("second")

    with pytest.raises(LookupError, match="first"):
        await together([fails(), goes_on()])

    assert ended == ["second"]


# --- what is read

JOBS = "/apis/batch/v1/namespaces/default/jobs?dryRun=All"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gang-queue"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
VERSION = {"/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}}
REFUSED = ForbiddenError("403", status=403)


class Server:
    """An API server that refuses what it has no answer for; stands in for a client of it."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        self._answers = answers
        self.keyring = SimpleNamespace(current=SimpleNamespace(ends={}))

    async def request(self, method: str, path: str, **more: object) -> bytes:
        answer = self._answers.get(path, REFUSED)
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)

    async def date(self, path: str) -> str:
        return ""


async def findings(answers: Mapping[str, object], **settings: Any) -> dict[str, str]:
    client, chosen = Server(answers), Settings.model_validate(settings)
    return levels(*await cluster._Check(client, chosen, CheckTarget()).findings())  # type: ignore[arg-type]


async def test_what_cannot_be_read_is_a_warning_of_its_group() -> None:
    found = await findings(VERSION)

    groups = {name: level for name, level in found.items() if not name.startswith("crds.")}
    assert len(found) - len(groups) == 11
    assert groups == {"server.version": "ok"} | dict.fromkeys(
        (
            *("rights.extender", "rights.reconciler", "policies.bound", "others.known"),
            *(
                "autoscalers.known",
                "queue.known",
                "reconciler.lease",
                "webhooks.known",
                "certificates.webhooks",
            ),
            *("scheduler.file", "extender.ready"),
        ),
        "warning",
    )
    assert {*found.values()} == {"ok", "warning"}


async def test_of_a_cluster_that_does_not_answer_nothing_else_is_said() -> None:
    assert await findings({"/version": ApiError("away")}) == {
        "server.version": "failure",
        "scheduler.file": "warning",
        "extender.ready": "warning",
    }


async def test_without_an_election_no_lease_is_looked_for() -> None:
    assert "reconciler.lease" not in await findings(VERSION, reconcile={"leaderElect": False})


async def test_policies_are_not_looked_for_where_there_are_none_yet() -> None:
    old = {"/version": {"major": "1", "minor": "29", "gitVersion": "v1.29.1"}}
    found = await findings({**old, POLICIES: NotFoundError("404", status=404)})

    assert found["server.version"] == "failure"
    assert "policies.bound" not in found


async def test_policies_of_an_earlier_release_are_named() -> None:
    left = [each for each in shipped_objects("policies") if each["kind"].endswith("Policy")]
    bound = [{"spec": {"policyName": each["metadata"]["name"]}} for each in left]
    answers = {POLICIES: {"items": left}, f"{POLICIES[:-3]}ybindings": {"items": bound}}
    assert (await findings({**VERSION, **answers})).items() >= {("policies.bound", "ok")}

    left.append({"metadata": {"name": "gang-child-jobs"}})
    bound.append({"spec": {"policyName": "gang-child-jobs"}})
    found = await findings({**VERSION, **answers})
    assert found.items() >= {("policies.bound", "ok"), ("policies.earlier", "warning")}


async def test_policies_that_name_accounts_of_another_namespace_are_named() -> None:
    left = [each for each in shipped_objects("policies") if each["kind"].endswith("Policy")]
    bound = [{"spec": {"policyName": each["metadata"]["name"]}} for each in left]
    answers = {POLICIES: {"items": left}, f"{POLICIES[:-3]}ybindings": {"items": bound}}
    assert "policies.accounts" not in await findings({**VERSION, **answers})

    spec = json.dumps(left[0]["spec"]).replace("gang-extender-system", "other")
    left[0] = {**left[0], "spec": json.loads(spec)}
    found = await findings({**VERSION, **answers})
    assert found["policies.accounts"] == "warning"


@pytest.mark.parametrize(
    ("authority", "answer", "want"),
    [
        ("ca", {}, "ok"),
        ("ca", ApiError("a policy refuses it", status=422), "ok"),
        ("", {}, "failure"),
        ("ca", ApiError("failed calling webhook: no endpoints", status=500), "failure"),
        ("ca", ForbiddenError("me cannot create resource jobs", status=403), "warning"),
    ],
)
async def test_webhooks(authority: str, answer: object, want: str) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterqueues.kueue.x-k8s.io"
    hooks = {"webhooks": [{"clientConfig": {"caBundle": authority}}]}
    absent = NotFoundError("404", status=404)

    found = await findings({**VERSION, crds: absent, HOOKS: hooks, JOBS: answer})

    assert found["webhooks.jobs"] == want


POOLS = "/apis/karpenter.sh/v1/nodepools"
STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
QUEUE_API = "/apis/kueue.x-k8s.io/v1beta2/"
GONE = NotFoundError("404", status=404)
GATED = {BINDINGS: {"items": [{"spec": {"policyName": "gang-gate"}}]}}
GROWING = {"growing": True, "agingSeconds": 0}
ROOM = {"scheduling.x-k8s.io/require-room": "true"}


def of_queue(
    flavor: Mapping[str, Any] | None = None, annotations: Mapping[str, str] | None = None
) -> Mapping[str, object]:
    """Return the answers of a cluster with one ClusterQueue and one flavor."""
    meta = {"name": "q", "annotations": annotations or {}}
    quotas = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
    queue = {"kind": "ClusterQueue", "metadata": meta, "spec": {"resourceGroups": groups}}
    found = {"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": flavor or {}}
    return {
        f"{QUEUE_API}clusterqueues": {"items": [queue]},
        f"{QUEUE_API}resourceflavors": {"items": [found]},
    }


PLAIN = of_queue()
BUFFERS = {
    "/apis/autoscaling.x-k8s.io": {"versions": [{"version": "v1beta1"}]},
    "/apis/autoscaling.x-k8s.io/v1beta1": {"resources": [{"name": "capacitybuffers"}]},
}
KARPENTER = {POOLS: {"items": [{}]}, STATUS: GONE}


@pytest.mark.parametrize(
    ("answers", "settings", "want"),
    [
        ({POOLS: GONE, STATUS: GONE}, {}, {"known": "ok"}),
        ({POOLS: {"items": []}, STATUS: GONE}, {}, {"known": "ok"}),
        ({**KARPENTER, **GATED, **PLAIN}, {"gang": GROWING}, {"known": "ok"}),
        ({POOLS: GONE, STATUS: {}, **GATED, **PLAIN}, {"gang": GROWING}, {"known": "ok"}),
        (
            {**KARPENTER, BINDINGS: GONE, **PLAIN},
            {},
            dict.fromkeys(("gate", "claims", "growing"), "warning"),
        ),
        (
            {**KARPENTER, **GATED, **PLAIN},
            {"gang": {**GROWING, "ungateWhen": "fits"}},
            {"ungate": "warning"},
        ),
        (
            {**KARPENTER, **GATED, **PLAIN, **BUFFERS},
            {"gang": {"growing": True, "publishKeptRoom": True}},
            {"known": "ok"},
        ),
        (
            {**KARPENTER, **GATED, **PLAIN, "/apis/autoscaling.x-k8s.io": GONE},
            {"gang": {"growing": True, "publishKeptRoom": True}},
            {"buffers": "failure", "known": "ok"},
        ),
        (
            {**KARPENTER, **GATED, **PLAIN, "/apis/autoscaling.x-k8s.io": GONE},
            {"gang": {**GROWING, "publishKeptRoom": True}},
            {"known": "ok"},
        ),
        (
            {**KARPENTER, **GATED, **of_queue(annotations=ROOM)},
            {"gang": GROWING},
            {"room": "warning"},
        ),
        (
            {**KARPENTER, **GATED, **of_queue({"topologyName": "t"})},
            {"gang": GROWING},
            {"room": "warning"},
        ),
        (
            {**KARPENTER, **GATED, **PLAIN},
            {"gang": GROWING, "queue": {"requireRoom": True}},
            {"room": "warning"},
        ),
        (
            {**KARPENTER, **GATED, **PLAIN},
            {"gang": GROWING, "queue": {"requireRoom": "Provision"}},
            {"known": "ok"},
        ),
        (
            {**KARPENTER, **GATED},
            {"gang": GROWING, "queue": {"requireRoom": True, "enabled": False}},
            {"known": "ok"},
        ),
    ],
)
async def test_what_does_not_go_with_an_autoscaler(
    answers: Mapping[str, object], settings: dict[str, Any], want: dict[str, str]
) -> None:
    found = await findings({**VERSION, **answers}, **settings)

    group = "autoscalers."
    said = {name.removeprefix(group): each for name, each in found.items() if group in name}
    assert said == want
