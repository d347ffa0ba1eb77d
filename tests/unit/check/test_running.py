"""What runs: other controllers, the two processes, webhooks and certificates."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.samples import Sample

from extender.check import smoke
from extender.check.cluster import KUEUE, PLUGINS, check
from extender.check.facts import (
    CertificateFacts,
    ClusterFacts,
    ExtenderFacts,
    LeaseFacts,
    OtherFacts,
    ServerFacts,
    WebhookFacts,
)
from extender.check.findings import HEADS, Unknown
from extender.check.survey import has_half_of_the_gates

NOW = 1_000_000.0
DAY = 86400.0
FACTS = ClusterFacts(NOW, ServerFacts("v1.36.3", (1, 36)), elects=True)
NOTHING = OtherFacts({}, (), ())
AWAY = Unknown("403")


def levels(group: str, **facts: Any) -> dict[str, str]:
    found = check(replace(FACTS, **facts))
    assert all(bool(each.mend) == (each.level != "ok") for each in found)
    assert {each.group for each in found} <= HEADS.keys()
    return {each.id: str(each.level) for each in found if each.group == group}


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (NOTHING, {}),
        (replace(NOTHING, deployments={KUEUE: "kueue-system"}), {"others.kueue": "failure"}),
        (replace(NOTHING, deployments={PLUGINS: "a"}), {"others.plugins": "failure"}),
        (replace(NOTHING, native_gangs=["v1alpha2"]), {"others.native": "warning"}),
        (
            replace(NOTHING, native_gangs=["v1alpha2"], native_cycles=True, native="extender"),
            {"others.native": "failure"},
        ),
        (
            replace(NOTHING, native_gangs=["v1alpha2"], native_cycles=True),
            {"others.native": "warning"},
        ),
        (
            replace(NOTHING, native_gangs=["v1alpha2"], half_gated=["kube-scheduler-a"]),
            {"others.native": "failure"},
        ),
        (
            replace(
                NOTHING,
                native_gangs=["v1alpha2"],
                half_gated=["kube-scheduler-a"],
                native_cycles=True,
                native="extender",
            ),
            {"others.native": "warning"},
        ),
        (replace(NOTHING, without_config=["a"]), {"others.scheduler": "warning"}),
        (AWAY, {"others.known": "warning"}),
    ],
)
def test_what_else_is_installed(found: OtherFacts | Unknown, want: dict[str, str]) -> None:
    seen = levels("others", others=found)
    assert {name: level for name, level in seen.items() if level != "ok"} == want


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
    assert has_half_of_the_gates(pod) is half


def test_kueue_is_welcome_where_our_queue_is_off() -> None:
    beside = replace(NOTHING, deployments={KUEUE: "kueue-system"})
    assert levels("others", others=beside, queue=False)["others.kueue"] == "ok"


def page(**values: float) -> list[Sample]:
    """Return a metrics page of an extender that is well, with other values."""
    found = {"request_duration_seconds_count": 7.0} | values
    labels = {"kind": "pods", "verb": "filter"}
    return [Sample(f"gang_extender_{name}", labels, value) for name, value in found.items()]


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (None, {"extender.ready": "warning"}),
        (ExtenderFacts("http://a", AWAY), {"extender.ready": "failure"}),
        (ExtenderFacts("http://a", (503, "[-]pods: not listed")), {"extender.ready": "failure"}),
        (ExtenderFacts("http://a", (200, "ok"), AWAY), {"extender.metrics": "warning"}),
        (ExtenderFacts("http://a", (200, "ok"), page()), {}),
        (
            ExtenderFacts("http://a", (200, "ok"), page(request_duration_seconds_count=0.0)),
            {"extender.asked": "warning"},
        ),
        (
            ExtenderFacts(
                "http://a",
                (200, "ok"),
                page(internal_errors_total=1.0, scheduler_disagreements=2.0, objects_set_aside=0.0),
            ),
            {"extender.errors": "warning", "extender.disagreements": "warning"},
        ),
    ],
)
def test_an_extender(found: ExtenderFacts | None, want: dict[str, str]) -> None:
    seen = levels("extender", extender=found)
    assert {name: level for name, level in seen.items() if level != "ok"} == want


def test_what_is_not_ready_is_said() -> None:
    text = "[+]nodes\n[-]pods: not listed yet: 403\n"
    found = check(replace(FACTS, extender=ExtenderFacts("http://a", (503, text))))
    [ready] = [each for each in found if each.id == "extender.ready"]
    assert ready.found == "http://a is not ready: pods: not listed yet: 403"


@pytest.mark.parametrize(
    ("lease", "want"),
    [
        (None, "warning"),
        (AWAY, "warning"),
        (LeaseFacts("a", 3.0, 15.0), "ok"),
        (LeaseFacts("a", 16.0, 15.0), "failure"),
        (LeaseFacts("", 1.0, 15.0), "failure"),
    ],
)
def test_the_lease(lease: LeaseFacts | Unknown | None, want: str) -> None:
    assert levels("reconciler", lease=lease) == {"reconciler.lease": want}
    assert levels("reconciler", lease=lease, elects=False) == {}


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (WebhookFacts("jobs", has_authority=True), "ok"),
        (WebhookFacts("jobs", has_authority=False), "failure"),
        (WebhookFacts("jobs", has_authority=True, trouble="no endpoints"), "failure"),
        (WebhookFacts("jobs", has_authority=True, trouble=AWAY), "warning"),
    ],
)
def test_webhooks(found: WebhookFacts, want: str) -> None:
    assert levels("webhooks", webhooks=[found]) == {"webhooks.jobs": want}


@pytest.mark.parametrize(
    ("ends", "brief", "want"),
    [
        (NOW + 8 * DAY, False, "ok"),
        (NOW + 6 * DAY, False, "warning"),
        (NOW + 60.0, True, "ok"),
        (NOW, True, "failure"),
        (AWAY, False, "warning"),
    ],
)
def test_certificates(ends: float | Unknown, brief: bool, want: str) -> None:
    found = CertificateFacts("webhooks", "the webhooks' certificate", ends, "renew it", brief)
    assert levels("certificates", certificates=[found]) == {"certificates.webhooks": want}


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


@pytest.mark.parametrize(
    ("facts", "want"),
    [
        ({}, {"queue.honoured": "ok"}),
        (
            {"without_effect": [("ClusterQueue", "a", ("fairSharing",))]},
            {"queue.ClusterQueue.a": "warning"},
        ),
        ({"queue": False, "without_effect": [("ClusterQueue", "a", ("fairSharing",))]}, {}),
    ],
)
def test_queues_and_jobs(facts: dict[str, Any], want: dict[str, str]) -> None:
    assert levels("queue", **facts) == want
