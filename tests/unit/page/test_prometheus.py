"""The hours before the page started: what Prometheus has is put before the samples of the page."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from extender.config.settings import Settings
from extender.kube.client import KubeClient
from gang_tools.cli.main import app
from gang_tools.page import prometheus
from gang_tools.page.following import FollowedCluster
from gang_tools.page.history import SAMPLE_SECONDS, Sample
from tests.makers import ManualClock

pytestmark = pytest.mark.looptime
START = 1_800_000_000
URL = "http://prometheus.example.com/prefix/"
Answer = Callable[[httpx.Request], httpx.Response]
KNOWN = {
    prometheus.USE: {"a": {-120: "174.6", -60: "0"}},
    prometheus.WAITING: {"a": {-120: "0", -60: "0"}, "b": {-60: "3", 0: "4"}},
    prometheus.STARTED: {"": {-120: "2", 0: "1"}},
    prometheus.PREEMPTED: {"": {-60: "1"}},
}
"""Values by time after the start, by ClusterQueue."""


def known(request: httpx.Request) -> httpx.Response:
    """Answer as Prometheus does."""
    result = [
        {
            "metric": {"cluster_queue": queue} if queue else {},
            "values": [[START + at, value] for at, value in values.items()],
        }
        for queue, values in KNOWN[request.url.params["query"]].items()
    ]
    return httpx.Response(200, json={"status": "success", "data": {"result": result}})


def followed() -> FollowedCluster:
    """Return what follows an empty cluster, whose watches have been listed."""
    page = FollowedCluster(Settings(), cast("KubeClient", None), ManualClock(START + 0.7))
    for each in page.watches.needed:
        each.first_list.set()
    return page


@contextmanager
def recalling(
    monkeypatch: pytest.MonkeyPatch, page: FollowedCluster, answer: Answer, file: Path | None = None
) -> Iterator[asyncio.Task[Any]]:
    """Ask a Prometheus that answers so."""
    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(httpx, "AsyncClient", partial(httpx.AsyncClient, transport=transport))
    task = asyncio.ensure_future(prometheus.recall(URL, file, page))
    yield task
    task.cancel()


async def test_what_it_has_is_put_before_the_first_sample(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = list[httpx.Request]()
    (tmp_path / "token").write_text("sec\nret\n")

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return known(request)

    page = followed()
    with recalling(monkeypatch, page, answer, tmp_path / "token") as task:
        await task

    assert [*page.history.samples] == [
        Sample(START - 120, {"a": 175}, {}, 2, 0),
        Sample(START - 60, {}, {"b": 3}, 0, 1),
        Sample(START + 0.7, {}, {}, 1, 0),  # its own state, and what Prometheus has counted
    ]
    assert page.history.note.endswith("from Prometheus.")
    assert {each.url.path for each in asked} == {"/prefix/api/v1/query_range"}
    for each in asked:
        assert each.headers["Authorization"] == "Bearer secret"
        params = dict(each.url.params) | {"query": ""}
        start = START - 359 * 60
        assert params == {"query": "", "start": f"{start}", "end": f"{START}", "step": "60"}


def away(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route")


def odd(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text=known(request).text.replace("174.6", "NaN"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (away, "ConnectError: no route"),
        (lambda _: httpx.Response(503, text="Service Unavailable"), "503: Service Unavailable"),
        (lambda _: httpx.Response(200, text="<html>"), "JSONDecodeError"),
        (lambda _: httpx.Response(200, json={"status": "success"}), "KeyError: 'data'"),
        (lambda _: httpx.Response(200, json={"data": {"result": []}}), "no metrics of queues"),
        (lambda _: httpx.Response(200, json=[]), "TypeError"),
        (odd, "ValueError"),
    ],
)
async def test_a_failure_is_said_once_and_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, said: str
) -> None:
    page, answers = followed(), [answer, answer, known]

    with (
        capture_logs() as logs,
        recalling(monkeypatch, page, lambda request: answers[0](request)) as task,
    ):
        await asyncio.sleep(1)
        assert "six hours at most. Prometheus: " in page.history.note
        assert said in page.history.note
        assert len(page.history.samples) == 1
        version = page.version
        answers.pop(0)
        await asyncio.sleep(SAMPLE_SECONDS)
        assert page.version == version
        answers.pop(0)
        await task

    assert len(page.history.samples) == 3
    assert page.version == version + 1
    assert [each["event"] for each in logs] == ["no history from Prometheus"]


def test_an_address_without_a_scheme_is_wrong_use() -> None:
    result = CliRunner().invoke(app, ["page", "--prometheus", "prometheus:9090"])
    assert (result.exit_code, "prometheus:9090 is not" in result.output) == (2, True)


def test_a_token_without_an_address_is_wrong_use() -> None:
    result = CliRunner().invoke(app, ["page", "--prometheus-token-file", "token"])
    assert (result.exit_code, "give both" in result.output) == (2, True)
