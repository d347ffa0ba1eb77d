"""What holds for all tests: the marker of cluster tests, and their logs when they fail."""

import asyncio
import logging
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog

from extender.telemetry import logs
from tests.effort import FACTOR, examples
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.inventory import inventory
from tests.harness.toolchain import ToolchainError, ensure_binaries
from tests.tiers import in_order

# Python 3.11 makes an event loop when pytest-asyncio asks whether there is one, and nothing closes
# it. Said once that there is none, it makes none.
asyncio.set_event_loop(None)

# A machine that has much to do is no counterexample. A common run plays the same examples each
# time; one that plays more (`make soak-properties`) looks for new ones. What fails is printed with
# the decorator that plays it again.
hypothesis.settings.register_profile(
    "patient",
    deadline=None,
    print_blob=True,
    max_examples=examples(100),
    derandomize=FACTOR <= 1,
)
hypothesis.settings.load_profile("patient")

HERE = Path(__file__).parent
CLUSTER = {HERE / "cluster", HERE / "bench" / "tests" / "cluster"}
CLUSTER_TIMEOUT_SECONDS = 600
PROPERTIES = HERE / "properties"
PROPERTIES_TIMEOUT_SECONDS = 600


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that is run within a test sets up the logs of the process: for its time alone.

    The file that it writes to is closed by then.
    """
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.configure(**before)
    logs.IDS._of.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    of_cluster = [item for item in items if CLUSTER.intersection(item.path.parents)]
    others = [item for item in items if not CLUSTER.intersection(item.path.parents)]
    items[:] = [*others, *in_order(of_cluster)]
    for item in items:
        if CLUSTER.intersection(item.path.parents):
            item.add_marker(pytest.mark.cluster)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(CLUSTER_TIMEOUT_SECONDS))
        elif PROPERTIES in item.path.parents:
            item.add_marker(pytest.mark.timeout(PROPERTIES_TIMEOUT_SECONDS * FACTOR))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before the clock of the first test runs; never skip."""
    if session.config.option.collectonly:
        return
    if any(item.get_closest_marker("cluster") for item in session.items):
        try:
            ensure_binaries()
        except ToolchainError as error:
            raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    control_plane = getattr(item, "funcargs", {}).get("control_plane")
    # It may have ended before the last fixture that failed.
    if (
        report.failed
        and isinstance(control_plane, ControlPlane)
        and control_plane.apiserver.running
    ):
        with Api(control_plane.admin_kubeconfig) as api:
            report.sections.append(("what is there", inventory(api)))
        report.sections.append(("logs of the control plane", control_plane.tails()))
    return report
