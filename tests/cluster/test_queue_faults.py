"""The queue while its process, the API server or an answer is lost, and while others write too."""

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.history import Judge, versions
from tests.cluster.queues import API, JOBS, QUEUE, WORKLOADS, Queues, condition
from tests.harness.client import Api, ApiError, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import Fault, FaultyProxy
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.reconciler import Reconciler
from tests.tiers import LONG

pytestmark = pytest.mark.usefixtures("gang")

QUOTA = 3
PATIENCE = 120.0
UNHEARD = 6
ELECTED = {"reconcile": {"leaseSeconds": 15, "renewSeconds": 10, "retrySeconds": 0.3}}
LEASES, LEASE = "coordination.k8s.io/v1/leases", "gang-extender-reconciler"


@pytest.fixture
def own(reconciler: Reconciler) -> Iterator[Reconciler]:
    """The reconciler of all tests, which may be killed."""
    yield reconciler
    if not reconciler.process.running:
        reconciler.start()


@pytest.fixture
def _quiet(reconciler: Reconciler) -> Iterator[None]:
    """The reconciler of all tests rests."""
    reconciler.stop()
    yield
    reconciler.start()


@pytest.fixture
def pair(
    control_plane: ControlPlane, api: Api, _quiet: None
) -> Iterator[tuple[Reconciler, Reconciler]]:
    """Two replicas; the first leads."""
    first = Reconciler(control_plane, name="faults-first", settings=ELECTED)
    first.wait_leading()
    second = Reconciler(control_plane, name="faults-second", settings=ELECTED)
    yield first, second
    for each in (first, second):
        each.stop()
    api.delete(LEASES, LEASE, NAMESPACE)


class Burst:
    """Many Jobs of one pod, for a quota of three."""

    def __init__(self, queues: Queues, count: int) -> None:
        self.queues = queues
        self.names = [f"job-{number}" for number in range(count)]
        queues.simple(cpu=QUOTA)

    def create(self) -> None:
        for name in self.names:
            self.queues.job(name, run_for="150ms")

    def finished(self) -> int:
        found = self.queues.api.list(WORKLOADS, self.queues.namespace)
        return sum(condition(each, "Finished").get("status") == "True" for each in found)

    def await_finished(self, count: int) -> None:
        """Wait until so many have finished."""
        api = self.queues.api
        api.wait_for(f"{count} have finished", lambda: self.finished() >= count, PATIENCE)

    def judge(self) -> Judge:
        """Have the whole story judged, in which all workloads finished."""
        self.await_finished(len(self.names))
        api, namespace = self.queues.api, self.queues.namespace
        judge = Judge(QUOTA * 1000).replay(versions(api, namespace))
        assert judge.faults == []
        assert {name: judge.workloads_of(name) for name in self.names} == dict.fromkeys(
            self.names, 1
        )
        assert not api.list("events.k8s.io/v1/events", namespace, fields="reason=DeletedWorkload")
        assert judge.most == QUOTA * 1000
        for name in self.names:
            job = api.get(JOBS, name, namespace)
            assert condition(job, "Complete")["status"] == "True"
        return judge


@pytest.fixture(autouse=True)
def _room(nodes: NodeFactory) -> None:
    nodes(2, "8")


@LONG
def test_a_burst_goes_on_wherever_the_reconciler_was_killed(
    own: Reconciler, queues: Queues
) -> None:
    burst = Burst(queues, 30)
    burst.create()
    for done in (1, 8, 16, 24):
        burst.await_finished(done)
        own.restart()

    judge = burst.judge()
    assert judge.stops == 0


@LONG
def test_a_burst_goes_on_while_it_is_being_created_and_the_reconciler_is_killed(
    own: Reconciler, queues: Queues
) -> None:
    burst = Burst(queues, 12)
    api, namespace = queues.api, queues.namespace
    creating = threading.Thread(target=burst.create, daemon=True)
    creating.start()
    api.wait_for("the first has a workload", lambda: api.list(WORKLOADS, namespace))
    own.process.kill()
    creating.join(60)
    own.start()

    burst.judge()


def test_another_replica_goes_on_where_the_leader_died(
    pair: tuple[Reconciler, Reconciler], queues: Queues
) -> None:
    first, second = pair
    burst = Burst(queues, 15)
    burst.create()
    burst.await_finished(4)
    assert (first.leads, second.leads) == (True, False)
    first.process.kill()
    second.wait_leading()

    burst.judge()


@LONG
def test_a_burst_goes_on_when_the_api_server_was_away(
    own: Reconciler, control_plane: ControlPlane, queues: Queues
) -> None:
    burst = Burst(queues, 15)
    burst.create()
    burst.await_finished(3)
    control_plane.apiserver.kill()
    control_plane.apiserver.start()
    control_plane.wait_ready()

    burst.judge()
    assert own.process.running


@pytest.fixture
def lossy(control_plane: ControlPlane, proxy: FaultyProxy, _quiet: None) -> Iterator[Reconciler]:
    """A reconciler that may never hear what became of a write."""
    settings = {"reconcile": {"leaderElect": False}, "kube": {"timeoutSeconds": 3}}
    lossy = Reconciler(control_plane, name="faults-lossy", settings=settings, api_port=proxy.port)
    lossy.wait_leading()
    yield lossy
    lossy.stop()


@LONG
def test_answers_that_are_lost_exceed_no_quota(
    lossy: Reconciler, proxy: FaultyProxy, queues: Queues
) -> None:
    burst = Burst(queues, 18)
    burst.create()
    for done in (1, 4, 8, 12):
        burst.await_finished(done)
        proxy.lose("", 6)

    burst.judge()
    assert proxy.faults[Fault.LOST] >= 6
    assert lossy.process.running


def test_when_nothing_is_heard_for_a_while_no_quota_is_given_twice(
    lossy: Reconciler, proxy: FaultyProxy, queues: Queues
) -> None:
    """Neither answers nor watches show that an admission was taken; requests go on to arrive."""
    burst = Burst(queues, 12)
    burst.create()
    burst.await_finished(2)
    proxy.stand_still(f"/apis/{WORKLOADS}")
    silence = proxy.hold("/status", answers=True)
    queues.api.wait_for("nothing is heard", lambda: silence.held >= UNHEARD, PATIENCE)
    proxy.let_go()
    proxy.move()

    burst.judge()
    assert lossy.process.running


@pytest.mark.usefixtures("own")
def test_another_writer_of_workloads_delays_no_job_for_good(queues: Queues) -> None:
    burst = Burst(queues, 15)
    ended = threading.Event()
    written = 0

    def label(number: int) -> int:
        done = 0
        for each in queues.api.list(WORKLOADS, queues.namespace):
            name = each["metadata"]["name"]
            change = {"metadata": {"labels": {"example.com/seen": str(number)}}}
            try:
                queues.api.patch(WORKLOADS, name, queues.namespace, body=change)
            except ApiError as error:
                if error.status not in {404, 409}:
                    raise
            else:
                done += 1
        return done

    def meddle() -> None:
        nonlocal written
        number = 0
        while not ended.wait(0.01):
            number += 1
            written += label(number)

    meddling = threading.Thread(target=meddle, daemon=True)
    meddling.start()
    burst.create()
    try:
        burst.await_finished(15)
    finally:
        ended.set()
        meddling.join(60)
    burst.judge()
    assert written > 15


def test_a_stop_that_was_cut_in_the_middle_is_ended(
    own: Reconciler, control_plane: ControlPlane, queues: Queues, api: Api, nodes: NodeFactory
) -> None:
    nodes(1, "4", prefix="ssd", labels={"disk": "ssd"})
    queues.simple(cpu=1, flavor=queues.flavor("ssd", nodeLabels={"disk": "ssd"}))
    before = queues.job("job", run_for="1h")["spec"]["template"]
    queues.await_admitted("job")

    def job() -> Object:
        return api.get(JOBS, "job", queues.namespace)

    api.wait_for("its pod runs", lambda: job()["status"].get("ready") == 1)
    control_plane.controller_manager.kill()
    try:
        workload = queues.its_workload("job")
        off = {"spec": {"active": False}}
        api.patch(WORKLOADS, workload["metadata"]["name"], queues.namespace, body=off)
        api.wait_for("the stop has begun", lambda: queues.is_suspended("job"))
        own.process.kill()
    finally:
        control_plane.controller_manager.start()
        control_plane.wait_ready()
    half = job()
    assert half["metadata"]["annotations"]["kueue.x-k8s.io/stopping"] == "true"
    assert half["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert queues.condition("job", "QuotaReserved")["status"] == "True"

    own.start()
    queues.await_condition("job", "QuotaReserved", "False")
    api.wait_for("it is as it was", lambda: job()["spec"]["template"] == before)
    after = job()
    assert "kueue.x-k8s.io/stopping" not in after["metadata"].get("annotations", {})


@pytest.mark.usefixtures("own")
def test_a_job_that_loses_its_label_while_it_runs_keeps_its_quota(queues: Queues, api: Api) -> None:
    queues.simple(cpu=1)
    queues.job("first", run_for="1h")
    queues.await_started("first")
    api.wait_for("its pod is there", lambda: api.list("pods", queues.namespace))
    api.patch(JOBS, "first", queues.namespace, body={"metadata": {"labels": {QUEUE: None}}})
    queues.job("second", run_for="100ms")
    queues.await_condition("second", "QuotaReserved", "False")
    queues.end_pods("first")

    # The Job controller's pauses, and five seconds until the reconciler asks again.
    queues.await_finished("second", timeout=PATIENCE)
    assert queues.condition("first", "Finished")["reason"] == "Succeeded"
    ended = api.get(JOBS, "first", queues.namespace)["status"]["completionTime"]
    assert queues.condition("second", "Admitted")["lastTransitionTime"] >= ended


@pytest.mark.usefixtures("own")
def test_a_job_that_leaves_the_queue_and_comes_back_is_queued_again(
    queues: Queues, api: Api
) -> None:
    queues.local_queue("queue", queues.cluster_queue(cpu=1))
    queues.job("job", 2)
    queues.await_condition("job", "QuotaReserved", "False")
    api.patch(JOBS, "job", queues.namespace, body={"metadata": {"labels": {QUEUE: None}}})
    api.wait_for("it has no workload", lambda: queues.workload("job") is None)

    queues.local_queue("large", queues.cluster_queue("large", cpu=2))
    api.patch(JOBS, "job", queues.namespace, body={"metadata": {"labels": {QUEUE: "large"}}})
    queues.await_finished("job")


@pytest.mark.usefixtures("own")
def test_what_a_job_waits_for_may_come_later(queues: Queues, api: Api) -> None:
    queues.simple(cpu=4)
    wanted = queues.name("high")
    queues.job("classy", labels={"kueue.x-k8s.io/priority-class": wanted})
    queues.job("brings", labels={"kueue.x-k8s.io/prebuilt-workload-name": "prebuilt"})

    def reported(reason: str) -> Callable[[], object]:
        events = "events.k8s.io/v1/events"
        return lambda: api.list(events, queues.namespace, fields=f"reason={reason}")

    api.wait_for("the class is missed", reported("PriorityClassNotFound"))
    queues.priority_class("high", 7)
    queues.await_finished("classy")

    template = api.get(JOBS, "brings", queues.namespace)["spec"]["template"]
    spec = {"queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": template}]}
    metadata = {"name": "prebuilt", "namespace": queues.namespace}
    api.create({"apiVersion": API, "kind": "Workload", "metadata": metadata, "spec": spec})
    queues.await_finished("brings")
