"""The HTML file of a simulation; `tests/cluster/page/test_simulated.py` opens it in a browser."""

import json
import re
import sys
from html import escape, unescape
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gang_tools.cli.main import app
from gang_tools.page import looks, simulated
from gang_tools.simulate.from_scenario import world_of
from gang_tools.simulate.report import SimulationReport, play_all
from gang_tools.simulate.scenario import Scenario
from tests.documents import ROOT

TWO = str(ROOT / "docs/examples/two-gangs.yaml")
ODD = "</script><b>\"'&"


def charts(file: Path) -> dict[str, dict[str, Any]]:
    """Return the options of each chart by its label."""
    found = re.findall(r'aria-label="([^"]*)" data-options="([^"]*)"', file.read_text())
    return {unescape(label): json.loads(unescape(options)) for label, options in found}


def played(*jobs: dict[str, Any], **more: Any) -> SimulationReport:
    nodes = [{"count": 2, "allocatable": {"cpu": 4}}]
    return play_all(world_of(Scenario.model_validate({"nodes": nodes, "jobs": [*jobs], **more})))


def test_both_runs_have_the_same_lines_on_the_same_axes(tmp_path: Path) -> None:
    file = tmp_path / "two.html"
    result = CliRunner().invoke(app, ["simulate", TWO, "--html", str(file)])
    assert result.exit_code == 0
    assert "gang-extender: 2 of 2 jobs started" in result.stdout

    found = charts(file)
    kinds, runs = ("Use of nodes, %", "Waiting jobs"), ("kube-scheduler alone", "gang-extender")
    assert [*found] == [f"{kind}, {run}" for kind in kinds for run in runs]
    for kind in kinds:
        alone, with_gangs = (found[f"{kind}, {run}"] for run in runs)
        assert (alone["xAxis"], alone["yAxis"]) == (with_gangs["xAxis"], with_gangs["yAxis"])
        for one, other in zip(alone["series"], with_gangs["series"], strict=True):
            assert (one["name"], one["color"]) == (other["name"], other["color"])
    cpu = found["Use of nodes, %, gang-extender"]
    assert cpu["series"][0]["data"] == [[0, 50], [10, 50], [15, 0]]
    assert (cpu["xAxis"]["max"], cpu["yAxis"]["max"]) == (15, 100)
    assert "<td>train</td><td>1</td><td>1</td><td>0 s</td>" in file.read_text()


def test_axes_reach_the_highest_of_both(tmp_path: Path) -> None:
    job = {"name": "j", "queue": "q", "count": 8, "requests": {"cpu": 1}, "runFor": 5}
    queue = {"name": "q", "quota": {"cpu": 3}}  # alone, none of them waits
    simulated.write(tmp_path / "q.html", "q", played(job, queues=[queue], compareAlone=True))

    found = charts(tmp_path / "q.html")
    for run in ("kube-scheduler alone", "gang-extender"):
        assert found[f"Waiting jobs, {run}"]["yAxis"]["max"] == 5


def test_names_are_no_markup(tmp_path: Path) -> None:
    file = tmp_path / "odd.html"
    simulated.write(file, ODD, played({"name": ODD, "runFor": 5, "requests": {"cpu": 9}}))

    text = file.read_text()
    assert f"{escape(ODD)} waits: no node has room" in text
    assert '<b>"' not in text
    assert ODD not in text
    assert charts(file)["Waiting jobs, gang-extender"]["series"][0]["name"] == ODD
    assert text.count("</script>") == looks.template("simulated.html").count("</script>")


def test_only_the_highest_lines_are_drawn(tmp_path: Path) -> None:
    jobs = (
        {"name": f"j{n}", "count": n + 1, "requests": {"cpu": 4}, "runFor": 5} for n in range(9)
    )
    simulated.write(tmp_path / "many.html", "many", played(*jobs))

    waiting = charts(tmp_path / "many.html")["Waiting jobs, gang-extender"]
    assert [each["name"] for each in waiting["series"]] == [f"j{n}" for n in range(8, 1, -1)]
    assert "Waiting jobs (the 7 with most)" in (tmp_path / "many.html").read_text()


def test_what_cannot_be_written_is_said_after_the_answer(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", TWO, "--html", str(tmp_path / "none" / "x")])
    assert result.exit_code == 1
    assert "2 of 2 jobs started" in result.stdout
    assert result.stderr.startswith("gang-extender: [Errno 2]")


def test_an_answer_about_one_job_has_no_charts(tmp_path: Path) -> None:
    words = ["simulate", TWO, "--submit", "job.yaml", "--html", str(tmp_path / "x.html")]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stderr) == (2, "gang-extender: --html shows no --submit\n")


def test_it_says_which_extra_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    monkeypatch.delitem(sys.modules, "gang_tools.page.simulated")
    monkeypatch.delattr("gang_tools.page.simulated")
    result = CliRunner().invoke(app, ["simulate", TWO, "--html", str(tmp_path / "x.html")])
    assert result.exit_code == 1
    want = "gang-extender: nicegui is missing: pip install 'gang-extender[page]'\n"
    assert (result.stdout, result.stderr) == ("", want)
