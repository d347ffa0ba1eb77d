"""Commands of the documents that run a benchmark: each is one that its program takes."""

import importlib.util
import re
import shlex
from importlib import import_module
from typing import Any

import pytest
import typer

from tests.documents import DOCUMENTS, ROOT, inline, words_of

PROGRAMS = dict(
    re.findall(
        r"^(bench[a-z-]*):.*\n\t\$\(BIN\)/python -m (\S+) \$\(ARGS\)$",
        (ROOT / "Makefile").read_text(),
        re.MULTILINE,
    )
)
COMMANDS = {
    " ".join(words): words
    for path in DOCUMENTS
    for each in inline(path)
    if each.startswith("make bench")
    for words in words_of(each)
}


def program(target: str) -> Any:
    """Return the command line of the program that `make` runs."""
    module = PROGRAMS[target]
    found = importlib.util.find_spec(module)
    is_package = found is not None and found.submodule_search_locations is not None
    return typer.main.get_command(import_module(f"{module}.__main__" if is_package else module).app)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_benchmark_takes_the_options_of_the_documents(words: list[str]) -> None:
    _, target, *rest = words
    options = shlex.split("".join(each.removeprefix("ARGS=") for each in rest))
    if options and "--help" not in options:
        program(target).make_context(target, options)


def test_every_benchmark_has_a_command_in_the_documents() -> None:
    assert {words[1] for words in COMMANDS.values()} == PROGRAMS.keys()
    assert len(PROGRAMS) == 5
