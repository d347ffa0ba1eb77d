"""The text of a simulation, and its command."""

import re

import pytest
from pydantic.alias_generators import to_camel
from typer.testing import CliRunner

from gang_tools.cli.main import app
from gang_tools.simulate import scenario as scenarios
from gang_tools.simulate.from_scenario import world_of
from gang_tools.simulate.report import duration, play_all, text
from tests.documents import ROOT

TWO = ROOT / "docs/examples/two-gangs.yaml"


def test_the_text_says_what_became_of_both() -> None:
    shown = text(play_all(world_of(scenarios.load(TWO))))
    assert "kube-scheduler alone: 0 of 2 jobs started" in shown
    assert "gangs half-placed: 2, 2 of them at the end, forever" in shown
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
