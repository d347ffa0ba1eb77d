"""The documents that a user reads, cut into the parts that a test can check."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from typing_extensions import override

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = tuple(
    sorted(
        [
            *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "AGENTS.md")),
            *(ROOT / "docs").rglob("*.md"),
            ROOT / "scheduler-config" / "README.md",
        ]
    )
)
"""Every document but the changelog, which is about its day."""

Object = dict[str, Any]

_FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_INLINE: Final = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a document."""

    path: Path
    line: int
    language: str
    text: str

    @override
    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"

    @property
    def parts(self) -> list[Any]:
        """What a YAML block says, part by part."""
        return [each for each in yaml.safe_load_all(self.text) if each]

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command of a console block, without prompts, comments and pipes."""
        joined = self.text.replace("\\\n", " ")
        lines = [line for line in joined.splitlines() if line.startswith("$ ")]
        return [words for line in lines for words in words_of(line.removeprefix("$ "))]


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a lesson as it is typed, and the output that the text shows."""

    command: str
    shown: tuple[str, ...]

    def is_shown_by(self, output: str) -> bool:
        """Return whether output is what is shown, but for blanks, and for what `…` stands for.

        That is a part of a line; `…` as a line stands for any number of lines.
        """
        lines = [_line_of(line) for line in self.shown]
        return re.fullmatch("".join(lines), output.rstrip("\n") + "\n") is not None


def _line_of(shown: str) -> str:
    if shown.strip() == "…":
        return r"(?:.*\n)*?"
    words = (re.escape(word).replace("…", ".*") for word in shown.split())
    return r" *" + r" +".join(words) + r" *\n"


def steps(path: Path) -> list[Step]:
    """Return the commands of a document's console blocks, in order, with what each one prints."""
    found: list[Step] = []
    for block in blocks("console"):
        if block.path == path:
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, *shown = part.rstrip("\n").split("\n")
                found.append(Step(command, tuple(shown)))
    return found


def blocks(language: str) -> list[Block]:
    """Return the blocks of a language in all documents."""
    return [
        Block(path, text[: found.start()].count("\n") + 1, found[2], _flush_left(found))
        for path in DOCUMENTS
        for text in [path.read_text()]
        for found in _FENCE.finditer(text)
        if found[2] == language
    ]


def _flush_left(found: re.Match[str]) -> str:
    return "\n".join(line.removeprefix(found[1]) for line in found[3].splitlines())


def words_of(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line of shell."""
    # What runs inside a word is no command of its own here.
    line = re.sub(r"\$\([^()]*\)", "substituted", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("|&;"):
            if words:
                yield words
            words = []
        else:
            words.append(word)
    if words:
        yield words


def prose(path: Path) -> str:
    """Return a document without its fenced blocks."""
    return _FENCE.sub("", path.read_text())


def links(path: Path) -> list[str]:
    """Return where a document links to."""
    return _LINK.findall(prose(path))


def inline(path: Path) -> list[str]:
    """Return what a document has as code within its sentences."""
    return _INLINE.findall(prose(path))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    plain = (re.sub(r"[`*]", "", heading).lower() for heading in _HEADING.findall(prose(path)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def objects() -> dict[str, Object]:
    """Return the Kubernetes objects in the documents' YAML, by where each one stands."""
    return {
        f"{block} {part['kind']} {part.get('metadata', {}).get('name', '')}".strip(): part
        for block in blocks("yaml")
        for part in block.parts
        if isinstance(part, dict) and "apiVersion" in part
    }
