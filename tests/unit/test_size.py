"""The count of lines, files and constants that `make check` compares."""

from pathlib import Path

import pytest

from tests.size import constants, excess, measured

MODULE = '''"""Says what it is for."""

A = 1
B: Final = (0.5, "x")
C = A * 60
D: int
E = "1"
F = True

def f():
    G = 2
'''


def test_numbers_of_a_module_are_counted() -> None:
    assert constants(MODULE) == 3


def test_a_folder_is_counted_with_what_lies_in_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "m.py").write_text(MODULE)
    (tmp_path / "n.py").write_text("X = 5\n")
    (tmp_path / "other.txt").write_text("1\n")
    assert measured(tmp_path) == {"lines": 12, "files": 2, "constants": 4}


@pytest.mark.parametrize(("lines", "said"), [(10, 0), (11, 1)])
def test_only_more_than_recorded_is_too_much(lines: int, said: int) -> None:
    found = {"lines": lines, "files": 1}
    wrong = excess("extender", found, {"lines": 10, "files": 1})
    assert len(wrong) == said
    assert all("11 lines" in each and "pyproject.toml" in each for each in wrong)
