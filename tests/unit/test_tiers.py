from dataclasses import dataclass
from pathlib import Path

from tests.tiers import FIRST, in_order

CLUSTER = Path(__file__).parents[1] / "cluster"


@dataclass(frozen=True)
class Item:
    path: Path
    name: str


def test_the_longest_files_go_first_and_the_others_by_their_numbers_of_tests() -> None:
    few, many = Path("test_few.py"), Path("test_many.py")
    long, longest = Path(f"{FIRST[1]}.py"), Path(f"{FIRST[0]}.py")
    items = [Item(path, name) for path in (few, long, many, longest) for name in "ab"]
    items.append(Item(many, "c"))

    assert [(item.path, item.name) for item in in_order(items)] == [
        *((longest, name) for name in "ab"),
        *((long, name) for name in "ab"),
        *((many, name) for name in "abc"),
        *((few, name) for name in "ab"),
    ]


def test_the_files_that_go_first_are_there() -> None:
    assert {name for name in FIRST if not (CLUSTER / f"{name}.py").exists()} == set()
