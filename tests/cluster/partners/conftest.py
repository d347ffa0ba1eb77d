"""The operators, each started once, and jobs of the kind that a test is about."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.partners.dashboard import Dashboard
from tests.cluster.partners.work import KINDS, Kind, Works
from tests.cluster.queues import Queues
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.partners import start_partner, uninstall


@pytest.fixture(scope="session")
def dashboard() -> Iterator[Dashboard]:
    """Ray's dashboard, for all Ray clusters."""
    found = Dashboard()
    with found.serving():
        yield found


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in KINDS],
)
def kind(
    request: pytest.FixtureRequest, control_plane: ControlPlane, dashboard: Dashboard
) -> Iterator[Kind]:
    """Each kind, while its operator runs."""
    found = KINDS[request.param]
    partners = (*found.partner.needs, found.partner)
    operators = [start_partner(control_plane, each, proxy=dashboard.url) for each in partners]
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply(found.setting)
    yield found
    for partner, operator in reversed([*zip(partners, operators, strict=True)]):
        operator.stop()
        uninstall(control_plane, partner)


@pytest.fixture
def works(
    kind: Kind,
    gang: object,
    reconciler: object,
    api: Api,
    queues: Queues,
    dashboard: Dashboard,
) -> Works:
    """Jobs of each kind, in a fresh namespace."""
    return Works(api, queues, dashboard, kind)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the time that operators take on a slow machine."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(600))
