"""Starting and stopping real Jobs by the writes of their kind."""

from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from extender.jobs.job import GenericJob, Slot, Step
from extender.jobs.registry import Integration, builtin
from extender.jobs.templates import Placement
from tests.cluster.conftest import NodeFactory
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.objects import Object

SECONDS = 120
TIER = {"test/tier": "spot"}
TOLERATION = {"key": "test/spot", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture(scope="module", autouse=True)
def scheduler(control_plane: ControlPlane) -> Iterator[None]:
    """A kube-scheduler without an extender, for pods with schedulerName `plain`."""
    profiles = {"profiles": [{"schedulerName": "plain"}]}
    component = control_plane.scheduler(profiles, name="kube-scheduler-plain")
    yield
    component.stop()


class Bench:
    """One Job in a namespace."""

    def __init__(
        self, api: Api, namespace: str, integration: Integration, *, plain: str, spot: str
    ) -> None:
        """`plain` and `spot` are the nodes."""
        self.api = api
        self.plain, self.spot = plain, spot
        self.namespace = namespace
        self._integration = integration
        self._resource = f"{integration.api_version}/{integration.plural}"

    def create(self, **options: Any) -> list[Slot]:
        """Create the Job `work`, suspended, and return what it asks for."""
        pod_spec = {"schedulerName": "plain", **options.pop("pod_spec", {})}
        settings = {"suspend": True, "run_for": "1h", **options}
        settings["pod_spec"] = pod_spec
        made = objects.job(
            "work", settings.pop("parallelism", 2), namespace=self.namespace, **settings
        )
        made["metadata"]["annotations"] = settings.pop("own", {})
        self.api.create(made)
        return self.job().pod_sets()

    def read(self) -> Object:
        return self.api.get(self._resource, "work", self.namespace)

    def job(self) -> GenericJob:
        return self._integration.wrap(self.read())

    def send(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.api.patch(
                self._resource,
                "work",
                self.namespace,
                body=step.patch,
                subresource=step.subresource,
            )

    def start(self, count: int = 2) -> None:
        placement = Placement("main", count, TIER, (TOLERATION,), {"kueue.x-k8s.io/podset": "main"})

        def started() -> bool:
            try:
                self.send(self.job().start_steps([placement]))
            except ApiError as error:
                if error.status != httpx.codes.CONFLICT:
                    raise
                return False  # the Job's controller was quicker: read it again
            return True

        self.api.wait_for("the Job is started", started, SECONDS)

    def pods(self) -> list[Object]:
        found = self.api.list("pods", self.namespace)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def await_running(self, count: int = 2) -> list[Object]:
        def running() -> list[Object] | None:
            pods = self.pods()
            ready = self.read()["status"].get("ready") == count
            return pods if ready and len(pods) == count else None

        found = self.api.wait_for(f"{count} pods run", running, SECONDS)
        assert found is not None
        return found

    def stop(self, pod_sets: list[Slot]) -> None:
        """Stop it as far as can be done at once, and then the rest."""
        self.send(self.job().stop_steps(pod_sets))
        self.await_quiet()
        self.send(self.job().stop_steps(pod_sets))

    def await_quiet(self) -> None:
        self.api.wait_for(
            "no pods", lambda: not self.pods() and not self.job().is_active(), SECONDS
        )


@pytest.fixture
def bench(api: Api, namespace: str, nodes: NodeFactory) -> Bench:
    [plain] = nodes(1, prefix="plain")
    taint = {"key": "test/spot", "value": "", "effect": "NoSchedule"}
    [spot] = nodes(1, prefix="spot", labels=TIER, taints=[taint])
    return Bench(api, namespace, builtin()["batch/job"], plain=plain, spot=spot)


def spec_of(job: Object) -> Object:
    return {name: job["spec"][name] for name in ("template", "parallelism", "completions")}


@pytest.mark.parametrize("indexed", [False, True], ids=["NonIndexed", "Indexed"])
def test_a_job_starts_where_it_is_placed_stops_and_starts_again(
    bench: Bench, indexed: bool
) -> None:
    pod_sets = bench.create(indexed=indexed)
    before = spec_of(bench.read())
    for _ in range(2):
        bench.start()
        for pod in bench.await_running():
            assert pod["spec"]["nodeName"] == bench.spot
            assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
        assert bench.job().pods_ready()

        bench.stop(pod_sets)
        stopped = bench.read()
        assert spec_of(stopped) == before
        assert stopped["spec"]["suspend"] is True
        assert not stopped["metadata"].get("annotations")


def test_a_stop_ends_after_a_crash(bench: Bench) -> None:
    pod_sets = bench.create()
    before = spec_of(bench.read())
    bench.start()
    bench.await_running()
    bench.send(bench.job().stop_steps(pod_sets))
    bench.await_quiet()
    assert spec_of(bench.read()) != before

    left = bench.job().stop_steps(pod_sets)
    for number in range(len(left)):
        bench.send(left[number:][:1])
        if number + 1 < len(left):
            assert spec_of(bench.read()) != before
            assert bench.job().stop_steps(pod_sets) == left[number + 1 :]
    assert spec_of(bench.read()) == before
    assert bench.job().stop_steps(pod_sets) == []
    bench.start()
    assert {pod["spec"]["nodeName"] for pod in bench.await_running()} == {bench.spot}


def test_a_job_with_less_quota_runs_with_fewer_pods(bench: Bench) -> None:
    least = {
        "kueue.x-k8s.io/job-min-parallelism": "1",
        "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
    }
    pod_sets = bench.create(parallelism=3, indexed=True, own=least)
    before = spec_of(bench.read())
    bench.start(2)
    bench.await_running(2)
    bench.stop(pod_sets)
    assert spec_of(bench.read()) == before


def test_a_job_that_was_never_held_is_stopped_before_it_is_started(bench: Bench) -> None:
    pod_sets = bench.create(
        suspend=False, pod_spec={"nodeSelector": {"kubernetes.io/hostname": bench.plain}}
    )
    bench.await_running()
    bench.stop(pod_sets)
    assert not bench.read()["status"].get("startTime")


def test_a_job_that_a_user_suspended_starts_again(bench: Bench) -> None:
    bench.create()
    bench.start()
    bench.await_running()
    bench.api.patch("batch/v1/jobs", "work", bench.namespace, body={"spec": {"suspend": True}})
    bench.await_quiet()
    bench.start()
    bench.await_running()
