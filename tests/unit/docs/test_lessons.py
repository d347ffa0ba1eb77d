"""The lessons are short, and a lesson that shows something else than what is printed is found."""

from pathlib import Path

import pytest

from tests.documents import DOCUMENTS, ROOT, Step, links, steps

LESSONS = sorted((ROOT / "docs/tutorial").glob("*.md"))
PRINTED = """NAME      REASON    AGE
job-a-1   Waiting   3s
job-b-2             4s
"""


@pytest.mark.parametrize("lesson", LESSONS, ids=[each.stem for each in LESSONS])
def test_a_lesson_is_short_and_shows_what_is_seen(lesson: Path) -> None:
    assert len(lesson.read_text().split()) <= 350
    found = steps(lesson)
    assert sum(bool(step.shown) for step in found) >= 2
    assert found[-1].command.startswith("kubectl delete "), "a lesson cleans up"


def test_the_command_is_what_follows_the_prompt() -> None:
    first, second, *_ = steps(LESSONS[0])
    assert first == Step("make playground", ())
    assert second.command == "kubectl get nodes"
    assert second.shown[0].split()[0] == "NAME"


@pytest.mark.parametrize(
    "shown",
    [
        ("NAME REASON AGE", "job-a-1 Waiting 3s", "job-b-2 4s"),
        ("NAME REASON AGE", "job-a-… Waiting …", "job-b-… …"),
        ("…", "job-a-… Waiting …", "…"),
        ("…", "job-b-… …"),
        ("…", "NAME …", "job-a-… …", "…", "job-b-2 4s", "…"),
    ],
)
def test_what_differs_is_left_open(shown: tuple[str, ...]) -> None:
    assert Step("kubectl get x", shown).is_shown_by(PRINTED)


@pytest.mark.parametrize(
    "shown",
    [
        ("NAME REASON AGE", "job-a-… Running …", "job-b-… …"),
        ("NAME REASON AGE", "job-a-… Waiting …"),
        ("NAME REASON AGE", "job-a-… Waiting …", "job-b-… …", "job-c-… …"),
        ("…", "job-b-… …", "job-a-… …", "…"),
        ("…", "job-a-… Waiting …"),
        ("NAMES REASON AGE", "…"),
    ],
)
def test_another_word_line_or_order_is_found(shown: tuple[str, ...]) -> None:
    assert not Step("kubectl get x", shown).is_shown_by(PRINTED)


def test_pictures_are_few_and_small() -> None:
    pictures = [*(ROOT / "docs/pictures").iterdir()]
    assert len(pictures) <= 3
    for each in pictures:
        assert each.suffix == ".png"
        assert each.stat().st_size <= 150_000, each
    shown = {(page.parent / link).resolve() for page in DOCUMENTS for link in links(page)}
    assert set(pictures) <= shown
