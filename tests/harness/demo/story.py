"""The demo from the first process to the exit code."""

import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn

import httpx

from tests.harness import kubeconfig as kubeconfigs
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.demo.play import SAMPLE, SAMPLES, Play
from tests.harness.demo.queue_scenes import QUEUE_SCENES
from tests.harness.demo.record import Record, UnexpectedError
from tests.harness.demo.scenes import SCENES
from tests.harness.demo.screen import Screen, duration
from tests.harness.gang_scheduler import ROOT, GangScheduler
from tests.harness.toolchain import Binaries, ToolchainError, ensure_binaries

INTERRUPTED = 128 + signal.SIGINT

_FAILURES = (UnexpectedError, AssertionError, RuntimeError, OSError, ApiError, httpx.HTTPError)
"""What a step, the harness and the API server say when something is wrong."""


def run(*, keep: bool) -> int:
    """Play the story and return the exit code: 0 if all was as expected, 1 if not, 130 on Ctrl-C.

    With `keep` the sample is applied in the end, and all stays up until Ctrl-C.
    """
    screen = Screen()
    signal.signal(signal.SIGTERM, _terminated)  # so that the temporary folder goes too
    try:
        return _run(screen, keep=keep)
    except KeyboardInterrupt:
        screen.say("interrupted")
        return INTERRUPTED
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 1


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _run(screen: Screen, *, keep: bool) -> int:
    binaries = ensure_binaries(screen.say)
    started = time.monotonic()
    record = Record(scene="-")
    with _control_plane(screen, binaries) as control_plane:
        _ready(screen, record, "the control plane starts", since=started)
        try:
            _play(screen, record, control_plane, keep=keep)
        except _FAILURES as error:
            return _failed(screen, record, control_plane, error)
    took = duration(time.monotonic() - started)
    screen.say(f"All {len(record.steps)} steps were as expected, in {took}.")
    return 0


@contextmanager
def _control_plane(screen: Screen, binaries: Binaries) -> Iterator[ControlPlane]:
    with ExitStack() as stack:
        with screen.waiting("etcd, kube-apiserver, kube-controller-manager and KWOK start"):
            control_plane = stack.enter_context(ControlPlane(binaries))
        try:
            yield control_plane
        finally:
            # Deaf to a second Ctrl-C, which would stop the tidying up half way.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            with screen.waiting("everything stops"):
                stack.close()


def _play(screen: Screen, record: Record, control_plane: ControlPlane, *, keep: bool) -> None:
    started = time.monotonic()
    with screen.waiting("gang-extender and the stock kube-scheduler start"):
        gang = GangScheduler(control_plane)
    _ready(screen, record, "gang-extender and kube-scheduler start", since=started)
    with Api(control_plane.admin_kubeconfig) as api:
        play = Play(screen, record, control_plane, api, gang)
        for scene in (*SCENES, *QUEUE_SCENES):
            scene(play)
        screen.summary(record.steps)
        if keep:
            _keep(play)


def _ready(screen: Screen, record: Record, what: str, *, since: float) -> None:
    seconds = time.monotonic() - since
    screen.step(record.add(what, want="ready", seen="ready", seconds=seconds))


def _failed(screen: Screen, record: Record, control_plane: ControlPlane, error: Exception) -> int:
    """Show what was expected and seen, and the ends of the logs."""
    if record.steps:
        screen.summary(record.steps)
    text = str(error)
    tails = control_plane.tails()
    # An error of the harness may have the logs in it.
    logs = "" if "\n--- " in text else f"the ends of the logs:\n{tails}\n\n"
    print(f"\n{logs}The demo failed: {type(error).__name__}: {text}", file=sys.stderr)
    return 1


def _keep(play: Play) -> None:
    """Apply the sample, say how to look at it, and stay until Ctrl-C."""
    with play.on_stage("default", 4) as scene:
        scene.apply(SAMPLE)
        scene.watch.wait_for(lambda: scene.watch.placed("nginx") >= 4, 30)
        for line in _how_to_look(play):
            play.screen.say(line)
        with play.screen.waiting("the control plane is up until Ctrl-C", lines=False):
            threading.Event().wait()


def _how_to_look(play: Play) -> Iterator[str]:
    path = play.control_plane.admin_kubeconfig
    config = kubeconfigs.read(path)
    yield f"\n{SAMPLE.relative_to(ROOT)} is applied to a cluster with room for 4 of its 6 pods."
    yield f"  export KUBECONFIG={path}"
    yield "  kubectl get pods"
    yield "  kubectl describe pods"
    yield "  kubectl scale deployment nginx --replicas=0"
    yield "  kubectl scale deployment nginx --replicas=6"
    yield "Jobs under quota:"
    yield f"  kubectl apply -f {(SAMPLES / 'single-clusterqueue.yaml').relative_to(ROOT)}"
    yield "  kubectl get workloads"
    if shutil.which("kubectl") is None:
        yield "kubectl is not on PATH: https://kubernetes.io/docs/tasks/tools/ says how to get it."
    if config.certificate is not None:
        yield "Without kubectl:"
        yield (
            f"  curl --cacert {config.ca} --cert {config.certificate.certificate}"
            f" --key {config.certificate.key} {config.server}/api/v1/namespaces/default/pods"
        )
    yield f"Logs of all components: {play.control_plane.logs}"
    yield "Ctrl-C ends it; nothing is left."
