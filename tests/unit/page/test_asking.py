"""Answers about a job that somebody pastes, and the faults of its manifest."""

import asyncio
from typing import cast

import pytest
import structlog
import yaml
from structlog.testing import LogCapture

from extender.config.sections import SettingsError
from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.state.queue import events as qv
from extender.state.queue.records import NamespaceInfo
from gang_tools.page.access import Viewer
from gang_tools.page.asking import Asking
from gang_tools.page.following import FollowedCluster
from gang_tools.simulate.answering import Forecast, Object, UnknownJobError
from tests.harness import objects
from tests.makers import NAMESPACE, ManualClock, nodes, observe
from tests.queue_makers import cluster_queue, flavor, local_queue, workload
from tests.unit.explain.scene import holding

ALL, TENANT = Viewer("ann"), Viewer("bob", frozenset({"elsewhere"}))
GOOD = "".join(  # the queue has no memory
    line
    for line in yaml.safe_dump(
        objects.job("asked", 2, namespace=NAMESPACE, queue="cq", cpu="1")
    ).splitlines(keepends=True)
    if "memory" not in line
)


def answers(*, held: int = 0) -> Asking:
    """Return what answers where a queue of 4 CPUs has some of them in use."""
    clock = ManualClock()
    followed = FollowedCluster(Settings(), cast("KubeClient", None), clock)
    observe(followed._cluster, nodes(8))
    for fact in (NamespaceInfo(NAMESPACE), flavor(), cluster_queue("cq", 4), local_queue()):
        followed._queues.apply(qv.Applied(fact))
    if held:
        followed._queues.apply(qv.Applied(holding("holder", held)))
        followed._queues.apply(qv.Applied(workload("waits", 2)))
    return Asking(followed, clock)


async def asked(manifest: str, *, viewer: Viewer = ALL, held: int = 0, runs: str = "") -> Forecast:
    """Return the answer about a manifest."""
    return await answers(held=held).forecast(manifest, runs, viewer)


@pytest.fixture(autouse=True)
def logs_as_before() -> object:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


async def test_a_job_that_fits_would_start_now_and_where_is_said() -> None:
    found = await asked(GOOD)
    assert (found.starts_now, found.nodes, found.preempted) == (True, {"n0": 2}, [])


async def test_a_gang_that_is_only_asked_about_is_not_in_the_log() -> None:
    lines = LogCapture()
    structlog.configure(processors=[lines])
    group = objects.pod_group("train", 2, namespace=NAMESPACE)
    member = objects.job("asked", 2, namespace=NAMESPACE, group="train", memory="0")

    found = await asked(yaml.safe_dump_all([group, member]))

    assert (found.starts_now, lines.entries) == (True, [])


async def test_one_that_does_not_fit_says_what_it_lacks() -> None:
    found = await asked(GOOD, held=3)
    assert (found.starts_now, found.starts_in_seconds, found.nodes) == (False, None, {})
    assert "insufficient unused quota for cpu" in found.lacks


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("]", "not YAML"),
        ("[" * 5000, "nested too deeply"),
        ("text", "should be objects"),
        ("a: &a [1]\nb: *a", "has an alias"),
        ("#" * 70_000, "longer than"),
        ("metadata: {namespace: 5}", "metadata.namespace should be text, and is 5"),
        ("spec: x", "spec should be fields, and is 'x'"),
        (GOOD.replace("parallelism: 2", "parallelism: two"), "spec.parallelism should be a whole"),
        (
            GOOD.replace("cpu: '1'", "cpu: much"),
            "spec.template.spec.containers[0].resources.requests.cpu: 'much' is not a quantity",
        ),
    ],
)
async def test_what_is_wrong_with_it_is_said_with_its_field(change: str, says: str) -> None:
    with pytest.raises(SettingsError) as error:
        await asked(change)
    assert says in str(error.value)


async def test_a_time_that_is_none_is_said_and_what_is_no_job() -> None:
    with pytest.raises(SettingsError, match="'soon' should be a duration"):
        await asked(GOOD, runs="soon")
    with pytest.raises(UnknownJobError, match="the manifest has no job"):
        await asked("kind: Deployment")


async def test_a_workload_that_waits_starts_when_that_is_known() -> None:
    ask = answers(held=3)
    assert await ask.start("ns/waits") is None
    with pytest.raises(UnknownJobError, match="there is no workload ns/none"):
        await ask.start("ns/none")


async def test_no_more_ask_at_once_than_can_be_answered_soon() -> None:
    ask = answers()
    found = await asyncio.gather(*[ask.start("ns/none") for _ in range(20)], return_exceptions=True)
    assert [type(each) for each in found].count(SettingsError) == 12
    with pytest.raises(UnknownJobError):
        await ask.start("ns/none")


async def test_a_job_of_more_pods_than_can_be_played_is_refused() -> None:
    with pytest.raises(UnknownJobError, match="2000000000 pods: at most 100000"):
        await asked(GOOD.replace("s: 2", "s: 2000000000").replace("m: 2", "m: 2000000000"))


async def test_a_tenant_asks_for_its_own_namespaces_alone() -> None:
    with pytest.raises(SettingsError, match="may not see what is in the namespace ns"):
        await asked(GOOD, viewer=TENANT)


async def test_a_tenant_reads_no_names_of_other_namespaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await asked(GOOD)
    victims = {"preempted": ["ns/secret", "elsewhere/own"], "preempts": 2}
    monkeypatch.setattr(
        "gang_tools.simulate.answering.answer", lambda *_, **__: found.model_copy(update=victims)
    )
    own = GOOD.replace("namespace: ns", "namespace: elsewhere")
    assert (await asked(own, viewer=TENANT)).preempted == ["elsewhere/own", "1 more"]
    assert (await asked(own)).preempted == ["ns/secret", "elsewhere/own"]


async def test_a_manifest_is_read_when_it_is_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, read = answers(), list[str]()

    def no_job(manifest: str, _: Viewer) -> list[Object]:
        read.append(manifest)
        return []

    monkeypatch.setattr("gang_tools.page.asking._read", no_job)
    asks = [ask.forecast(str(number), "", ALL) for number in range(20)]
    await asyncio.gather(*asks, return_exceptions=True)
    assert read == [str(number) for number in range(8)]
