"""`python -m tests.size`: lines, files and constants of both packages, against what is recorded.

`[tool.gang-extender.size.PACKAGE]` in pyproject.toml has the most of each. Lower these numbers with
each change that lowers the count. Raise one only in a commit of its own that says why.
"""

import ast
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def has_number(value: ast.expr) -> bool:
    """Return whether a number stands anywhere in an expression."""
    return any(
        isinstance(each, ast.Constant) and type(each.value) in {int, float}
        for each in ast.walk(value)
    )


def constants(text: str) -> int:
    """Count the assignments of a module's own level in which a number stands."""
    return sum(
        isinstance(each, ast.Assign | ast.AnnAssign)
        and each.value is not None
        and has_number(each.value)
        for each in ast.parse(text).body
    )


def measured(folder: Path) -> dict[str, int]:
    """Return the numbers of lines, files and numeric constants of the modules in a folder."""
    texts = [path.read_text() for path in folder.rglob("*.py")]
    return {
        "lines": sum(text.count("\n") for text in texts),
        "files": len(texts),
        "constants": sum(map(constants, texts)),
    }


def excess(package: str, found: Mapping[str, int], most: Mapping[str, int]) -> list[str]:
    """Return a sentence for each number that is above what is recorded."""
    return [
        f"{package}/ has {found[name]} {name}, more than the {limit} in pyproject.toml: delete as "
        "much as you add, or raise the number in a commit of its own that says why"
        for name, limit in most.items()
        if found[name] > limit
    ]


def main() -> int:
    """Print the numbers; return 1 where one is too high."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sizes: dict[str, dict[str, int]] = settings["tool"]["gang-extender"]["size"]
    wrong = []
    for package, most in sizes.items():
        found = measured(ROOT / package)
        of_each = ", ".join(
            f"{found[name]} {name} (at most {limit})" for name, limit in most.items()
        )
        print(f"{package}: {of_each}")
        wrong += excess(package, found, most)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
