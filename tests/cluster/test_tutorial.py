"""Each lesson of the tutorial can be followed to the letter, and shows what is seen.

The commands and what they print are read from the lessons, and played in a playground as they say.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.documents import ROOT, Step, steps
from tests.harness.client import PATIENCE_SECONDS, pauses
from tests.harness.process import Component

LESSONS = sorted((ROOT / "docs/tutorial").glob("*.md"))
PLAYGROUND = "make playground"
ONLY_LOOKS = ("kubectl get ", "kubectl describe ", "gang-extender ")
"""How commands begin that the lessons say to give again until they show what is to be seen."""
MADE = "pods,jobs,podgroups,workloads,localqueues,clusterqueues,resourceflavors"

Ended = subprocess.CompletedProcess[str]
Run = Callable[[str], Ended]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A second terminal, beside the one with the playground."""
    log: Path = tmp_path_factory.mktemp("playground") / "log"
    with Component("playground", playground(), log_path=log) as first:

        def is_up() -> bool:
            assert first.running, first.tail(60)
            return "Ctrl-C" in log.read_text()

        assert await_until(is_up, PATIENCE_SECONDS), first.tail(60)
        [line] = [each for each in log.read_text().splitlines() if "export KUBECONFIG=" in each]

        def run(command: str) -> Ended:
            return subprocess.run(
                ["bash", "-c", f"{line}\n{command}"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_SECONDS,
            )

        yield run
        first.stop(PATIENCE_SECONDS)


def playground() -> list[str]:
    """Return what `make playground` runs once everything is built."""
    said = subprocess.run(
        [*shlex.split(PLAYGROUND), "--dry-run", "--no-print-directory"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "MAKEFLAGS"},
        capture_output=True,
        text=True,
        check=True,
    )
    program, *words = shlex.split(said.stdout.splitlines()[-1])
    return [str(Path(sys.executable).parent / Path(program).name), *words]


def await_until(predicate: Callable[[], bool], seconds: float) -> bool:
    """Return whether a predicate becomes true in time."""
    deadline, pause = time.monotonic() + seconds, pauses()
    while not (value := predicate()) and time.monotonic() < deadline:
        time.sleep(next(pause))
    return value


def test_the_tutorial_begins_with_a_playground() -> None:
    commands = [step.command for lesson in LESSONS for step in steps(lesson)]
    assert commands.index(PLAYGROUND) == 0
    assert commands.count(PLAYGROUND) == 1


@pytest.mark.parametrize("lesson", LESSONS, ids=[each.stem for each in LESSONS])
def test_a_lesson_can_be_followed_to_the_letter(lesson: Path, run: Run) -> None:
    try:
        for step in steps(lesson):
            if step.command != PLAYGROUND:
                play(step, run)
        assert await_until(lambda: not left(run), PATIENCE_SECONDS / 2), left(run)
    finally:
        run("kubectl delete jobs --all; kubectl delete -f docs/tutorial --ignore-not-found")


def play(step: Step, run: Run) -> None:
    """Give a command once; where it only looks, until it prints what is shown."""
    ended = run(step.command)

    def is_as_shown() -> bool:
        nonlocal ended
        ended = run(step.command)
        return is_right(step, ended)

    if step.command.startswith(ONLY_LOOKS) and not is_right(step, ended):
        await_until(is_as_shown, PATIENCE_SECONDS / 2)
    shown = "\n".join(step.shown)
    assert is_right(step, ended), f"{step.command}\n{ended.stdout}{ended.stderr}\nshown:\n{shown}"


def left(run: Run) -> str:
    """Return the names of what lessons make, where there is any of it."""
    return run(f"kubectl get {MADE} --all-namespaces -o name").stdout


def is_right(step: Step, ended: Ended) -> bool:
    return ended.returncode == 0 and (not step.shown or step.is_shown_by(ended.stdout))
