"""The Helm chart: the objects of kustomize for the same choices, and a release on an API server."""

import re
from base64 import b64encode
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from extender.config.settings import Settings, load
from tests.cluster.alone import alone
from tests.cluster.chart_choices import CHOICES, CRD, Choice
from tests.documents import blocks, words_of
from tests.harness import helm
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.objects import Object
from tests.unit.docs.test_documents import parse

KEEP = "helm.sh/resource-policy"
CHECKSUM = "checksum/settings"

control_plane, api = alone()


def named(found: list[Object]) -> dict[tuple[str, ...], Object]:
    """Return objects by what tells them apart, the texts of settings parsed."""
    result: dict[tuple[str, ...], Object] = {}
    for each in deepcopy(found):
        meta = each["metadata"]
        key = (each["apiVersion"], each["kind"], meta.get("namespace", ""), meta["name"])
        assert key not in result
        if "settings.yaml" in each.get("data", ()):
            each["data"] = {key: yaml.safe_load(text) for key, text in each["data"].items()}
        result[key] = each
    return result


def without_annotations_of_helm(choice: Choice, found: list[Object]) -> list[Object]:
    """Return objects without what only Helm needs, which is where it has to be."""
    found = deepcopy(found)
    settings = [each for each in found if "settings.yaml" in each.get("data", ())]
    configured = choice.values.get("scheduler", {}).get("kubeScheduler", {}).get("configuration")
    for each in found:
        annotations = each["metadata"].get("annotations", {})
        kept = choice.values.get("crds", {}).get("keep", True) and each["kind"] == CRD
        assert annotations.pop(KEEP, None) == ("keep" if kept else None)
        if annotations == {}:
            each["metadata"].pop("annotations", None)
        if each["kind"] == "Deployment":
            pod = each["spec"]["template"]["metadata"]
            reads = settings or (configured and each["metadata"]["name"] == "gang-scheduler")
            assert [*pod.pop("annotations", {})] == ([CHECKSUM] if reads else [])
    return found


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_the_chart_and_kustomize_give_the_same_objects(choice: Choice, tmp_path: Path) -> None:
    rendered = named(without_annotations_of_helm(choice, choice.rendered()))
    built = named(choice.built(tmp_path))

    assert rendered.keys() == built.keys()
    for key, each in built.items():
        assert rendered[key] == each, key


def test_in_another_namespace_nothing_names_the_usual_one() -> None:
    assert NAMESPACE not in yaml.safe_dump(CHOICES["another namespace"].rendered())


@pytest.mark.parametrize("name", ["settings", "another namespace", "the queue alone"])
def test_the_processes_take_the_settings_that_are_rendered(name: str, tmp_path: Path) -> None:
    [text] = [
        each["data"]["settings.yaml"]
        for each in CHOICES[name].rendered()
        if "settings.yaml" in each.get("data", ())
    ]
    (tmp_path / "settings.yaml").write_text(text)

    settings = load(tmp_path / "settings.yaml", {})

    assert settings != Settings()
    assert settings.reconcile.lease_namespace == CHOICES[name].namespace
    if name == "settings":
        assert settings.gang.aging_seconds == 300
        assert settings.gang.preemption == "Off"
        assert settings.listen.max_body_bytes == 67_108_865


def test_pods_start_again_when_a_setting_changes() -> None:
    def checksums(seconds: int) -> list[str]:
        settings = {"gang": {"agingSeconds": seconds}}
        return [
            each["spec"]["template"]["metadata"]["annotations"][CHECKSUM]
            for each in helm.template({"settings": settings})
            if each["kind"] == "Deployment"
        ]

    assert len(checksums(5)) == 2
    assert checksums(5) == checksums(5)
    assert not {*checksums(5)} & {*checksums(6)}


WRONG: dict[str, tuple[Object, str]] = {
    "no such field": ({"replica": 2}, r"'replica' not allowed"),
    "no such mode": ({"mode": "besides"}, r"'/mode'.*'beside', 'controlPlane', 'queueOnly'"),
    "text for a number": ({"reconciler": {"replicas": "two"}}, "'/reconciler/replicas'"),
    "a number for text": ({"image": {"tag": 1.0}}, "'/image/tag'"),
    "a policy that is none": ({"image": {"pullPolicy": "Sometimes"}}, "'/image/pullPolicy'"),
    "a secret without a name": ({"image": {"pullSecrets": [{}]}}, "'/image/pullSecrets/0'.*name"),
    "a setting that is none": ({"settings": {"gang": {"aging": 5}}}, "'/settings/gang'.*'aging'"),
    "a time that is none": (
        {"settings": {"gang": {"agingSeconds": "soon"}}},
        "'/settings/gang/agingSeconds'",
    ),
    "a setting out of range": ({"settings": {"kube": {"connections": 1}}}, "/kube/connections'"),
    "a version without v": (
        {"scheduler": {"kubeScheduler": {"version": "1.36.3"}}},
        "'/scheduler/kubeScheduler/version'",
    ),
    "no queue and no gangs": ({"mode": "queueOnly", "besideKueue": True}, "mode: queueOnly and"),
    "gates without an extender": (
        {"mode": "queueOnly", "optional": {"gangGatePolicy": True}},
        "optional.gangGatePolicy: ",
    ),
    "sent to no scheduler": (
        {"mode": "controlPlane", "optional": {"secondSchedulerPolicy": True}},
        "optional.secondSchedulerPolicy: ",
    ),
    "jobs held twice": (
        {"optional": {"webhooks": True, "queuePolicies": True}},
        "optional.webhooks: ",
    ),
    "jobs of Kueue": ({"besideKueue": True, "optional": {"webhooks": True}}, "optional.webhooks: "),
    "a Lease elsewhere": (
        {"settings": {"reconcile": {"leaseNamespace": "other"}}},
        "settings.reconcile.leaseNamespace: ",
    ),
    "a certificate elsewhere": (
        {"settings": {"webhooks": {"namespace": "other"}}},
        "settings.webhooks.namespace: ",
    ),
    "metrics for no account": (
        {"metrics": {"serviceMonitor": {"enabled": True}}},
        "metrics.serviceMonitor.account: ",
    ),
}


@pytest.mark.parametrize(("values", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_an_error_that_names_its_field(values: Object, said: str) -> None:
    with pytest.raises(helm.HelmError, match=said):
        helm.template(values)


@pytest.mark.parametrize(
    ("values", "kubernetes", "said"),
    [
        ({}, "v1.29.4", "policies: must be false"),
        ({"optional": {"gangGatePolicy": True}}, "v1.35.9-eks.1", "optional.gangGatePolicy: needs"),
        ({"optional": {"queuePolicies": True}}, "v1.35.9", "optional.queuePolicies: needs"),
    ],
)
def test_what_an_older_cluster_lacks_is_an_error_that_names_the_field(
    values: Object, kubernetes: str, said: str
) -> None:
    with pytest.raises(helm.HelmError, match=said):
        helm.template(values, kubernetes=kubernetes)


def test_lint_finds_no_fault() -> None:
    assert "0 chart(s) failed" in helm.lint({})
    with pytest.raises(helm.HelmError, match="/mode"):
        helm.lint({"mode": "none"})


NOTES: dict[str, Object] = {
    "beside": {"optional": {"secondSchedulerPolicy": True}},
    "control plane": {"mode": "controlPlane", "settings": {"gang": {"agingSeconds": 5}}},
    "queue": {"mode": "queueOnly", "crds": {"keep": False}},
    "Kueue": {"besideKueue": True},
}
SMOKE = "gang-extender check --smoke"
CHECKS = {
    "beside": ["gang-extender check", f"{SMOKE} --scheduler-name gang-scheduler"],
    "control plane": [f"gang-extender check{(c := ' --config settings.yaml')}", f"{SMOKE}{c}"],
    "queue": [f"gang-extender check{c}"],
    "Kueue": [f"gang-extender check{c}", f"{SMOKE} --scheduler-name gang-scheduler{c}"],
}


def test_service_monitor_leads_to_the_port_of_metrics() -> None:
    account = {"name": "prometheus", "namespace": "monitoring"}
    monitor = {"enabled": True, "labels": {"release": "prometheus"}, "account": account}
    rendered = named(helm.template({"metrics": {"serviceMonitor": monitor}}))
    more = {key: rendered[key] for key in rendered.keys() - named(helm.template({})).keys()}
    by_kind = {kind: each for (_, kind, *_), each in more.items()}

    assert by_kind.keys() == {"Service", "ServiceMonitor", "ClusterRoleBinding"}
    service, found = by_kind["Service"], by_kind["ServiceMonitor"]
    wanted = found["spec"]["selector"]["matchLabels"].items()
    chosen = [
        each
        for (_, kind, *_), each in rendered.items()
        if kind == "Service" and wanted <= each["metadata"]["labels"].items()
    ]
    assert chosen == [service]
    assert found["metadata"]["labels"]["release"] == "prometheus"
    [deployment] = [
        each
        for (*_, name), each in rendered.items()
        if name == "gang-reconciler" and each["kind"] == "Deployment"
    ]
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {each["name"] for each in pod["spec"]["containers"][0]["ports"]}
    assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
    assert by_kind["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]


DOCUMENTED = [words for block in blocks("console") for words in block.commands]
COMMANDS = [words for words in DOCUMENTED if words[0] == "helm"]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_documented_command_of_helm_can_be_given(words: list[str]) -> None:
    known = helm.helm(words[1], "--help")
    for flag in (each for each in words if each.startswith("-")):
        assert re.search(rf"{flag}[ ,]", known), flag


PARTS = [part for block in blocks("yaml") for part in block.parts]
VALUES = [each for each in PARTS if isinstance(each, dict) and "mode" in each]


@pytest.mark.parametrize("values", VALUES)
def test_the_documented_values_are_taken(values: Object, tmp_path: Path) -> None:
    rendered = yaml.safe_dump(helm.template(values))
    if "image" in values:
        assert f"{values['image']['repository']}:{values['image']['tag']}" in rendered
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(values["settings"]))
    load(tmp_path / "settings.yaml", {})  # which says what is wrong with them


# -- on an API server

WAYS = ["beside the cluster's scheduler", "in the control plane", "the queue alone", "beside Kueue"]
ALL: Object = {
    "settings": {"gang": {"agingSeconds": "5m"}},
    "optional": {"gangGatePolicy": True, "secondSchedulerPolicy": True, "queuePolicies": True},
}


@pytest.mark.parametrize("name", [*WAYS, "another namespace", "webhooks"])
def test_an_api_server_takes_every_object_with_all_its_fields(api: Api, name: str) -> None:
    choice = CHOICES[name]
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": choice.namespace}})
    for each in choice.rendered():
        api.tried(each, apply=True)


CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"
CLIENT = "/spec/conversion/webhook/clientConfig"


def test_a_release_is_installed_upgraded_and_uninstalled(
    control_plane: ControlPlane, api: Api
) -> None:
    kubeconfig = control_plane.admin_kubeconfig

    def stored() -> dict[str, set[str]]:
        kinds = {
            "deployments": "apps/v1/deployments",
            "configmaps": "configmaps",
            "policies": "admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
            "crds": CRDS,
        }
        return {
            kind: {
                each["metadata"]["name"]
                for each in api.list(resource)
                if each["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "Helm"
                and "deletionTimestamp" not in each["metadata"]
            }
            for kind, resource in kinds.items()
        }

    said = helm.install(kubeconfig, {})
    assert "gang-extender is installed in the namespace" in said
    first = stored()
    assert first["deployments"] == {"gang-reconciler", "gang-scheduler"}
    assert first["policies"] == set()
    assert len(first["crds"]) == 11

    authority = b64encode(control_plane.authority.read_bytes()).decode()
    bundle = {"op": "add", "path": f"{CLIENT}/caBundle", "value": authority}
    path = f"/apis/{CRDS}/workloads.kueue.x-k8s.io"
    api.request("PATCH", path, body=[bundle], content_type="application/json-patch+json")

    helm.install(kubeconfig, ALL, upgrade=True)
    second = stored()
    assert second["crds"] == first["crds"]
    conversion = api.get(CRDS, "workloads.kueue.x-k8s.io")["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["caBundle"] == authority
    assert second["configmaps"] == {"gang-scheduler", "gang-extender", "gang-managed-jobs"}
    assert {"gang-gate", "gang-second-scheduler"} < second["policies"]
    [reconciler] = [
        each
        for each in api.list("apps/v1/deployments", NAMESPACE)
        if each["metadata"]["name"] == "gang-reconciler"
    ]
    [container] = reconciler["spec"]["template"]["spec"]["containers"]
    assert "--config=/etc/gang-extender/settings.yaml" in container["args"]

    helm.uninstall(kubeconfig)
    last = stored()
    assert last.pop("crds") == first["crds"]
    assert not any(last.values())


def test_what_kustomize_installed_is_taken_over(
    control_plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    choice = CHOICES["in the control plane"]
    made = [each for each in choice.built(tmp_path) if each["kind"] != CRD]
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    api.apply(made)

    with pytest.raises(helm.HelmError, match="cannot be imported into the current release"):
        helm.install(control_plane.admin_kubeconfig, choice.values)
    helm.install(control_plane.admin_kubeconfig, choice.values, "--take-ownership")

    helm.uninstall(control_plane.admin_kubeconfig)
    there = {each["metadata"]["name"] for each in api.list("apps/v1/deployments", NAMESPACE)}
    assert "gang-reconciler" not in there


@pytest.mark.parametrize("name", NOTES)
def test_the_notes_say_how_to_check(control_plane: ControlPlane, name: str) -> None:
    said = helm.install(control_plane.admin_kubeconfig, NOTES[name], "--dry-run=server")
    notes = said.partition("\nNOTES:\n")[2]
    commands = [line.strip() for line in notes.splitlines() if line.startswith("   ")]

    assert [each for each in commands if each.startswith("gang-extender ")] == CHECKS[name]
    for command in CHECKS[name]:
        [[_, *arguments]] = words_of(command)
        parse(arguments)
    waited = set(re.findall(r"rollout status deployment/([a-z-]+)", notes))
    deployments = {
        each["metadata"]["name"]
        for each in helm.template(NOTES[name])
        if each["kind"] == "Deployment"
    }
    assert waited == deployments
    assert ("--config settings.yaml" in notes) == ("> settings.yaml" in notes)
    assert ("stay when this release is uninstalled" in notes) == (name != "queue")
