"""`gang-extender demo` as a user runs it."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.harness.gang_scheduler import ROOT
from tests.harness.started import fetch
from tests.tiers import LONG

DEMO = (sys.executable, "-m", "gang_tools", "demo")
SECONDS = 400
CONTROL_CHARACTERS = {chr(number) for number in range(32)} - {"\n"}
# FORCE_COLOR asks for colours even in a pipe; the demo must not listen.
ENVIRONMENT = {**os.environ, "FORCE_COLOR": "1", "PYTHONUTF8": "1"}


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=ROOT,
        env={**ENVIRONMENT, **env},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def until(lines: Iterable[str], text: str) -> list[str]:
    """Return the lines before the first one with a text."""
    found: list[str] = []
    for line in lines:
        if text in line:
            return found
        found.append(line)
    raise AssertionError(f"no line with {text}: {found}")


def cells(output: str) -> list[list[str]]:
    """Return the rows of the table at the end, the lines of a cell joined by one space."""
    rows: list[list[str]] = []
    for line in output.splitlines():
        if not line.startswith("\u2502"):
            continue
        row = [cell.strip() for cell in line.split("\u2502")[1:-1]]
        if row[0]:
            rows.append(row)
        else:
            rows[-1] = [" ".join(filter(None, both)) for both in zip(rows[-1], row, strict=True)]
    return rows


@LONG
def test_the_story_ends_and_every_step_is_as_expected() -> None:
    done = run(*DEMO)

    assert done.returncode == 0, done.stdout + done.stderr
    assert not CONTROL_CHARACTERS & set(done.stdout)
    rows = cells(done.stdout)
    assert {row[-1] for row in rows} == {"yes"}
    seen = {(scene, step): seen for scene, step, _, seen, *_ in rows}
    assert seen["1", "nginx runs"] == "4 Running, 2 Pending"
    assert seen["2", "nginx waits"] == "0 Running, 6 Pending"
    assert seen["2", "kubectl describe says why"].startswith("3 of the 4 pods")
    assert seen["2", "nginx runs"] == "4 Running, 2 Pending"
    assert seen["3a", "and so it stays"] == "blue 3 of 4, green 3 of 4"
    assert seen["3b", "one gang runs"] in {"blue 4 of 4, green 0 of 4", "green 4 of 4, blue 0 of 4"}
    assert seen["4b", "its PodGroup says why it waits"] == "NeverFits"
    assert seen["4b", "no pod of it starts alone"] == "0 Running, 4 Pending"
    assert seen["4b", "urgent takes the quota"] == "urgent Admitted, train Evicted"
    assert seen["4b", "the gang has stopped as a whole"] == "0"
    assert seen["4b", "it runs again"] == "4 Running, 0 Pending"
    for scene, names, why in (
        ("4a", ("first", "second"), "WaitingForQuota, 3 more needed"),
        (
            "4c",
            ("left", "right"),
            "WaitingForRoom, quota yes; room for 2 of 4: 6 cpu short on 6 nodes",
        ),
    ):
        one, other = names if seen[scene, "one is admitted"].startswith(names[0]) else names[::-1]
        assert seen[scene, "one is admitted"] == f"{one} Admitted, {other} Waiting"
        assert seen[scene, f"why {other} waits"] == why
        assert seen[scene, f"{other} has no pods"] == f"{other} Waiting, 0 pods"
        assert seen[scene, "both are through"] == f"{one} Finished, {other} Finished"
    steps = Counter(scene for scene, *_ in rows)
    assert steps == {"1": 1, "2": 4, "3a": 2, "3b": 5, "4a": 7, "4b": 10, "4c": 7}
    assert f"All {steps.total()} steps were as expected" in done.stdout


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children that these signals end: in the background tests ignore SIGINT, and nohup SIGHUP."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    hung_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGHUP, hung_up)


@LONG
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("option", "last", "urls", "ends", "codes"),
    [
        ("--page", "Scene 1", 1, [signal.SIGINT], {130}),
        ("--playground", "Ctrl-C", 0, [signal.SIGINT], {0}),
        # Two threads may take one signal each, and the second may be the first to report it.
        ("--playground", "Ctrl-C", 0, [signal.SIGHUP, signal.SIGTERM], {129, 143}),
    ],
    ids=["page", "playground", "closed terminal"],
)
def test_its_end_leaves_nothing_and_ctrl_c_fails_only_a_story(
    option: str, last: str, urls: int, ends: list[signal.Signals], codes: set[int]
) -> None:
    with subprocess.Popen(
        (*DEMO, option), cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        found = [line.split()[-1] for line in until(demo.stdout, last) if "browser" in line]
        assert len(found) == urls
        assert {fetch(f"{url}/queues").status_code for url in found} <= {httpx.codes.OK}
        children = psutil.Process(demo.pid).children(recursive=True)
        [etcd] = [child for child in children if child.name() == "etcd"]
        [data] = [word for word in etcd.cmdline() if word.startswith("--data-dir=")]
        folder = Path(data.removeprefix("--data-dir=")).parent
        assert folder.is_dir()

        for each in ends:
            demo.send_signal(each)
        demo.communicate(timeout=SECONDS)

    assert demo.returncode in codes
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    assert not folder.exists()


def test_without_the_source_tree_it_says_where_it_runs() -> None:
    hide = "import sys; sys.modules['tests'] = None; from gang_tools.cli.main import main; main()"

    done = run(sys.executable, "-c", hide, "demo")

    assert done.returncode == 1
    assert "source checkout: make demo" in done.stderr


def test_without_binaries_it_fails_with_the_reason(tmp_path: Path) -> None:
    done = run(*DEMO, KUBEBUILDER_ASSETS=str(tmp_path))

    assert done.returncode == 1
    assert f"KUBEBUILDER_ASSETS={tmp_path} lacks etcd" in done.stderr
