"""The page and the text of a simulation."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from pydantic.alias_generators import to_camel
from typer.testing import CliRunner
from typing_extensions import override

from extender.cli.main import app
from extender.simulate import scenario as scenarios
from extender.simulate.building import world_of
from extender.simulate.page import page
from extender.simulate.playing import play_all
from extender.simulate.report import duration, text
from extender.simulate.scenario import Scenario
from tests.documents import ROOT

TWO = ROOT / "docs/examples/two-gangs.yaml"


class Balance(HTMLParser):
    """Counts what is open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.linked: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.linked += [str(value) for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag, attrs

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def drawn(found: Scenario) -> str:
    played = play_all(world_of(found), keep=True)
    return page(played.report, played.runs, title="a <title>")


def many(nodes: int, jobs: int) -> Scenario:
    queue = {"name": "queue", "quota": {"cpu": 50}}
    job: dict[str, Any] = {"name": "job", "queue": "queue", "pods": 2, "requests": {"cpu": 2}}
    arrivals = {"every": 10, "count": jobs}
    return Scenario.model_validate(
        {
            "nodes": [{"name": "node", "count": nodes, "allocatable": {"cpu": 4}}],
            "queues": [queue],
            "jobs": [{**job, "runFor": {"uniform": [50, 500]}, "arrivals": arrivals}],
        }
    )


@pytest.mark.parametrize(
    "found", [scenarios.load(TWO), many(10, 20), many(150, 100)], ids=["two", "few", "many"]
)
def test_the_page_is_whole_and_needs_nothing_else(found: Scenario) -> None:
    html = drawn(found)
    balance = Balance()
    balance.feed(html)
    assert balance.open == []
    assert balance.linked == []
    assert not re.search(r"https?://(?!www\.w3\.org)|@import|url\(", html)
    assert "a &lt;title&gt;" in html
    assert not re.search(r"NaN|inf\b|None", html.split("<script>")[0])


def test_a_pod_is_a_bar_on_its_node_for_its_time() -> None:
    html = drawn(scenarios.load(TWO))
    assert html.count('class="pod idle"') == 6  # three pods of each, for nothing
    assert html.count('class="pod"') == 8
    assert "<title>render-0, 10 m to 15 m</title>" in html


def test_the_text_says_what_became_of_both() -> None:
    shown = text(play_all(world_of(scenarios.load(TWO))).report)
    assert "kube-scheduler alone: 0 of 2 jobs started" in shown
    assert "gangs half-placed: 2, 2 of them at the end, for ever" in shown
    assert "gang-extender: 2 of 2 jobs started, 2 finished" in shown
    assert "gangs half-placed: 0" in shown


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0, "0 s"), (0.25, "0.2 s"), (59.6, "60 s"), (119, "119 s"), (150, "2 m 30 s"),
     (3600, "1 h"), (5400, "1 h 30 m"), (200_000, "2 d 7 h")],
)  # fmt: skip
def test_times_are_written_as_people_do(seconds: float, want: str) -> None:
    assert duration(seconds) == want


def test_the_reference_has_each_field_with_its_words() -> None:
    page = (ROOT / "docs/reference/simulate.md").read_text()
    for model in (
        *(scenarios.Scenario, scenarios.NodeClass, scenarios.QueueClass, scenarios.JobClass),
        *(scenarios.GangClass, scenarios.Arrivals, scenarios.Distribution, scenarios.LogNormal),
    ):
        for name, field in model.model_fields.items():
            words = " ".join((field.description or "").split())
            assert re.search(rf"^\| `{to_camel(name)}` \| .* \| {re.escape(words)} \|$", page, re.M)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["simulate"], 2),
        (["simulate", str(TWO), "--from-cluster"], 2),
        (["simulate", "nowhere.yaml"], 2),
        (["simulate", str(TWO), "-o", "json"], 0),
        (["explain", "job"], 2),
    ],
)
def test_exit_codes(words: list[str], code: int) -> None:
    assert CliRunner().invoke(app, words).exit_code == code
