"""`gang-extender check` where a reconciler runs, and where it has gone."""

from tests.cluster.alone import alone
from tests.cluster.checking import Answer
from tests.cluster.served import is_older_served
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler

control_plane, api = alone()


def test_the_lease_and_the_webhooks_of_a_reconciler(control_plane: ControlPlane, api: Api) -> None:
    reconciler = Reconciler(
        control_plane, webhooks=True, settings={"webhooks": {"olderWorkloads": True}}
    )
    try:
        reconciler.wait_leading()
        api.wait_for("v1beta1 is served", lambda: is_older_served(api))
        there = Answer("--kubeconfig", control_plane.admin_kubeconfig)
    finally:
        reconciler.stop()
    gone = Answer("--kubeconfig", control_plane.admin_kubeconfig)

    fine = there.lines("ok")
    assert fine.keys() >= {"reconciler.lease", "webhooks.conversion", "certificates.webhooks"}
    assert there.lines("failure") == {}
    assert gone.lines("failure").keys() == {"reconciler.lease", "webhooks.conversion"}
    assert "conversion webhook for" in gone.lines("failure")["webhooks.conversion"]
