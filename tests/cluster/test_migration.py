"""Objects that an earlier installation stored in the older version lose nothing."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.cluster.alone import alone
from tests.cluster.served import CRDS, OLDER
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import install
from tests.harness.objects import Object
from tests.harness.process import free_port
from tests.harness.reconciler import Reconciler
from tests.harness.started import fetch

MANIFESTS = Path(__file__).parents[2] / "manifests"
NEWER = "kueue.x-k8s.io/v1beta2"
NAME = "clusterqueues.kueue.x-k8s.io"
SECONDS = 120

control_plane, api = alone()


@pytest.fixture(scope="module", autouse=True)
def stored(control_plane: ControlPlane, api: Api) -> None:
    """A ClusterQueue is stored as v1beta1; then our CRDs are applied over the earlier ones."""
    install(control_plane)
    path = MANIFESTS / "crds" / "kueue.x-k8s.io_clusterqueues.yaml"
    ours = yaml.safe_load(path.read_text())
    api.delete(CRDS, NAME)
    api.wait_for("it is gone", lambda: api.find(CRDS, NAME) is None)
    earlier = yaml.safe_load(path.read_text())
    for version in earlier["spec"]["versions"]:
        old = version["name"] == "v1beta1"
        version["storage"], version["served"] = old, old
    api.apply(earlier)
    api.create(
        {
            "apiVersion": OLDER,
            "kind": "ClusterQueue",
            "metadata": {"name": "team"},
            "spec": {"namespaceSelector": {}, "cohort": "company"},
        }
    )
    api.apply(ours)
    api.wait_for("the newer version is there", lambda: api.find(f"{NEWER}/clusterqueues", "team"))
    assert api.get(CRDS, NAME)["status"]["storedVersions"] == ["v1beta1", "v1beta2"]


def process(control_plane: ControlPlane, **webhooks: object) -> Reconciler:
    settings = {"webhooks": webhooks, "reconcile": {"leaderElect": False}}
    return Reconciler(control_plane, settings=settings, crds=False, wait=False)


def readyz(replica: Reconciler) -> str:
    try:
        return fetch(f"{replica.url}/readyz").text
    except httpx.TransportError:
        return ""


@pytest.fixture
def unconverted(control_plane: ControlPlane) -> Iterator[Reconciler]:
    """A process that serves no webhooks."""
    replica = process(control_plane, enabled=False)
    yield replica
    replica.stop()


WAITS = f"[-]conversion: CustomResourceDefinition {NAME}: objects may be stored as v1beta1"


def test_nothing_is_lost_and_the_reconciler_waits_for_conversion(
    control_plane: ControlPlane, api: Api, unconverted: Reconciler
) -> None:
    text = api.wait_for(
        "it says what it waits for",
        lambda: (
            text
            if all(each in (text := readyz(unconverted)) for each in (WAITS, "[+]namespaces"))
            else None
        ),
        SECONDS,
    )
    assert "[-]clusterqueues" in text
    assert not unconverted.leads
    before = raw(api)
    unconverted.stop()
    assert raw(api) == before  # its only cohort is in storage

    port = free_port()
    url = f"https://127.0.0.1:{port}"
    replica = process(control_plane, host="127.0.0.1", port=port, url=url, checkSeconds=0.5)
    try:
        replica.wait_ready()
        replica.wait_leading()

        def written() -> Object | None:
            found = api.get(f"{NEWER}/clusterqueues", "team")
            return found if "conditions" in found.get("status", {}) else None

        assert api.wait_for("it is looked after", written, SECONDS)["spec"]["cohortName"] == (
            "company"
        )
    finally:
        replica.stop()


def raw(api: Api) -> str:
    """Return the version that the object was last written at."""
    version: str = api.get(f"{NEWER}/clusterqueues", "team")["metadata"]["resourceVersion"]
    return version
