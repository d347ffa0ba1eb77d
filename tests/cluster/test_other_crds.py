"""The CRD of PodGroups is another project's, whose status lacks fields that we write."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.alone import alone
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler

CRD = Path(__file__).parents[2] / "manifests" / "crds" / "scheduling.x-k8s.io_podgroups.yaml"
SECONDS = 60.0

control_plane, api = alone(controllers=True, kubelet=True)


@pytest.fixture(scope="module", autouse=True)
def processes(control_plane: ControlPlane) -> Iterator[None]:
    """Run both processes, which apply our CRDs."""
    settings = {"reconcile": {"leaderElect": False}}
    gang, reconciler = GangScheduler(control_plane), Reconciler(control_plane, settings=settings)
    reconciler.wait_leading()
    yield
    reconciler.stop()
    gang.stop()


def apply_without(api: Api, *fields: str) -> None:
    """Apply a CRD without these fields of the status over ours."""
    other = yaml.safe_load(CRD.read_text())
    for version in other["spec"]["versions"]:
        for field in fields:
            del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"][field]
    api.apply(other)


def test_the_fields_that_the_crd_has_are_written(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """The CRD of scheduler-plugins has no conditions and does not count what is scheduled."""
    apply_without(api, "conditions", "scheduled", "preemption", "grantedRoom")
    nodes(1)
    gangs.create("g", 2, cpu="1")
    gangs.await_phases("g", Running=2)
    status = api.wait_for(
        "its status says so",
        lambda: next(
            (
                status
                for each in api.list(POD_GROUPS, gangs.namespace)
                if (status := each.get("status", {})).get("phase") == "Running"
            ),
            None,
        ),
        SECONDS,
    )
    assert status["running"] == 2
    assert not {"conditions", "scheduled"} & {*status}
