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
from tests.harness.demo.scenes import SCENES
from tests.harness.demo.stage import (
    SAMPLE,
    SAMPLES,
    Play,
    Scene,
    Screen,
    UnexpectedError,
    duration,
)
from tests.harness.gang_scheduler import ROOT
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
    screen.say("etcd, kube-apiserver, kube-controller-manager and KWOK start")
    with (
        _control_plane(binaries) as control_plane,
        Api(control_plane.admin_kubeconfig) as api,
    ):
        screen.say("gang-extender and the stock kube-scheduler start")
        play = Play(screen, control_plane, api)
        try:
            play.run(SCENES)
            if keep:
                _keep(play)
        except _FAILURES as error:
            return _failed(play, error)
    screen.say(f"All {len(play.steps)} steps were as expected, in {_since(started)}.")
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
            # Deaf to a second Ctrl-C, which would stop the tidying up half way.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            stack.close()


def _failed(play: Play, error: Exception) -> int:
    """Show what was expected and seen, and the ends of the logs."""
    play.screen.summary(play.steps)
    text, tails = str(error), play.control_plane.tails()
    # An error of the harness may have the logs in it.
    logs = "" if "\n--- " in text else f"the ends of the logs:\n{tails}\n\n"
    print(f"\n{logs}The demo failed: {type(error).__name__}: {text}", file=sys.stderr)
    return 1


def _keep(play: Play) -> None:
    """Apply the sample, say how to look at it, and stay until Ctrl-C."""
    scene = Scene(play, "", "default")
    scene.add_nodes(4)
    scene.apply(SAMPLE)
    play.api.wait_for("the sample runs", lambda: scene.phases("nginx").startswith("4 Running"))
    for line in _how_to_look(play):
        play.screen.say(line)
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
