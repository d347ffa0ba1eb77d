"""The file of `simulate --html` in a browser that has no network."""

from pathlib import Path
from typing import Literal

import pytest
import yaml
from playwright.sync_api import Browser, expect
from typer.testing import CliRunner

from gang_tools.cli.main import app
from tests.cluster.page.conftest import opened, picture
from tests.documents import ROOT

ODD = "</script><b>odd"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a simulation with odd names."""
    scenario = yaml.safe_load((ROOT / "docs/examples/two-gangs.yaml").read_text())
    scenario["jobs"][0]["name"] = ODD
    scenario["jobs"][1]["queue"] = "q"
    scenario["queues"] = [{"name": "q", "quota": {"cpu": 24}}]
    folder: Path = tmp_path_factory.mktemp("simulated")
    (folder / "<b>.yaml").write_text(yaml.safe_dump(scenario))
    words = ["simulate", str(folder / "<b>.yaml"), "--html", str(folder / "shown.html")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return (folder / "shown.html").as_uri()


@pytest.mark.parametrize(
    ("width", "scheme", "ground"),
    [(1360, "dark", "rgb(17, 22, 28)"), (390, "light", "rgb(245, 247, 249)")],
)
def test_a_simulation_is_one_file_that_needs_no_network(
    browser: Browser, shown: str, width: int, scheme: Literal["dark", "light"], ground: str
) -> None:
    with opened(browser, width, offline=True, color_scheme=scheme) as page:
        seen: list[str] = []
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("console", lambda message: seen.append(message.text))
        page.on("request", lambda request: seen.append(request.url))
        page.goto(shown)

        use = page.get_by_role("img", name="Use of nodes, %, gang-extender")
        expect(use.locator("path[stroke='#56b4e9']")).to_have_count(1)
        waiting = page.get_by_role("img", name="Waiting jobs")
        expect(waiting.locator("path[stroke='#e69f00']")).to_have_count(2)
        expect(waiting.locator("text", has_text=ODD)).to_have_count(2)
        expect(page.locator(".chart svg")).to_have_count(5)
        use.hover()
        expect(use.locator("div", has_text="cpu").last).to_be_visible()
        waiting.last.hover()
        expect(waiting.last.locator("div", has_text=ODD).last).to_be_visible()

        expect(page.locator("h1")).to_have_text("<b>.yaml")
        alone = page.locator("section", has_text="kube-scheduler alone").first
        expect(alone.locator(".numbers > div", has_text="half-placed")).to_contain_text("2gangs")
        row = page.locator("tr", has_text=ODD).last
        expect(row.locator("td")).to_have_text([ODD, "1", "1", *4 * ["0 s"], "0"])
        expect(page.locator("b", has_text="odd")).to_have_count(0)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        assert page.evaluate("document.documentElement.scrollWidth") == width
        picture(page, f"simulated-{scheme}")
        assert seen == [shown]
