"""`gang-extender check` on a real API server, on which things are missing and wrong.

On a control plane of its own, because CRDs and roles go here.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.alone import alone
from tests.cluster.checking import Answer
from tests.harness import objects
from tests.harness.client import PATIENCE_SECONDS, Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT, install
from tests.harness.manifests import documents

SCHEDULER = ROOT / "scheduler-config" / "kube-scheduler.yaml"
CRDS = ROOT / "manifests" / "crds"
CRD = "apiextensions.k8s.io/v1/customresourcedefinitions"
POD_GROUPS = "podgroups.scheduling.x-k8s.io"

control_plane, api = alone()


@pytest.fixture(scope="module", autouse=True)
def installed(control_plane: ControlPlane) -> None:
    """What an administrator applies, but for the reconciler's Deployment."""
    install(control_plane)


def test_an_installation_has_no_failure(control_plane: ControlPlane) -> None:
    answer = Answer("--kubeconfig", control_plane.admin_kubeconfig, "--scheduler-config", SCHEDULER)

    assert answer.lines("failure").keys() == {"extender.ready"}  # none runs on that port
    assert answer.exit_code == 1
    fine = answer.lines("ok")
    assert fine["server.version"].startswith("Kubernetes v1.36")
    assert fine.keys() >= {
        "server.clock",
        "crds.podgroups",
        "crds.podgroups-sigs",
        "crds.workloads",
    }
    assert fine["rights.extender"].startswith(
        f"system:serviceaccount:{NAMESPACE}:gang-extender has"
    )
    assert fine.keys() >= {"rights.reconciler", "policies.bound", "scheduler.timeouts"}
    assert fine.keys() >= {"others.kueue", "others.plugins", "others.native"}
    assert [each for each in answer.found if each["level"] != "ok" and not each["mend"]] == []


def test_a_crd_that_is_not_there_is_a_failure_with_its_mend(
    control_plane: ControlPlane, api: Api
) -> None:
    api.delete(CRD, POD_GROUPS)
    api.wait_for("it is gone", lambda: api.find(CRD, POD_GROUPS) is None)
    try:
        answer = Answer("--kubeconfig", control_plane.admin_kubeconfig)
    finally:
        api.apply(CRDS / "scheduling.x-k8s.io_podgroups.yaml")

    assert answer.exit_code == 1
    assert answer.lines("failure") == {"crds.podgroups": f"there is no CRD {POD_GROUPS}"}
    [mend] = [each["mend"] for each in answer.found if each["level"] == "failure"]
    assert mend.startswith("kubectl apply -f manifests/crds")


def test_a_right_that_is_missing_is_named(control_plane: ControlPlane, api: Api) -> None:
    roles = ROOT / "manifests" / "rbac" / "extender.yaml"
    role = deepcopy(next(x for x in documents(roles) if x["kind"] == "ClusterRole"))
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    role["rules"][0]["verbs"].remove("patch")
    own = control_plane.service_account_kubeconfig(NAMESPACE, "gang-extender")
    api.apply(role)
    try:
        api.wait_for("the right is gone", lambda: Answer("--kubeconfig", own).exit_code == 1)
        as_admin = Answer("--kubeconfig", control_plane.admin_kubeconfig)
        as_itself = Answer("--kubeconfig", own, "--identity", "extender")
    finally:
        api.apply(roles)

    user = f"system:serviceaccount:{NAMESPACE}:gang-extender"
    want = {
        "rights.extender.pods": f"{user} may not patch pods",
        "rights.extender.pods/binding": f"{user} may not create pods/binding",
    }
    assert as_admin.lines("failure") == as_itself.lines("failure") == want
    assert as_itself.lines("ok")["crds.podgroups"].endswith("v1alpha1 is served")


def test_a_user_without_rights_is_warned_and_reads_what_all_may(
    control_plane: ControlPlane,
) -> None:
    answer = Answer("--kubeconfig", control_plane.kubeconfig("somebody-else"))

    assert answer.exit_code == 0
    assert answer.lines("failure") == {}
    assert answer.lines("warning").keys() >= {"rights.extender", "rights.reconciler"}
    assert "crds.workloads" in answer.lines("ok")


def test_a_wrong_scheduler_file_is_a_failure_and_kube_scheduler_says_the_same(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    config: dict[str, Any] = yaml.safe_load(SCHEDULER.read_text())
    config["extenders"][0]["enableHttps"] = True
    config["extenders"][1] |= {"httpTimeout": "60s", "ignorable": True}
    path = tmp_path / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(config))

    answer = Answer("--kubeconfig", control_plane.admin_kubeconfig, "--scheduler-config", path)
    scheduler = control_plane.scheduler(path, name="wrong", wait=False)
    scheduler.wait(PATIENCE_SECONDS)

    assert answer.exit_code == 1
    found = answer.lines("failure")
    assert {name for name in found if name.startswith("scheduler.")} == {
        "scheduler.fields",
        "scheduler.ignorable",
        "scheduler.timeouts",
    }
    assert "extenders[0].enableHttps" in found["scheduler.fields"]
    said = scheduler.tail()
    assert "unknown field" in said
    assert "extenders[0].enableHttps" in said


def test_a_kube_scheduler_without_its_configuration_is_found(
    control_plane: ControlPlane, api: Api
) -> None:
    for name, flag in (("with", "--config=/etc/a.yaml"), ("without", "--v=2")):
        pod = objects.pod(name, namespace="kube-system", labels={"component": "kube-scheduler"})
        pod["spec"]["containers"][0]["command"] = ["kube-scheduler", flag]
        api.create(pod)
    try:
        answer = Answer("--kubeconfig", control_plane.admin_kubeconfig)
    finally:
        for name in ("with", "without"):
            api.delete("pods", name, "kube-system", grace_seconds=0)

    assert answer.lines("warning")["others.scheduler"].startswith("without runs without --config")


def test_a_policy_without_its_binding_is_a_warning(control_plane: ControlPlane, api: Api) -> None:
    bindings = "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    api.delete(bindings, "gang-pods")
    try:
        answer = Answer("--kubeconfig", control_plane.admin_kubeconfig)
    finally:
        api.apply(ROOT / "manifests" / "policies" / "pods.yaml")

    assert answer.exit_code == 0
    assert answer.lines("warning")["policies.bound"].startswith("gang-pods: not there")


def test_an_api_server_that_does_not_answer_is_a_failure(
    control_plane: ControlPlane,
) -> None:
    nowhere = control_plane.through(control_plane.admin_kubeconfig, 1, "nowhere")

    answer = Answer("--kubeconfig", nowhere, "--scheduler-config", SCHEDULER)

    assert answer.exit_code == 1
    assert answer.lines("failure").keys() == {"server.version", "extender.ready"}
