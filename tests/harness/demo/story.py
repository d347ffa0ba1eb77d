"""The demo, or the playground, from the first process to the exit code."""

import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import httpx

from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.demo.scenes import SCENES
from tests.harness.demo.stage import Play, Scene, Screen, UnexpectedError, duration
from tests.harness.gang_scheduler import ROOT, GangScheduler
from tests.harness.process import free_port
from tests.harness.reconciler import Reconciler
from tests.harness.started import is_ready
from tests.harness.toolchain import Binaries, ToolchainError, ensure_binaries, ensure_kubectl

INTERRUPTED = 128 + signal.SIGINT
_ENDS = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end it, besides that of Ctrl-C. SIGHUP says that its terminal was closed."""

_FAILURES = (UnexpectedError, AssertionError, RuntimeError, OSError, ApiError, httpx.HTTPError)
"""What a step, the harness and the API server say when something is wrong."""


def run(*, playground: bool, page: bool) -> int:
    """Play the story and return the exit code: 0 if all was as expected, 1 if not, 130 on Ctrl-C.

    A `playground` has nodes in place of a story, and stays up until Ctrl-C ends it.
    With a `page` in the browser the end of the story stays up too.
    """
    screen = Screen()
    for each in _ENDS:
        if signal.getsignal(each) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(each, _terminated)  # so that the temporary folder goes too
    try:
        return _run(screen, playground=playground, page=page)
    except KeyboardInterrupt:
        screen.say("ended" if playground else "interrupted")
        return 0 if playground else INTERRUPTED
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 1


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    _be_deaf()
    raise SystemExit(128 + number)


def _be_deaf() -> None:
    """Ignore a second signal, which would stop the tidying up half way."""
    for each in (signal.SIGINT, *_ENDS):
        signal.signal(each, signal.SIG_IGN)


def _run(screen: Screen, *, playground: bool, page: bool) -> int:
    binaries = ensure_binaries(screen.say)
    programs = _programs(screen) if playground else ()
    started = time.monotonic()
    screen.say("etcd, kube-apiserver, kube-controller-manager and KWOK start")
    with (
        _control_plane(binaries) as control_plane,
        Api(control_plane.admin_kubeconfig) as api,
    ):
        screen.say("gang-extender and the stock kube-scheduler start")
        play = Play(screen, control_plane, api)
        try:
            if page:
                _show(play)
            if playground:
                _stay(play, programs)
            play.run(SCENES)
            screen.say(f"All {len(play.steps)} steps were as expected, in {_since(started)}.")
            if page:
                screen.say("The page shows the end of the story. Ctrl-C ends it; nothing is left.")
                _wait()
        except _FAILURES as error:
            return _failed(play, error)
    return 0


def _since(started: float) -> str:
    return duration(time.monotonic() - started)


@contextmanager
def _control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    with ExitStack() as stack:
        control_plane = stack.enter_context(ControlPlane(binaries))
        try:
            yield control_plane
        finally:
            _be_deaf()
            stack.close()


def _failed(play: Play, error: Exception) -> int:
    """Show what was expected and seen, and the ends of the logs."""
    play.screen.summary(play.steps)
    text, tails = str(error), play.control_plane.tails()
    # An error of the harness may have the logs in it.
    logs = "" if "\n--- " in text else f"the ends of the logs:\n{tails}\n\n"
    print(f"\n{logs}The demo failed: {type(error).__name__}: {text}", file=sys.stderr)
    return 1


def _programs(screen: Screen) -> list[Path]:
    """Return the folders with gang-extender, and with kubectl where the user has none."""
    folders = [Path(sys.executable).parent]
    if shutil.which("kubectl") is None:
        folders.append(ensure_kubectl(screen.say).parent)
    return folders


def _stay(play: Play, programs: Sequence[Path]) -> NoReturn:
    """Start everything, make nodes, say how to reach them, and stay until Ctrl-C."""
    GangScheduler(play.control_plane)
    Reconciler(play.control_plane).wait_leading()
    Scene(play, "", "default").add_nodes(4)
    path = ":".join(shlex.quote(str(each)) for each in programs)
    config = shlex.quote(str(play.control_plane.admin_kubeconfig))
    play.screen.say("\nFour nodes of 4 CPUs are ready. In a second terminal:")
    play.screen.say(f"  export KUBECONFIG={config} PATH={path}:$PATH")
    play.screen.say(f"Logs of all components: {play.control_plane.logs}")
    play.screen.say("Ctrl-C ends it; nothing is left.")
    _wait()


def _show(play: Play) -> None:
    """Serve the live page, and say where."""
    play.api.apply(ROOT / "manifests" / "crds")  # the page waits for what it shows
    url = f"http://127.0.0.1:{free_port()}"
    config = play.control_plane.admin_kubeconfig
    argv = (sys.executable, "-m", "gang_tools", "page", "--port", url.rpartition(":")[2])
    page = play.control_plane.spawn("page", [*argv, "--kubeconfig", config], url=url)
    play.control_plane.wait_until("the page is there", lambda: is_ready(page, url))
    play.screen.say(f"Open this in a browser: {url}", "bold")


def _wait() -> NoReturn:
    while True:
        time.sleep(1)  # a signal that another thread took wakes nobody
