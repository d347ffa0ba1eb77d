"""`gang-extender snapshot` of a process on a real socket, and what is read from the file."""

import json
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from fastapi import FastAPI
from typer.testing import CliRunner, Result

from extender.config.settings import Settings
from extender.runtime.clock import Pacer, SystemClock
from extender.server.access import Guard
from extender.server.health import add_snapshot
from extender.wiring.memory import header
from gang_tools.cli.main import app
from gang_tools.snapshot import file
from gang_tools.snapshot.file import ObjectSource, Snapshot, StoppedClock, opened
from tests.harness import objects
from tests.protocol.served import served
from tests.snapshots import NODES, NOW, POD_GROUPS, PODS, snapshot_of
from tests.unit.server.scene import Reviewer


def made(*, guarded: bool = False) -> FastAPI:
    """Return an application that serves what an extender remembers."""
    clock, settings = SystemClock(), Settings.model_validate({"gang": {"agingSeconds": 7}})
    memory = header("extender", settings, now=NOW, watches={}, unready="")
    guard = Guard(Reviewer("known", allows=lambda *_: True)) if guarded else None
    found = FastAPI()
    add_snapshot(found, lambda: {**memory, "host": "here"}, pacer=Pacer(clock), guard=guard)
    return found


@pytest.fixture
def url() -> Iterator[str]:
    with served(made) as found:
        yield found


@pytest.fixture(autouse=True)
def _api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the lists of a gang that lacks a pod where the API server would be asked."""
    pods = [objects.pod(f"g-{n}", namespace="ns", group="g") for n in range(2)]
    for pod in pods:
        pod["metadata"]["uid"] = pod["metadata"]["name"]
    group = objects.pod_group("g", 3)
    group["metadata"]["namespace"] = "ns"
    there = snapshot_of({NODES: [objects.node("n0")], PODS: pods, POD_GROUPS: [group]})

    @asynccontextmanager
    async def beside(
        kubeconfig: Path | None, snapshot: Snapshot | None, _context: str | None = None
    ) -> AsyncIterator[ObjectSource]:
        if snapshot is None:
            yield ObjectSource(there, StoppedClock(NOW))
            return
        async with opened(kubeconfig, snapshot) as source:
            yield source

    monkeypatch.setattr(file, "opened", beside)


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})


def test_a_file_is_written_and_explained(url: str, tmp_path: Path) -> None:
    for name in ("a.json", "a.json.gz"):
        done = run("snapshot", "--url", url, "-o", tmp_path / name)
        assert (done.exit_code, done.stderr) == (0, "")
        assert "extender here" in done.stdout
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600

    assert (tmp_path / "a.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert json.loads((tmp_path / "a.json").read_bytes())["kind"] == "Snapshot"
    assert {*tmp_path.iterdir()} == {tmp_path / "a.json", tmp_path / "a.json.gz"}
    for name in ("a.json", "a.json.gz"):
        path = tmp_path / name
        found = run("explain", "podgroup", "g", "-n", "ns", "--from-snapshot", path, "-o", "json")
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout)["reason"] == "NotEnoughPods"
    said = run("explain", "pod", "g-0", "-n", "ns", "--from-snapshot", tmp_path / "a.json")
    assert "2 of the 3 pods that it needs exist" in " ".join(said.stdout.split())


def test_a_simulation_begins_with_the_file(url: str, tmp_path: Path) -> None:
    path, manifest = tmp_path / "a.json", tmp_path / "job.yaml"
    assert run("snapshot", "--url", url, "-o", path).exit_code == 0
    manifest.write_text(yaml.safe_dump(objects.job("asked", 1, cpu="1")))
    for words in (("simulate", "--submit", manifest), ("explain", "job", "-f", manifest)):
        done = run(*words, "--from-snapshot", path, "--assume", "1m")
        assert done.exit_code == 0, done.output
        assert "It would start now." in done.output


def test_the_settings_of_the_file_are_those_of_the_process(url: str, tmp_path: Path) -> None:
    path, config = tmp_path / "a.json", tmp_path / "config.yaml"
    assert run("snapshot", "--url", url, "-o", path).exit_code == 0
    assert json.loads(path.read_bytes())["settings"]["gang"]["agingSeconds"] == 7
    config.write_text("gang: {agingSeconds: none}")
    asked = ("explain", "podgroup", "g", "-n", "ns", "--from-snapshot", path)
    assert "agingSeconds" in run(*asked, "--config", config).stderr, "those of a file come first"


def test_without_a_name_the_file_has_that_of_the_process_and_the_time(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("snapshot", "--url", url).exit_code == 0
    assert [each.name for each in tmp_path.iterdir()] == ["extender-20010909T014640Z.json.gz"]


def test_standard_output_has_the_document_alone(url: str) -> None:
    done = run("snapshot", "--url", url, "-o", "-")
    assert json.loads(done.stdout)["memory"]["process"] == "extender"


def test_a_token_is_sent_and_a_refusal_says_what_is_needed(tmp_path: Path) -> None:
    token, path = tmp_path / "token", tmp_path / "a.json"
    token.write_text("known\n")
    with served(lambda: made(guarded=True)) as url:
        refused = run("snapshot", "--url", url, "-o", path)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "401: a bearer token is required; it needs the right to get" in refused.stderr
        assert not path.exists()

        assert run("snapshot", "--url", url, "-o", path, "--token-file", token).exit_code == 0


def test_what_is_wrong_is_said(url: str, tmp_path: Path) -> None:
    text, half = tmp_path / "text", tmp_path / "half.json.gz"
    text.write_text("no snapshot")
    assert run("snapshot", "--url", url, "-o", half).exit_code == 0
    half.write_bytes(half.read_bytes()[:-20])
    with served(FastAPI) as other:
        cases = [
            (("snapshot", "--url", "ftp://x"), 1, " ftp://x: it is no URL such as http:"),
            (("snapshot", "--url", "http://127.0.0.1:1"), 1, " http://127.0.0.1:1: [Errno 111]"),
            (("snapshot", "--url", other), 1, "404: "),
            (("snapshot", "--process", "kubelet"), 2, "kubelet"),
            (("explain", "pod", "a", "--from-snapshot", text), 1, "it is no snapshot"),
            (("explain", "job", "a", "--from-snapshot", half), 1, "no whole gzip file"),
            (("explain", "job", "a", "--from-snapshot", tmp_path / "none"), 1, "none"),
        ]
        for words, code, text_of_error in cases:
            done = run(*words)
            assert (done.exit_code, done.stdout) == (code, ""), words
            assert text_of_error in done.stderr, words
