"""Nothing of an external controller is left behind."""

from pathlib import Path

import psutil
import pytest

from tests.bench.queue.controllers import stop
from tests.harness.process import Component

_PATIENCE_SECONDS = 30.0


@pytest.mark.timeout(90)
def test_what_a_script_started_ends_with_it(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"sleep 600 & echo $! > {ready}.new; mv {ready}.new {ready}; wait"
    component = Component("script", ["sh", "-c", script], log_path=tmp_path / "log")
    component.start()
    deadline_waiter = psutil.Process(component.pid)
    while not ready.exists():
        assert deadline_waiter.is_running(), component.tail()
    child = psutil.Process(int(ready.read_text()))

    stop(component)

    psutil.wait_procs([child], timeout=_PATIENCE_SECONDS)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert not component.running


def test_one_that_ended_by_itself_is_stopped_too(tmp_path: Path) -> None:
    component = Component("true", ["true"], log_path=tmp_path / "log")
    component.start()
    component.wait(_PATIENCE_SECONDS)

    stop(component)

    assert not component.running
