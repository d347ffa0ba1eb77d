"""The operators, each started once, and jobs of the kind that a test is about."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.cluster.partners.dashboard import Dashboard
from tests.cluster.partners.pools import Pools
from tests.cluster.partners.spark import Drivers
from tests.cluster.partners.work import KINDS, Kind, Works
from tests.cluster.queues import Queues
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.partners import (
    KARPENTER,
    PARTNERS,
    SPARK,
    Partner,
    start_partner,
    uninstall,
)
from tests.harness.process import Component


@pytest.fixture(scope="session")
def dashboard() -> Iterator[Dashboard]:
    """Ray's dashboard, for all Ray clusters."""
    found = Dashboard()
    with found.serving():
        yield found


@pytest.fixture(scope="session")
def operator(
    request: pytest.FixtureRequest, control_plane: ControlPlane, dashboard: Dashboard
) -> Iterator[Partner]:
    """Each operator, while it runs."""
    found = PARTNERS[request.param]
    partners = (*found.needs, found)
    running = [start_partner(control_plane, each, proxy=dashboard.url) for each in partners]
    drivers = Drivers(control_plane.admin_kubeconfig).running() if found is SPARK else nullcontext()
    with drivers:
        yield found
    for partner, each in reversed([*zip(partners, running, strict=True)]):
        each.stop()
        uninstall(control_plane, partner)


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest, control_plane: ControlPlane, operator: Partner) -> Kind:
    """Each kind, while its operator runs."""
    found = KINDS[request.param]
    assert found.partner is operator
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply(found.setting)
    return found


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


@pytest.fixture(scope="session")
def installed_karpenter(control_plane: ControlPlane) -> Component:
    """Karpenter, which rests: it would look at the pods of all tests."""
    found = start_partner(control_plane, KARPENTER)
    found.stop()
    return found


@pytest.fixture
def grown(api: Api, installed_karpenter: Component) -> Iterator[Pools]:
    """NodePools, while Karpenter runs. Name it before what makes pods, which have to end first."""
    installed_karpenter.start()
    made = Pools(api)
    yield made
    made.clean()
    installed_karpenter.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a test with the kinds of its mark, else with each kind that does not leave it out."""
    if "kind" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("kinds")
    played = [KINDS[name] for name in mark.args] if mark else KINDS.values()
    values = [
        pytest.param(
            each.partner.name,
            each.name,
            id=each.name,
            marks=pytest.mark.xdist_group(each.name),
        )
        for each in played
        if metafunc.function.__name__ not in each.left_out
    ]
    metafunc.parametrize(("operator", "kind"), values, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the time that operators take on a slow machine."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(600))
