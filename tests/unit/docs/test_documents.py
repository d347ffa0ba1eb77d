"""What the documents say is so: links, paths, commands, settings, words of the API, YAML."""

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from pydantic.alias_generators import to_camel
from typer.core import TyperGroup
from typer.testing import CliRunner

from extender.api import reasons, wellknown
from extender.api.wellknown import ConditionType, Phase, WorkloadCondition
from extender.config.settings import Settings, load
from extender.jobs.registry import builtin
from gang_tools.cli.kubectl.app import app as plugin
from gang_tools.cli.main import app
from gang_tools.manifests import faults, schema_for
from gang_tools.simulate import from_scenario
from gang_tools.simulate.scenario import Scenario
from tests.documents import (
    DOCUMENTS,
    ROOT,
    Block,
    anchors,
    blocks,
    inline,
    links,
    objects,
    words_of,
)
from tests.harness import kustomize
from tests.harness import objects as objects_of_tests
from tests.harness.toolchain import KUBERNETES

NAMES = {path: str(path.relative_to(ROOT)) for path in DOCUMENTS}
EACH = pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES.values())


def test_the_readme_is_short_and_its_first_commands_are_the_two_of_a_developer() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    commands = [line.split("#")[0].strip() for line in lines[:12] if line.startswith("$ ")]
    assert commands == ["$ make demo", "$ make test"]
    assert "Python ≥ 3.11" in "".join(lines[:12])


@EACH
def test_links_lead_to_files_and_headings(path: Path) -> None:
    for link in links(path):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


TOPS = "manifests|docs|overlays|scheduler-config|extender|tests"


def patterns(path: Path) -> Iterator[str]:
    """Yield the paths of a checkout that a document names in code."""
    for word in (word for each in inline(path) for word in each.split()):
        if re.fullmatch(rf"({TOPS})/[\w./*{{}},-]*", word):
            options = re.search(r"\{(.*)\}", word)
            for choice in options[1].split(",") if options else [""]:
                yield re.sub(r"\{.*\}", choice, word).removesuffix("/")


@EACH
def test_paths_are_there(path: Path) -> None:
    missing = [each for each in patterns(path) if not list(ROOT.glob(each))]
    assert missing == []


# -- YAML

FRAGMENTS = {
    "spec", "readinessGates", "extenders", "resources", "patches", "- urlPrefix", "scrape_configs",
}  # fmt: skip
"""First words of YAML that is a part of some object."""
ELSEWHERE = ("kubeadm.k8s.io/", "kubescheduler.config.k8s.io/", "kustomize.config.k8s.io/")
"""What is no object of the API server."""


SCENARIO = {to_camel(name) for name in Scenario.model_fields}
NODES = [{"allocatable": {"cpu": 4}}]
"""For a part of a scenario that says none."""


def yaml_blocks() -> list[Block]:
    return [block for block in blocks("yaml") if block.parts]


@pytest.mark.parametrize("block", yaml_blocks(), ids=str)
def test_yaml_is_an_object_or_settings_or_a_known_part(block: Block, tmp_path: Path) -> None:
    for part in block.parts:
        first = "- urlPrefix" if isinstance(part, list) else next(iter(part))
        if first in FRAGMENTS or "apiVersion" in part:
            continue
        if first == "mode":
            continue  # values of the chart, which tests/cluster/test_chart.py renders
        if part.keys() <= SCENARIO:
            scenario = Scenario.model_validate({"nodes": NODES, **part})
            assert from_scenario.world_of(scenario).nodes
            continue
        path = tmp_path / "settings.yaml"
        path.write_text(yaml.safe_dump(part))
        assert load(path, {}) != Settings(), f"{block} sets nothing"


@pytest.mark.parametrize("each", [pytest.param(each, id=name) for name, each in objects().items()])
def test_objects_are_of_kinds_that_are_known(each: dict[str, Any]) -> None:
    schema = schema_for(each["apiVersion"], each["kind"])
    if schema is not None:
        assert [*faults(each, schema)] == []
    elif each["apiVersion"].startswith("kueue.x-k8s.io") or "scheduling" in each["apiVersion"]:
        assert each["apiVersion"].startswith(ELSEWHERE)
    if each["kind"] == "ConfigMap":
        for text in each["data"].values():
            assert yaml.safe_load(text).keys() <= Settings.model_fields.keys()


def test_the_example_of_settings_is_taken() -> None:
    assert load(ROOT / "docs/examples/settings.yaml", {}).queue.require_room


def overlays() -> dict[str, Any]:
    """Return the overlays that the pages show, by what they are built on."""
    found = (each for each in objects().values() if each["kind"] == "Kustomization")
    return {resource: each for each in found for resource in each["resources"]}


def test_the_overlay_of_a_managed_cluster_names_each_image(tmp_path: Path) -> None:
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    folder = tmp_path / "my-cluster"
    folder.mkdir()
    shown = overlays()["../manifests/second-scheduler"]
    (folder / kustomize.FILE).write_text(yaml.safe_dump(shown))

    images = {
        each["image"]
        for deployment in kustomize.build(folder)
        if deployment["kind"] == "Deployment"
        for each in deployment["spec"]["template"]["spec"]["containers"]
    }
    tag = next(each["newTag"] for each in shown["images"] if "newName" not in each)
    assert images == {
        "registry.example.com/gang-extender:0.1.0",
        f"registry.k8s.io/kube-scheduler:{tag}",
    }
    assert tag == f"v{KUBERNETES}"


def test_the_overlay_of_the_pages_names_the_image_and_gives_the_settings(tmp_path: Path) -> None:
    overlay = overlays()["../manifests"]
    [patches] = [
        part["patches"]
        for block in yaml_blocks()
        for part in block.parts
        if "patches" in part and "kind" not in part
    ]
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    folder = tmp_path / "my-cluster"
    folder.mkdir()
    (folder / kustomize.FILE).write_text(yaml.safe_dump({**overlay, "patches": patches}))

    [deployment] = [each for each in kustomize.build(folder) if each["kind"] == "Deployment"]

    spec = deployment["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["image"] == "registry.example.com/gang-extender:0.1.0"
    [config] = [each for each in container["args"] if each.startswith("--config=")]
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert config.removeprefix("--config=").startswith(mounted["settings"])
    assert {each["name"] for each in spec["volumes"]} >= mounted.keys()


def test_the_overlay_of_an_extender_over_the_network_names_its_node(tmp_path: Path) -> None:
    for top in ("manifests", "overlays"):
        (tmp_path / top).symlink_to(ROOT / top)
    folder = tmp_path / "my-cluster"
    folder.mkdir()
    shown = overlays()["../overlays/remote-cert-manager"]
    (folder / kustomize.FILE).write_text(yaml.safe_dump(shown))

    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in kustomize.build(folder)
        if each["kind"] == "Deployment"
    }
    assert pods["gang-extender"]["nodeName"] == "node-1"
    images = {pod["containers"][0]["image"] for pod in pods.values()}
    assert images == {"registry.example.com/gang-extender:0.1.0"}


# -- commands

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
KUBECTL = {
    "apply", "delete", "get", "describe", "patch", "rollout", "port-forward", "create", "edit",
    "label", "taint", "logs", "exec", "annotate",
}  # fmt: skip
OTHERS = {"docker", "kind", "curl", "cp", "chown", "chmod", "kubeadm", "base64", "openssl"}
OTHERS |= {"printf", "pre-commit", "helm", "grep", "sed"}
COMMANDS = {
    f"{block} {' '.join(words)}": words for block in blocks("console") for words in block.commands
} | {
    f"{NAMES[path]} {' '.join(words)}": words
    for path in DOCUMENTS
    for each in inline(path)
    for words in words_of(each)
    if re.match(r"(gang-extender|make|kubectl) [a-z-]", each) and "NAME" not in each
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_can_be_given(words: list[str]) -> None:
    match [*dropwhile(lambda word: re.match(r"\w+=", word), words)]:
        case ["make", *targets]:
            assert {each for each in targets if "=" not in each} <= TARGETS
            folders = (ROOT / "tests/bench", ROOT / "gang_tools/cli")
            files = [path for folder in folders for path in folder.rglob("*.py")]
            programs = "".join(path.read_text() for path in files)
            for option in re.findall(r"--[a-z-]+", " ".join(targets)):
                name = option.removeprefix("--").replace("-", "_")
                assert re.search(rf"\b{name}: ", programs) or option == "--help", option
        case ["gang-extender", *arguments]:
            parse(arguments)
        case ["kubectl", "gang", *arguments]:
            parse(arguments, plugin)
        case ["kubectl", *arguments]:
            kubectl(arguments)
        case [program, *_]:
            assert program in OTHERS or program.startswith(".venv/bin/"), program
        case _:
            pass  # an assignment alone


def parse(arguments: list[str], program: typer.Typer = app) -> None:
    """Read a command line as a program would, and run nothing; a usage error if it cannot."""
    command: Any = typer.main.get_command(program)
    with command.make_context("gang-extender", [], resilient_parsing=True) as context:
        while isinstance(command, TyperGroup) and arguments and arguments[0][0] != "-":
            found = command.get_command(context, arguments[0])
            assert found is not None, f"there is no command {arguments[0]}"
            command, arguments = found, arguments[1:]
        arguments = [each for each in arguments if each not in {"--help", "--version"}]
        is_named_only = not arguments
        command.make_context("command", arguments, resilient_parsing=is_named_only)


@pytest.mark.parametrize(
    "wrong", ["rendr", "explain job a --nn b", "render settings a", "serve --what"]
)
def test_a_wrong_command_cannot_be_given(wrong: str) -> None:
    with pytest.raises(Exception, match=r"there is no|No such option|unexpected extra"):
        parse(wrong.split())


RUN = {
    " ".join(words): words
    for words in COMMANDS.values()
    if words[:2] == ["gang-extender", "render"]
    or (words[:2] == ["gang-extender", "simulate"] and "docs/examples/two-gangs.yaml" in words)
}


NAMED_ONLY = (["gang-extender", "render"], ["gang-extender", "render", "static-pod"])


@pytest.mark.parametrize("words", [x for x in RUN.values() if x not in NAMED_ONLY], ids=str)
def test_a_command_that_needs_no_cluster_is_run(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `render` and `simulate`: the others need a cluster, and run in the cluster tests."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(objects_of_tests.job("job", 2)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs/examples"))
    scheduler = "/etc/kubernetes/manifests/kube-scheduler.yaml"  # a file of kubeadm's
    kubeadm = str(ROOT / "tests/harness/kubeadm/kube-scheduler.yaml")
    words = [kubeadm if word == scheduler else word for word in words]
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.output


def test_the_readme_shows_what_the_simulation_prints() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    shown = [line for line in lines if "jobs started" in line]
    result = CliRunner().invoke(app, ["simulate", str(ROOT / "docs/examples/two-gangs.yaml")])
    assert len(shown) == 2
    assert set(shown) <= set(result.output.splitlines())


def kubectl(arguments: list[str]) -> None:
    """Check the verb, and the files that are named."""
    plain = [each for each in arguments if not each.startswith("-")]
    plain = plain[1:] if arguments[0] == "-n" else plain
    assert plain[0] in KUBECTL, arguments
    for flag, value in pairwise(arguments):
        if flag in ("-f", "-k") and value not in ("-", "my-cluster/"):
            assert (ROOT / value).exists(), value


# -- words of the API

SETTING = re.compile(r"(listen|gang|reconcile|queue|webhooks|kube|health|log)\.(\w+)(\.\w+)?")


def settings() -> set[str]:
    """Return the full names of all settings, as the reference has them."""
    page = (ROOT / "docs/configuration.md").read_text()
    return set(re.findall(r"^\| `([\w.]+)`", page, re.MULTILINE))


@EACH
def test_settings_that_are_named_exist(path: Path) -> None:
    known = settings()
    named = {each.partition(":")[0] for each in inline(path) if SETTING.match(each)}
    files = {each for each in named if re.search(r"\.(md|py|yaml|sh)$|x-k8s\.io", each)}
    assert named - files <= known


def test_every_reason_and_phase_is_explained() -> None:
    named = set(inline(ROOT / "docs/reference/reasons.md"))
    enums: list[type[StrEnum]] = [
        each
        for each in vars(reasons).values()
        if isinstance(each, type) and issubclass(each, StrEnum)
    ]
    words = {str(word) for each in enums for word in each}
    words |= {*Phase, *ConditionType, *WorkloadCondition} - {Phase.UNKNOWN}
    assert len(words) > 100
    assert {word for word in words if word not in named} == set()


def test_every_label_and_annotation_is_explained() -> None:
    named = {word for each in inline(ROOT / "docs/reference/labels.md") for word in each.split()}
    values = [each for each in vars(wellknown).values() if isinstance(each, str)]
    names = {each for each in values if re.search(r"\.\w+/[\w-]", each)}
    names |= {wellknown.POD_GROUP_LABEL_SIGS}
    assert len(names) > 50
    assert names - named - {wellknown.QUEUE_API_VERSION} == set()


def test_every_metric_of_the_pages_is_exported() -> None:
    code = "".join(path.read_text() for path in (ROOT / "extender").rglob("*.py"))
    for path in DOCUMENTS:
        for name in re.findall(r"gang_extender_[a-z_]+[a-z]", path.read_text()):
            assert name.removesuffix("_total") in code, f"{NAMES[path]}: {name}"


def test_the_glossary_has_each_term_once_in_order() -> None:
    text = (ROOT / "docs/reference/glossary.md").read_text()
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", text, re.MULTILINE)
    assert len(terms) > 30
    assert terms == sorted(set(terms), key=str.lower)


def test_all_pages_together_are_short_enough_to_be_read() -> None:
    pages = [path for path in DOCUMENTS if path.name != "AGENTS.md"]
    words = [word for path in pages for word in path.read_text().split() if word != "|"]
    assert len(words) <= 40_000


# -- decisions

DECISIONS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))


@pytest.mark.parametrize("path", DECISIONS, ids=[path.name for path in DECISIONS])
def test_a_decision_is_short_and_has_its_status(path: Path) -> None:
    text = path.read_text()
    assert len(text.split()) <= 300
    number = int(path.name[:4])
    assert re.match(rf"# {number}\. .+\n\nStatus: (accepted|superseded)[,. ]", text)
    for heading in ("Context", "Decision", "Alternatives", "Consequences"):
        assert f"\n## {heading}\n" in text


def test_the_index_has_every_decision_with_its_title_and_a_status_if_not_accepted() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    for path in DECISIONS:
        title, status = path.read_text().split("\n\nStatus: ", 1)
        word = re.split(r"[,. ]", status)[0]
        mark = "" if word == "accepted" else f" ({word})"
        assert f"- [{title.removeprefix('# ')}]({path.name}){mark}\n" in index
    assert index.count("\n- [") == len(DECISIONS)


def test_every_decision_that_the_code_names_is_there() -> None:
    numbers = {int(path.name[:4]) for path in DECISIONS}
    places = [*(ROOT / "extender").rglob("*.py"), *(ROOT / "gang_tools").rglob("*.py"), *DOCUMENTS]
    for path in places:
        text = re.sub(r"\s+", " ", path.read_text())
        for said in re.findall(r"[Dd]ecisions? (\d+(?:(?:,| and) \d+)*)", text):
            assert {int(each) for each in re.findall(r"\d+", said)} <= numbers, path


# -- samples of jobs

KINDS = {each.kind: each for each in builtin().values()}
WANT_JOBS = {
    "job.yaml": {"main": 3},
    "jobset.yaml": {"driver": 1, "workers": 4},
    "pytorchjob.yaml": {"master": 1, "worker": 2},
    "raycluster.yaml": {"head": 1, "workers": 2},
    "rayjob.yaml": {"head": 1, "workers": 2, "submitter": 1},
    "appwrapper.yaml": {"sample-appwrapper-0": 2},
    "sparkapplication.yaml": {"driver": 1, "executor": 2},
    "trainjob.yaml": {},  # its pods are those of its runtime
}
SAMPLES = ROOT / "manifests/samples"


@pytest.mark.parametrize(("name", "want"), WANT_JOBS.items(), ids=WANT_JOBS)
def test_a_sample_job_asks_for_its_pods_in_a_queue_of_the_samples(
    name: str, want: dict[str, int]
) -> None:
    [source] = yaml.safe_load_all((SAMPLES / "jobs" / name).read_text())
    job = KINDS[source["kind"]].wrap(source)

    assert job.is_suspended()
    assert {each.name: each.count for each in job.pod_sets()} == want
    assert source["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] in local_queues()


def test_the_sample_pods_are_gated_and_counted() -> None:
    pods = list(yaml.safe_load_all((SAMPLES / "jobs/pods.yaml").read_text()))
    assert {path.name for path in (SAMPLES / "jobs").iterdir()} == {*WANT_JOBS, "pods.yaml"}
    for pod in pods:
        labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        assert labels["kueue.x-k8s.io/queue-name"] in local_queues()
        assert annotations["kueue.x-k8s.io/pod-group-total-count"] == str(len(pods))
        assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]


def local_queues() -> set[str]:
    return {
        each["metadata"]["name"]
        for path in SAMPLES.glob("*.yaml")
        for each in yaml.safe_load_all(path.read_text())
        if each["kind"] == "LocalQueue"
    }


# -- the project's own files


def test_the_license_is_the_one_that_is_declared() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
    assert 'licenses="Apache-2.0"' in (ROOT / "Dockerfile").read_text()


def test_hooks_run_the_tools_of_the_environment_and_fetch_nothing() -> None:
    said = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in said["repos"]] == ["local"]
    for hook in said["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")
