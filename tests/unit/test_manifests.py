"""Every kustomization names files that are there and patches what it means."""

from pathlib import Path

import pytest
import yaml

from tests.harness.kustomize import FILE, FILES, KustomizationError, build, file_of

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(
    path.parent
    for top in ("manifests", "overlays")
    for name in FILES
    for path in (ROOT / top).rglob(name)
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_kustomization_is_whole(folder: Path) -> None:
    found = build(folder)
    names = [
        (
            each["apiVersion"],
            each["kind"],
            each["metadata"].get("namespace"),
            each["metadata"]["name"],
        )
        for each in found
    ]
    assert len(set(names)) == len(names) > 1


def test_one_that_names_what_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("resources: [missing.yaml]\n")
    with pytest.raises(KustomizationError, match="there is no such file"):
        build(tmp_path)
    (tmp_path / "one.yaml").write_text("{apiVersion: v1, kind: A, metadata: {name: a}}\n")
    patch = "patches: [{target: {kind: B}, patch: '[]'}]\n"
    (tmp_path / FILE).write_text(f"resources: [one.yaml]\n{patch}")
    with pytest.raises(KustomizationError, match="nothing is meant"):
        build(tmp_path)


def test_one_reaches_neither_files_beside_its_folder_nor_the_folder_above(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("{apiVersion: v1, kind: A, metadata: {name: a}}\n")
    (tmp_path / FILE).write_text("resources: [one.yaml]\n")
    below = tmp_path / "below"
    below.mkdir()
    (below / FILE).write_text("resources: [..]\n")
    with pytest.raises(KustomizationError, match="contains the folder that names it"):
        build(below)
    (below / FILE).write_text("resources: [../one.yaml]\n")
    with pytest.raises(KustomizationError, match="not in or below"):
        build(below)


def test_every_folder_of_the_default_set_names_each_of_its_files() -> None:
    for folder in FOLDERS:
        file = file_of(folder)
        assert file is not None
        named = yaml.safe_load(file.read_text())["resources"]
        if file.name == "Kustomization":
            assert set(named) == {path.name for path in folder.glob("*.yaml")}, folder


def test_crds_are_applied_with_f_too() -> None:
    """`kubectl apply -f` reads what ends in .yaml, .yml or .json, and knows no Kustomization."""
    crds = ROOT / "manifests" / "crds"
    assert {path.suffix for path in crds.iterdir()} == {".yaml", ""}
    assert file_of(crds) == crds / "Kustomization"


SECOND = ROOT / "manifests" / "second-scheduler"


def test_with_the_second_scheduler_comes_everything_that_the_default_set_has() -> None:
    default, found, alone = (build(x) for x in (ROOT / "manifests", SECOND, SECOND / "scheduler"))
    assert found == [*default, *alone]


def test_the_file_for_apply_f_has_the_same_second_scheduler() -> None:
    file = ROOT / "manifests" / "optional" / "second-scheduler.yaml"
    assert [each for each in yaml.safe_load_all(file.read_text()) if each] == (
        build(SECOND / "scheduler")
    )


def test_the_reconciler_may_reach_an_api_server_behind_any_port() -> None:
    found = build(ROOT / "manifests")
    [policy] = [each for each in found if each["kind"] == "NetworkPolicy"]
    assert {"ports": [{"protocol": "TCP"}]} in policy["spec"]["egress"]


def test_beside_kueue_its_crds_are_left_alone_and_our_queue_is_off() -> None:
    found = build(ROOT / "overlays/beside-kueue")
    crds = [each for each in found if each["kind"] == "CustomResourceDefinition"]
    assert {each["spec"]["group"] for each in crds} == {
        "scheduling.x-k8s.io",
        "scheduling.sigs.k8s.io",
    }
    [reconciler] = [each for each in found if each["kind"] == "Deployment"]
    [container] = reconciler["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--no-queue"
    [jobs] = [each for each in found if each["metadata"]["name"] == "gang-jobs" and "spec" in each][
        :1
    ]
    assert "ownerReferences" not in jobs["spec"]["matchConditions"][0]["expression"]


def test_users_of_a_namespace_make_pod_groups_and_leave_their_status() -> None:
    roles = {
        each["metadata"]["name"]: each
        for each in build(ROOT / "manifests")
        if each["kind"] == "ClusterRole"
    }
    into = "rbac.authorization.k8s.io/aggregate-to-"
    writing = {
        f"{into}{name}"
        for name in ("edit", "admin")
        if roles["gang-pod-group-editor"]["metadata"]["labels"].get(f"{into}{name}") == "true"
    }
    assert writing == {f"{into}edit", f"{into}admin"}
    assert roles["gang-pod-group-viewer"]["metadata"]["labels"][f"{into}view"] == "true"
    for role in roles.values():
        if any(label.startswith(into) for label in role["metadata"]["labels"]):
            assert not [x for rule in role["rules"] for x in rule["resources"] if "status" in x]


MONITORING = ROOT / "manifests" / "monitoring"


def test_the_pod_monitor_of_the_reconciler_finds_its_pods_and_may_read_their_metrics() -> None:
    found = {each["kind"]: each for each in build(MONITORING)}
    default = build(ROOT / "manifests")
    [pods] = [x["spec"]["template"] for x in default if x["kind"] == "Deployment"]
    services = [each["metadata"] for each in default if each["kind"] == "Service"]
    wanted = found["PodMonitor"]["spec"]
    [endpoint] = wanted["podMetricsEndpoints"]

    assert wanted["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    ports = {each["name"]: each["containerPort"] for each in pods["spec"]["containers"][0]["ports"]}
    assert ports[endpoint["port"]] == 8889
    [meta] = [each for each in services if "webhooks" in each["name"]]
    assert endpoint["tlsConfig"]["serverName"] == f"{meta['name']}.{meta['namespace']}.svc"
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == f"{meta['name']}-tls"
    assert endpoint["authorization"]["credentials"]["name"] == found["Secret"]["metadata"]["name"]
    account = found["ServiceAccount"]["metadata"]["name"]
    annotations = found["Secret"]["metadata"]["annotations"]
    assert annotations == {"kubernetes.io/service-account.name": account}
    assert [each["name"] for each in found["ClusterRoleBinding"]["subjects"]] == [account]
    roles = {each["metadata"]["name"] for each in default if each["kind"] == "ClusterRole"}
    assert found["ClusterRoleBinding"]["roleRef"]["name"] in roles


def test_the_pod_monitor_over_a_network_finds_the_static_pod() -> None:
    [monitor] = yaml.safe_load_all((MONITORING / "over-network.yaml").read_text())
    pod = yaml.safe_load((ROOT / "manifests/static-pod/gang-extender.yaml").read_text())
    wanted = monitor["spec"]
    assert wanted["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert wanted["namespaceSelector"] == {"matchNames": [pod["metadata"]["namespace"]]}


def test_every_file_of_monitoring_is_applied_or_said_to_be_apart() -> None:
    file = file_of(MONITORING)
    assert file is not None
    text = file.read_text()
    assert [x.name for x in MONITORING.iterdir() if x != file and x.name not in text] == []
