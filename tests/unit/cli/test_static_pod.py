"""`gang-extender render static-pod`: kube-scheduler's static pod of kubeadm with the extender."""

import difflib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from gang_tools.cli.main import app
from tests.documents import ROOT, blocks

KUBEADM = ROOT / "tests/harness/kubeadm/kube-scheduler.yaml"
CONFIG = "/etc/kubernetes/kube-scheduler.yaml"
SCHEDULER = "etc/kubernetes/manifests/kube-scheduler.yaml"
EXTENDER = "etc/kubernetes/manifests/gang-extender.yaml"
CONFIGURATION = "etc/kubernetes/kube-scheduler.yaml"
SHIPPED = ROOT / "scheduler-config/kube-scheduler.yaml"
ENTRIES = yaml.safe_load(SHIPPED.read_text())["extenders"]
LAST_FLAG = "    - --leader-elect=true\n"

run = CliRunner()


def rendered(manifest: Path, *arguments: str) -> Result:
    command = ["render", "static-pod", "--scheduler-manifest", str(manifest), *arguments]
    return run.invoke(app, command)


def made(folder: Path, manifest: Path, *arguments: str) -> Result:
    result = rendered(manifest, "--output", str(folder), *arguments)
    assert result.exit_code == 0, result.output
    return result


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def changed(path: Path, old: str, new: str) -> Path:
    """Return kubeadm's file with other text in one place."""
    text = KUBEADM.read_text()
    assert text.count(old) == 1
    return written(path, text.replace(old, new))


def lines_of_diff(before: str, after: str) -> list[str]:
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in diff if line[0] in "+-" and line[:3] not in ("+++", "---")]


def test_kubeadms_file_gets_the_flag_the_mount_and_the_volume_and_keeps_all_else(
    tmp_path: Path,
) -> None:
    said = made(tmp_path, KUBEADM).output
    after = (tmp_path / SCHEDULER).read_text()

    # As kubeadm has them, whose ClusterConfiguration names them: the flag last, the others by name.
    added = lines_of_diff(KUBEADM.read_text(), after)
    assert Counter(added) == Counter(
        [
            f"+    - --config={CONFIG}",
            f"+    - mountPath: {CONFIG}",
            "+      name: gang-extender",
            "+      readOnly: true",
            "+  - hostPath:",
            f"+      path: {CONFIG}",
            "+      type: File",
            "+    name: gang-extender",
        ]
    )
    pod = yaml.safe_load(after)["spec"]
    assert pod["containers"][0]["command"][-1] == f"--config={CONFIG}"
    assert [each["name"] for each in pod["volumes"]] == ["gang-extender", "kubeconfig"]
    assert [line for line in said.splitlines() if line in added] == added
    modes = {
        path: (tmp_path / path).stat().st_mode & 0o777
        for path in (SCHEDULER, EXTENDER, CONFIGURATION)
    }
    # User 65532 reads the configuration; kubeadm leaves its manifests to root.
    assert modes == {SCHEDULER: 0o600, EXTENDER: 0o600, CONFIGURATION: 0o644}


def test_the_configuration_is_the_shipped_one_with_the_kubeconfig_of_the_flag(
    tmp_path: Path,
) -> None:
    other = changed(tmp_path / "m", "--kubeconfig=/etc/kubernetes/s", "--kubeconfig=/k/s")
    made(tmp_path, other)

    want = SHIPPED.read_text().replace("/etc/kubernetes/scheduler.conf", "/k/scheduler.conf")
    assert (tmp_path / CONFIGURATION).read_text() == want


def test_what_flags_say_that_count_no_more_is_said_by_the_configuration(tmp_path: Path) -> None:
    flags = ["kube-api-qps=80.5", "kube-api-burst=120", "profiling=false", "v=2"]
    more = LAST_FLAG + "".join(f"    - --{flag}\n" for flag in flags)
    made(tmp_path, changed(tmp_path / "m", LAST_FLAG, more))

    found = yaml.safe_load((tmp_path / CONFIGURATION).read_text())
    assert found["clientConnection"] == {
        "kubeconfig": "/etc/kubernetes/scheduler.conf",
        "qps": 80.5,
        "burst": 120,
    }
    assert found["enableProfiling"] is False
    assert found["extenders"] == ENTRIES
    command = yaml.safe_load((tmp_path / SCHEDULER).read_text())["spec"]["containers"][0]["command"]
    assert command[-5:] == [*(f"--{flag}" for flag in flags), f"--config={CONFIG}"]


def test_the_extender_reads_the_same_configuration(tmp_path: Path) -> None:
    made(tmp_path, KUBEADM, "--image", "registry.example.com/gang-extender:1")

    pod = yaml.safe_load((tmp_path / EXTENDER).read_text())
    [container] = pod["spec"]["containers"]
    assert container["image"] == "registry.example.com/gang-extender:1"
    assert container["args"][1] == f"--scheduler-config={CONFIG}"
    [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == CONFIG]
    [volume] = [each for each in pod["spec"]["volumes"] if each["name"] == mount["name"]]
    assert volume["hostPath"] == {"path": CONFIG, "type": "File"}
    shipped = (ROOT / "manifests/static-pod/gang-extender.yaml").read_text()
    gone = [x for x in lines_of_diff(shipped, (tmp_path / EXTENDER).read_text()) if x[0] == "-"]
    assert len(gone) == 1, "the image"


def test_a_patched_file_stays_as_it_is(tmp_path: Path) -> None:
    made(tmp_path / "one", KUBEADM)
    first = tmp_path / "one"
    said = made(
        tmp_path / "two", first / SCHEDULER, "--scheduler-config", str(first / CONFIGURATION)
    ).output

    for name in (SCHEDULER, CONFIGURATION, EXTENDER, "cluster-configuration.yaml"):
        assert (tmp_path / "two" / name).read_text() == (first / name).read_text()
    assert said.count(": nothing to change") == 2
    assert "+" not in {line[:1] for line in said.splitlines()}


def test_a_volume_and_a_mount_of_ours_stay_where_only_the_flag_is_gone(tmp_path: Path) -> None:
    made(tmp_path, KUBEADM)
    patched = (tmp_path / SCHEDULER).read_text()
    without = patched.replace(f"    - --config={CONFIG}\n", "")

    made(tmp_path / "two", written(tmp_path / "without.yaml", without))

    assert (tmp_path / "two" / SCHEDULER).read_text() == patched


def test_without_a_folder_the_files_are_printed_and_what_changed_is_said_apart() -> None:
    result = rendered(KUBEADM)

    kinds = [each["kind"] for each in yaml.safe_load_all(result.stdout)]
    assert kinds == ["KubeSchedulerConfiguration", "Pod", "Pod"]
    assert f"+    - --config={CONFIG}" in result.stderr.splitlines()


def test_what_kubeadm_must_know_is_what_the_pages_say(tmp_path: Path) -> None:
    made(tmp_path, KUBEADM)
    found = yaml.safe_load((tmp_path / "cluster-configuration.yaml").read_text())

    shown = [part for block in blocks("yaml") for part in block.parts if isinstance(part, dict)]
    assert [each for each in shown if each.get("kind") == "ClusterConfiguration"] == [found]


# -- a kube-scheduler that has a configuration

OWN = """\
# ours
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}  # one line
profiles:
  - schedulerName: default-scheduler
    percentageOfNodesToScore: 60
"""
MOUNTED = """\
    volumeMounts:
    - mountPath: /etc/kube-scheduler
      name: own
"""
VOLUMES = """\
  volumes:
  - name: own
    hostPath: {path: /opt/scheduler}
"""


def own_manifest(path: Path) -> Path:
    """Return kubeadm's file with a configuration of the administrator's."""
    text = KUBEADM.read_text()
    text = text.replace(LAST_FLAG, LAST_FLAG + "    - --config=/etc/kube-scheduler/own.yaml\n")
    text = text.replace("    volumeMounts:\n", MOUNTED).replace("  volumes:\n", VOLUMES)
    return written(path, text)


def test_the_entries_are_added_to_a_configuration_that_is_there(tmp_path: Path) -> None:
    config = written(tmp_path / "own.yaml", OWN)
    manifest = own_manifest(tmp_path / "m")
    said = made(tmp_path, manifest, "--scheduler-config", str(config)).output

    after = (tmp_path / "opt/scheduler/own.yaml").read_text()
    assert after.startswith(OWN)
    assert yaml.safe_load(after) == {**yaml.safe_load(OWN), "extenders": ENTRIES}
    assert (tmp_path / SCHEDULER).read_text() == manifest.read_text()
    pod = yaml.safe_load((tmp_path / EXTENDER).read_text())
    assert pod["spec"]["volumes"][-1]["hostPath"]["path"] == "/opt/scheduler/own.yaml"
    assert "WARNING: percentageOfNodesToScore is 60" in said
    assert "ClusterConfiguration" not in said, "kubeadm has this flag from the administrator"

    again = made(tmp_path / "two", manifest, "--scheduler-config", str(config)).output
    assert again.replace(str(tmp_path / "two"), str(tmp_path)) == said
    config.write_text(after)
    said = made(tmp_path / "three", manifest, "--scheduler-config", str(config)).output
    assert (tmp_path / "three/opt/scheduler/own.yaml").read_text() == after
    assert said.count(": nothing to change") == 2


def test_a_configuration_to_begin_with_gets_the_kubeconfig_and_the_entry_that_it_lacks(
    tmp_path: Path,
) -> None:
    own = yaml.safe_load(OWN)
    del own["clientConnection"]
    own["extenders"] = [{"urlPrefix": "http://10.0.0.9", "filterVerb": "x"}, ENTRIES[1]]
    config = written(tmp_path / "own.yaml", yaml.safe_dump(own))
    made(tmp_path, KUBEADM, "--scheduler-config", str(config))

    found = yaml.safe_load((tmp_path / CONFIGURATION).read_text())
    assert found["extenders"] == [*own["extenders"], ENTRIES[0]]
    assert found["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}


BINDS = {"extenders": [{"urlPrefix": "http://10.0.0.9", "bindVerb": "bind"}]}


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({**yaml.safe_load(OWN), **BINDS}, "extenders[0].bindVerb"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "kind"),
    ],
    ids=["another one binds", "another kind"],
)
def test_a_configuration_that_takes_no_entries_is_refused(
    config: dict[str, Any], field: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "own.yaml", yaml.safe_dump(config))
    result = rendered(KUBEADM, "--scheduler-config", str(path), "--output", str(tmp_path / "out"))

    assert result.exit_code == 2
    assert f"{path}: {field}: " in result.output
    assert not (tmp_path / "out").exists()


NAMED = "  - hostPath:\n      path: /etc/kubernetes/scheduler.conf\n"
REFUSED = {
    "no pod": ("kind: Pod", "kind: Deployment", "kind"),
    "no network of the host": ("hostNetwork: true", "hostNetwork: false", "spec.hostNetwork"),
    "another program": (
        "    name: kube-scheduler\n    ports",
        "    name: other\n    ports",
        "",
    ),
    "a configuration that is not given": (
        LAST_FLAG,
        f"{LAST_FLAG}    - --config=/x/y.yaml\n",
        "spec.containers[0].volumeMounts",
    ),
    "one that is mounted and not given": (
        LAST_FLAG,
        f"{LAST_FLAG}    - --config\n    - /etc/kubernetes/scheduler.conf\n",
        "spec.containers[0].command[6]",
    ),
    "a volume of our name": (
        NAMED,
        f"  - name: gang-extender\n    emptyDir: {{}}\n{NAMED}",
        "spec.volumes[0]",
    ),
    "another file at our place": (
        "    volumeMounts:\n",
        f"    volumeMounts:\n    - {{mountPath: {CONFIG}, name: kubeconfig}}\n",
        "spec.containers[0].volumeMounts[0]",
    ),
    "no number": (LAST_FLAG, f"{LAST_FLAG}    - --kube-api-qps=x\n", "spec.containers[0].command"),
    "two documents": ("status: {}\n", "status: {}\n---\na: b\n", "is not one YAML document"),
}


@pytest.mark.parametrize(("old", "new", "field"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_patched_is_refused_by_its_field(
    old: str, new: str, field: str, tmp_path: Path
) -> None:
    manifest = changed(tmp_path / "m", old, new)
    if not field:
        manifest.write_text(manifest.read_text().replace("- kube-scheduler\n", "- other\n"))
        field = "spec.containers"
    result = rendered(manifest, "--output", str(tmp_path / "out"))

    assert result.exit_code == 2
    assert f"{manifest}: {field}" in result.output
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    result = rendered(tmp_path / "missing")
    assert result.exit_code == 1
    assert "No such file" in result.output


def test_comments_quotes_and_indentation_stay(tmp_path: Path) -> None:
    text = """\
# ours
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {"kubeconfig": '/etc/kubernetes/scheduler.conf'}  # one line
extenders:
    # of another team
    - urlPrefix: http://10.0.0.9  # theirs
      filterVerb: "filter"
profiles:
    - schedulerName: default-scheduler

# the end
"""
    config = written(tmp_path / "own.yaml", text)
    made(tmp_path, KUBEADM, "--scheduler-config", str(config))

    diff = lines_of_diff(text, (tmp_path / CONFIGURATION).read_text())
    assert {line[0] for line in diff} == {"+"}
    assert diff[0] == "+    - urlPrefix: http://127.0.0.1:8888"


def test_what_the_command_begins_with_is_in_the_package() -> None:
    said = (ROOT / "pyproject.toml").read_text()
    for path in ("manifests/static-pod", "scheduler-config/kube-scheduler.yaml"):
        assert f'"{path}" = "extender/{path}"' in said
