"""The lessons of the tutorial, played from their own text in the playground of the first one."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.documents import ROOT, Step
from tests.harness.client import PATIENCE_SECONDS, pauses
from tests.harness.process import Component, free_port

LESSONS: Final = sorted((ROOT / "docs/tutorial").glob("*.md"))
PLAYGROUND: Final = "make playground"
PAGE: Final = "gang-extender page"
"""It runs until Ctrl-C, in a terminal of its own."""
_ONLY_LOOKS: Final = ("kubectl get ", "kubectl describe ", "gang-extender ")
"""The first words of commands that are repeated until they print what the lesson shows."""
_MADE: Final = "pods,jobs,podgroups,workloads,localqueues,clusterqueues,resourceflavors"
_PAGE_PORT: Final = "8890"

_Ended = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal into which the line of the playground was pasted."""

    line: str
    folder: Path

    @classmethod
    @contextmanager
    def beside_playground(cls, folder: Path) -> Iterator[Self]:
        """Run the playground of the first lesson, with its log in a folder."""
        log = folder / "playground.log"
        with Component("playground", _playground(), log_path=log) as playground:

            def is_up() -> bool:
                assert playground.running, playground.tail(60)
                return "Ctrl-C" in log.read_text()

            assert await_until(is_up, 3 * PATIENCE_SECONDS), playground.tail(60)
            [line] = [each for each in log.read_text().splitlines() if "export KUBECONFIG" in each]
            yield cls(line, folder)
            playground.stop(PATIENCE_SECONDS)

    def run(self, command: str) -> _Ended:
        """Return how a command ended."""
        return subprocess.run(
            self._shell(command),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    def _shell(self, command: str) -> list[str]:
        return ["bash", "-c", f"{self.line}\n{command}"]

    @contextmanager
    def playing(self) -> Iterator[Callable[[Step], str]]:
        """Play the steps of a lesson; each has to print what the text shows.

        A step gives what it printed; for the page that is its address.
        """
        with ExitStack() as stack:
            try:
                yield lambda step: self._play(step, stack)
                assert await_until(lambda: not self._left()), self._left()
            finally:
                self.run("kubectl delete jobs --all")
                self.run("kubectl delete -f docs/tutorial --ignore-not-found")

    def _left(self) -> str:
        """Return the names of what lessons make, where there is any of it."""
        return self.run(f"kubectl get {_MADE} --all-namespaces -o name").stdout

    def _play(self, step: Step, stack: ExitStack) -> str:
        if step.command == PLAYGROUND:
            return ""
        if step.command == PAGE:
            return stack.enter_context(self._page(step))
        ended = self.run(step.command)

        def is_as_shown() -> bool:
            nonlocal ended
            ended = self.run(step.command)
            return _is_right(step, ended)

        if step.command.startswith(_ONLY_LOOKS) and not _is_right(step, ended):
            await_until(is_as_shown)
        said, shown = ended.stdout + ended.stderr, "\n".join(step.shown)
        assert _is_right(step, ended), f"{step.command}\n{said}\nshown:\n{shown}"
        return ended.stdout

    @contextmanager
    def _page(self, step: Step) -> Iterator[str]:
        """Run the page on a port that is free."""
        port, log = free_port(), self.folder / "page.log"
        shown = tuple(line.replace(_PAGE_PORT, str(port)) for line in step.shown)
        assert shown != step.shown
        command = self._shell(f"exec {step.command} --port {port}")
        with Component("page", command, log_path=log) as page:
            there = Step(step.command, shown)
            assert await_until(lambda: there.is_shown_by(log.read_text())), page.tail(60)
            yield f"http://127.0.0.1:{port}"


def _playground() -> list[str]:
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


def _is_right(step: Step, ended: _Ended) -> bool:
    return ended.returncode == 0 and (not step.shown or step.is_shown_by(ended.stdout))


def await_until(predicate: Callable[[], bool], seconds: float = PATIENCE_SECONDS / 2) -> bool:
    """Return whether a predicate becomes true in time."""
    deadline, pause = time.monotonic() + seconds, pauses()
    while not (value := predicate()) and time.monotonic() < deadline:
        time.sleep(next(pause))
    return value
