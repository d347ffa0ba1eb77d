"""Answers about a job that somebody pastes, and the faults of its manifest."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
import structlog
import yaml
from structlog.testing import LogCapture

from extender.config.sections import SettingsError
from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.runtime.faults import FAULTS
from extender.state.queue import events as qv
from extender.state.queue.records import NamespaceInfo
from gang_tools.page.access import Viewer
from gang_tools.page.asking import Asking
from gang_tools.page.following import FollowedCluster
from gang_tools.simulate import answering
from gang_tools.simulate.answering import Forecast, Object, UnknownJobError
from tests.harness import objects
from tests.makers import NAMESPACE, ManualClock, nodes, observe, pod
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


async def test_no_more_ask_at_once_than_can_be_answered_soon_and_each_person_once() -> None:
    ask = answers()

    async def about_none(person: int) -> str:
        with pytest.raises((SettingsError, UnknownJobError)) as error:
            await ask.forecast("kind: Deployment", "", Viewer(str(person)))
        return str(error.value)[:8]

    found = await asyncio.gather(*[about_none(number % 10) for number in range(20)])
    assert found == ["the mani"] * 8 + ["too many"] * 2 + ["your las"] * 8 + ["too many"] * 2
    assert await about_none(0) == "the mani"


class EnoughError(Exception):
    """Enough pauses were made."""


async def estimating(
    ask: Asking, monkeypatch: pytest.MonkeyPatch, *steps: tuple[bool, Callable[[], object]]
) -> list[tuple[float, dict[str, int | None]]]:
    """Return each pause with what is expected then; a step says who looks, and what comes after."""
    found, left = list[tuple[float, dict[str, int | None]]](), [*steps]

    async def sleep(seconds: float) -> None:
        found.append((seconds, dict(ask._followed.starts)))
        left.pop(0)[1]()
        if not left:
            raise EnoughError

    own = SimpleNamespace(sleep=sleep, to_thread=asyncio.to_thread)
    monkeypatch.setattr("gang_tools.page.asking.asyncio", own)
    with pytest.raises(EnoughError):
        await ask.keep_estimating(lambda: left[0][0])
    return found


def nothing() -> None:
    """Change nothing."""


async def test_starts_are_estimated_once_a_minute_while_somebody_looks_and_things_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = answers(held=3)
    followed, never = ask._followed, {"ns/waits": None}

    def change() -> None:
        followed._queues.apply(qv.Applied(workload("newer", 1)))

    version = followed.version
    steps = (False, nothing), (True, nothing), (True, change), (False, nothing), (True, nothing)
    assert await estimating(ask, monkeypatch, *steps) == [
        (1, {}), (60, never), (1, never), (1, never), (60, {**never, "ns/newer": None}),
    ]  # fmt: skip
    assert followed.version == version + 3  # two estimates and one change


async def test_what_was_evicted_has_no_start_before_its_pods_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = answers(held=3)
    observe(ask._followed._cluster, pod("stays", 1, on="n0", workload="ns/waits"))
    assert await estimating(ask, monkeypatch, (True, nothing)) == [(60, {})]


async def test_an_estimate_that_fails_leaves_no_old_one_and_is_made_again_after_the_next_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask, before, lines = answers(held=3), FAULTS.counts["page"], LogCapture()
    structlog.configure(processors=[lines])
    works = answering.starts_of

    def fail() -> None:
        monkeypatch.setattr(answering, "starts_of", lambda *_, **__: 1 / 0)
        ask._followed._queues.apply(qv.Applied(workload("newer", 1)))

    def mend() -> None:
        monkeypatch.setattr(answering, "starts_of", works)
        ask._followed._queues.apply(qv.Applied(workload("newest", 1)))

    pauses = await estimating(ask, monkeypatch, (True, fail), (True, mend), (True, nothing))
    assert [(seconds, [*starts]) for seconds, starts in pauses] == [
        (60, ["ns/waits"]), (60, []), (60, ["ns/waits", "ns/newer", "ns/newest"]),
    ]  # fmt: skip
    assert FAULTS.counts["page"] == before + 1
    assert [line["event"] for line in lines.entries] == ["internal error"]


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
    asks = [ask.forecast(str(number), "", Viewer(str(number))) for number in range(20)]
    await asyncio.gather(*asks, return_exceptions=True)
    assert read == [str(number) for number in range(8)]
