"""The check of words: what it finds, and that a count may fall and not rise."""

from pathlib import Path

import pytest

from tests.words import complaints, counted, places


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "extender" / "gang"
    (folder / "status").mkdir(parents=True)
    (folder / "plan.py").write_text('"""Pods who wait."""\nbe_told = tells\n')
    (folder / "status" / "report.py").write_text("# Whoever waits is told.\n# wholly retold\n")
    (tmp_path / "README.md").write_text("Nobody.\nOnly people are *who*.\n")
    (tmp_path / "notes.txt").write_text("who\n")
    return tmp_path


def test_words_are_counted_by_part_also_within_names(project: Path) -> None:
    found = list(places(project))

    assert counted(found) == {"README.md": 1, "extender": 5}
    assert [each.words for each in found] == [
        ("Nobody",),
        ("who",),
        ("told", "tells"),
        ("Whoever", "told"),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    {
        "of a person": ("A user who may create pods, administrators whom it concerns.", []),
        "of a pod beside a person": ("A user, and a pod who waits.", ["who"]),
        "of a thing that is no person": ("a userdata who", ["who"]),
    }.values(),
)
def test_people_are_who(tmp_path: Path, line: str, words: list[str]) -> None:
    (tmp_path / "README.md").write_text(line)

    assert [word for each in places(tmp_path) for word in each.words] == words


def test_a_count_may_fall_and_not_rise(project: Path) -> None:
    found = list(places(project))

    assert complaints(found, {"README.md": 1, "extender": 9}) == []
    assert complaints(found, {"extender": 5}) == [
        "README.md has 1 of these words, and may have 0:",
        "  README.md:1: Nobody.",
    ]
