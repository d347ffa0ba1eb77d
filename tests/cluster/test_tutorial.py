"""Each lesson of the tutorial can be followed to the letter, and shows what is seen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.lessons import LESSONS, PLAYGROUND, Terminal
from tests.documents import steps


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """The second terminal, beside the one with the playground."""
    with Terminal.beside_playground(tmp_path_factory.mktemp("tutorial")) as terminal:
        yield terminal


def test_the_tutorial_begins_with_a_playground() -> None:
    commands = [step.command for lesson in LESSONS for step in steps(lesson)]
    assert commands.index(PLAYGROUND) == 0
    assert commands.count(PLAYGROUND) == 1


@pytest.mark.parametrize("lesson", LESSONS, ids=[each.stem for each in LESSONS])
def test_a_lesson_can_be_followed_to_the_letter(lesson: Path, terminal: Terminal) -> None:
    with terminal.playing() as play:
        for step in steps(lesson):
            play(step)
