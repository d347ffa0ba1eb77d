"""The lesson about waiting says what the page shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.cluster.lessons import LESSONS, PAGE, Terminal
from tests.cluster.page.conftest import opened, picture_for_docs
from tests.documents import steps

LESSON = LESSONS[-1]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal beside the one with the playground."""
    with Terminal.beside_playground(tmp_path) as terminal:
        yield terminal


def test_a_gang_starts_before_the_eyes_of_the_reader(browser: Browser, terminal: Terminal) -> None:
    with terminal.playing() as play, opened(browser) as page:
        for step in steps(LESSON):
            said = play(step)
            if step.command == PAGE:
                page.goto(said)
                page.get_by_role("link", name="Gangs").click()
                page.get_by_role("link", name="green").first.click()
                expect(page.locator(".gate", has_text="Room").first).to_contain_text("1 of 3")
                expect(page.locator(".state")).to_have_text("Waiting")
                picture_for_docs(page, "gang", 1360, 824)
            if "delete pods" in step.command:
                expect(page.locator(".state")).to_have_text("Started")
