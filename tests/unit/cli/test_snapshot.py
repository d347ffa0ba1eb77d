"""`gang-extender snapshot` of a process on a real socket, and `explain` of the file."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from typer.testing import CliRunner, Result

from extender.cli.main import app
from extender.gang.options import GangOptions
from extender.kube.reviews import Access, User
from extender.runtime.clock import SystemClock
from extender.runtime.pacer import Pacer
from extender.server.access import Guard
from extender.server.snapshot import SnapshotSource, add_snapshot
from extender.snapshot.header import SnapshotHeader
from extender.snapshot.writing import Belief
from extender.wiring.snapshots import load
from tests.makers import cluster_of, nodes, pod_group, pods
from tests.protocol.served import served


class Reviewer:
    """Knows one user, that may do all."""

    async def user(self, token: str) -> User | None:
        return User("debugger") if token == "known" else None

    async def may(self, user: User, access: Access) -> bool:
        return True


def made(*, guarded: bool = False) -> FastAPI:
    """Return an application that serves a snapshot of a gang that lacks a pod."""
    cluster, clock = cluster_of(nodes(4), pod_group("g", 3), pods(2, group="g")), SystemClock()
    header = SnapshotHeader("extender", 1e9, host="here")
    belief = Belief(header, GangOptions(), cluster.copied(), groups=())
    guard = Guard(Reviewer(), clock) if guarded else None
    found = FastAPI()
    add_snapshot(found, SnapshotSource(lambda: belief, Pacer(clock), guard))
    return found


@pytest.fixture
def url() -> Iterator[str]:
    with served(made) as found:
        yield found


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
        file = tmp_path / name
        found = run("explain", "podgroup", "g", "-n", "ns", "--from-snapshot", file, "-o", "json")
        assert found.exit_code == 0, found.output
        assert (json.loads(found.stdout)["source"], json.loads(found.stdout)["reason"]) == (
            "Extender",
            "NotEnoughPods",
        )
    said = run("explain", "pod", "g-0", "-n", "ns", "--from-snapshot", tmp_path / "a.json")
    assert "2 of the 3 pods that it needs exist" in " ".join(said.stdout.split())


def test_without_a_name_the_file_has_that_of_the_process_and_the_time(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run("snapshot", "--url", url, "--redact").exit_code == 0

    [file] = tmp_path.iterdir()
    assert file.name == "extender-20010909T014640Z.json.gz"
    assert load(file).header.redacted
    assert all(pod.namespace != "ns" for pod in load(file).cluster.view().pods.values())


def test_standard_output_has_the_document_alone(url: str) -> None:
    done = run("snapshot", "--url", url, "-o", "-")
    assert json.loads(done.stdout)["header"]["process"] == "extender"


def test_a_token_is_sent_and_a_refusal_says_what_is_needed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("known\n")
    file = tmp_path / "a.json"
    with served(lambda: made(guarded=True)) as url:
        refused = run("snapshot", "--url", url, "-o", file)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "401: a bearer token is required; it needs the right to get" in refused.stderr
        assert not file.exists()

        assert run("snapshot", "--url", url, "-o", file, "--token-file", token).exit_code == 0


def test_what_is_wrong_is_said(url: str, tmp_path: Path) -> None:
    text, half = tmp_path / "text", tmp_path / "half.json.gz"
    text.write_text("no snapshot")
    assert run("snapshot", "--url", url, "-o", half).exit_code == 0
    half.write_bytes(half.read_bytes()[:-20])
    with served(FastAPI) as other:
        cases = [
            (("snapshot", "--url", "ftp://x"), 1, "is no URL such as http://127.0.0.1:8888"),
            (("snapshot", "--url", "http://127.0.0.1:1"), 1, "refused"),
            (("snapshot", "--url", other), 1, "404: "),
            (("snapshot", "--process", "kubelet"), 2, "kubelet"),
            (("explain", "pod", "a", "--from-snapshot", text), 1, "no whole JSON document"),
            (("explain", "job", "a", "--from-snapshot", half), 1, "no whole gzip file"),
            (("explain", "job", "a", "--from-snapshot", tmp_path / "none"), 1, "none"),
            (
                ("explain", "pod", "a", "--from-snapshot", text, "--config", text),
                2,
                "leave out --config",
            ),
        ]
        for words, code, text_of_error in cases:
            done = run(*words)
            assert (done.exit_code, done.stdout) == (code, ""), words
            assert text_of_error in done.stderr, words
