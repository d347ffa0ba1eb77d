"""Workloads of the reconciler on an API server that is strict about owners."""

from tests.cluster.queues import WORKLOADS
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.kinds import CRDS, FOREIGN, POD_SETS, QUEUE, fresh, jobset, trainjob
from tests.harness.reconciler import Reconciler

STRICT = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
KINDS = {*FOREIGN, "Job", "Pod"}


def test_the_service_account_may_make_jobs_owners_of_workloads() -> None:
    jobs = [fresh(maker(), namespace="default", queue="queue") for maker, _ in POD_SETS.values()]
    jobs.append(objects.job("work", queue="queue", suspend=True))
    jobs.append(objects.pod("work", labels={QUEUE: "queue"}, gates=["kueue.x-k8s.io/admission"]))
    with (
        ControlPlane(kubelet=False, controllers=False, apiserver_args=[STRICT]) as strict,
        Api(strict.admin_kubeconfig) as api,
    ):
        api.apply(CRDS)
        Reconciler(strict).wait_leading()
        api.create(*jobs)
        # Some wait for their operator to say that they are suspended, and none is here.
        noticed = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
        mpi = "kubeflow.org/v2beta1/mpijobs"
        api.patch(mpi, "work", "default", body=noticed, subresource="status")
        idle = {"status": {"applicationState": {"state": "SUSPENDED"}}}
        spark = "sparkoperator.k8s.io/v1beta2/sparkapplications"
        api.patch(spark, "work", "default", body=idle, subresource="status")
        # A TrainJob waits for its JobSet, and no Trainer makes it.
        train = fresh(trainjob(), namespace="default", queue="queue")
        train["metadata"]["name"] = "train"
        stored = api.create(train)
        owner = {name: stored[name] for name in ("apiVersion", "kind")}
        owner |= {name: stored["metadata"][name] for name in ("name", "uid")}
        made = fresh(jobset(), namespace="default")
        made["metadata"] |= {"name": "train", "ownerReferences": [{**owner, "controller": True}]}
        api.create(made)
        noticed = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
        resource = "trainer.kubeflow.org/v1alpha1/trainjobs"
        api.patch(resource, "train", "default", body=noticed, subresource="status")

        def owners() -> set[str]:
            found = [each["metadata"]["ownerReferences"] for each in api.list(WORKLOADS, "default")]
            return {owner["kind"] for owners in found for owner in owners}

        api.wait_for("all have workloads", lambda: owners() == KINDS)
