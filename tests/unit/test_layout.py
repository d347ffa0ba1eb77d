"""What imports what: the map of AGENTS.md, and `tests`, which no import contract looks at."""

import re
from collections.abc import Mapping
from pathlib import Path

import grimp
import pytest

TESTS = Path(__file__).parents[1]
MAP = TESTS.parent / "AGENTS.md"
PACKAGES = ("extender", "gang_tools")
ROW = re.compile(
    r"^\| (?P<folders>`(?:extender|gang_tools)/[^|]*) \| [^|]* \| (?P<imports>[^|]*) ?\|$",
    re.M,
)
NAME = re.compile(r"`(?:extender/|gang_tools/)?([a-z_]+)(?:\.py)?`")
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
BENCHMARK = re.compile(r"^\s*(?:from|import) tests\.bench\b", re.MULTILINE)


def imports_of_folders() -> dict[str, set[str]]:
    """Return, for each folder and file of both packages, the others that it imports itself."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    found: dict[str, set[str]] = {}
    for module in sorted(graph.modules - {*PACKAGES, "gang_tools.__main__"}):
        own = found.setdefault(module.split(".")[1], set())
        own |= {other.split(".")[1] for other in graph.find_modules_directly_imported_by(module)}
    return {folder: imports - {folder} for folder, imports in found.items()}


def faults(text: str, imports: Mapping[str, set[str]]) -> list[str]:
    """Return a sentence for each line of the map that is missing or wrong, with what mends it."""
    wrong, without = [], dict(imports)
    for row in ROW.finditer(text):
        folders = NAME.findall(row["folders"])
        wrong += [
            f"`{folder}` has two lines in the map, or is not in a package"
            for folder in folders
            if without.pop(folder, None) is None
        ]
        found = set[str]().union(*(imports.get(folder, ()) for folder in folders)) - {*folders}
        if found != set(NAME.findall(row["imports"])):
            cell = ", ".join(f"`{name}`" for name in sorted(found))
            wrong.append(f"the line of {row['folders']} should end with: | {cell} |")
    return [*wrong, *(f"the folder {folder} has no line in the map" for folder in without)]


def test_each_class_has_a_name_of_its_own() -> None:
    """A name says which class it is; only `extender/api` has a kind in several forms."""
    found: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((TESTS.parent / package).rglob("*.py")):
            for name in CLASS.findall(path.read_text()):
                found.setdefault(name, []).append(str(path.relative_to(TESTS.parent / package)))
    twice = {name: files for name, files in found.items() if len(files) > 1}
    assert len(found) > len(twice) > 0, "no classes were found"
    forms = {name for name, files in twice.items() if all(f.startswith("api/") for f in files)}
    assert not twice.keys() - forms, {name: twice[name] for name in twice.keys() - forms}


def test_the_map_in_agents_md_says_what_each_folder_imports() -> None:
    """The last column names every folder that is imported directly, and no other."""
    wrong = faults(MAP.read_text(), imports_of_folders())
    assert not wrong, "Mend the map in AGENTS.md:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "want"),
    {
        "right": ("| `extender/a` | does | `b` |\n| `extender/b.py` | does | |", []),
        "two folders in a line": ("| `extender/a`, `extender/b` | do | |", []),
        "an import is missing": (
            "| `extender/a` | does | |\n| `extender/b` | does | |",
            ["the line of `extender/a` should end with: | `b` |"],
        ),
        "an import is gone": (
            "| `extender/a` | does | `b` |\n| `extender/b` | does | `a` |",
            ["the line of `extender/b` should end with: |  |"],
        ),
        "a line is missing": (
            "| `extender/a` | does | `b` |",
            ["the folder b has no line in the map"],
        ),
        "a folder is gone": (
            "| `extender/a` | does | `b` |\n| `extender/b` | does | |\n| `extender/c` | does | |",
            ["`c` has two lines in the map, or is not in a package"],
        ),
    }.values(),
)
def test_a_fault_in_the_map_says_what_mends_it(text: str, want: list[str]) -> None:
    assert faults(text, {"a": {"b"}, "b": set()}) == want


def test_no_test_of_the_product_imports_a_benchmark() -> None:
    """The benchmarks are a product of their own, whose tests stand beside them."""
    importers = {
        file.relative_to(TESTS).parts[0]
        for file in TESTS.rglob("*.py")
        if BENCHMARK.search(file.read_text())
    }
    assert importers == {"bench"}
