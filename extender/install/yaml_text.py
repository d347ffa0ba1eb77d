"""Changes in the text of a YAML file: all other lines, comments and order stay as they are."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Self

import yaml

FieldPath = Sequence[str | int]
"""As `("spec", "volumes", 0)`."""

_WIDE: Final = 1000
"""No line of what is put in is broken."""


class InstallError(ValueError):
    """A file cannot be changed; the text names the file and the field."""


@dataclass(frozen=True, slots=True)
class YamlText:
    """One document: its text, and what it says."""

    name: str
    """For messages."""
    text: str
    value: Any
    node: yaml.Node

    @classmethod
    def read(cls, name: str, text: str) -> Self:
        """Return a file with one object. Raises InstallError."""
        try:
            node = yaml.compose(text, yaml.SafeLoader)
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InstallError(f"{name}: is not one YAML document: {error}") from error
        if node is None or not isinstance(value, dict):
            raise InstallError(f"{name}: is no object")
        return cls(name, text if text.endswith("\n") else f"{text}\n", value, node)

    def error(self, path: FieldPath, said: str) -> InstallError:
        """Return an error that names a field of this file."""
        return InstallError(f"{self.name}: {field_name(path)}: {said}")

    def get(self, *path: str | int) -> Any:  # noqa: ANN401  # what a person wrote
        """Return what a field says; None where it is not there."""
        found = self.value
        for part in path:
            try:
                found = found[part]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    def with_item(self, path: FieldPath, value: object, at: int | None = None) -> "YamlText":
        """Return it with an item in a list, at that place or at the end. Raises InstallError."""
        *above, name = path
        if self.get(*path) is None:
            return self.with_key(above, str(name), [value])
        node = self._node(path)
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(path, "is no list")
        if node.flow_style:
            raise self.error(path, "is written in one line: write each item on a line of its own")
        place = len(node.value) if at is None else at
        line = _end(node) if place == len(node.value) else node.value[place].start_mark.line

        want, at_path = self._copied(path)
        at_path.insert(place, value)
        text = self._with_lines(line, _lines([value], node.start_mark.column))
        return self._changed(path, text, want)

    def with_key(self, path: FieldPath, name: str, value: object) -> "YamlText":
        """Return it with a field at the end of an object that has it not. Raises InstallError."""
        if self.get(*path) is None:
            *above, last = path
            return self.with_key(above, str(last), {name: value})
        full = [*path, name]
        if name in self.get(*path):
            raise self.error(full, "is there, and empty: take the field out")
        node = self._node(path)
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            raise self.error(path, "is written in one line: write each field on a line of its own")

        want, at_path = self._copied(path)
        at_path[name] = value
        text = self._with_lines(
            _end(node), _lines({name: value}, node.value[0][0].start_mark.column)
        )
        return self._changed(full, text, want)

    def with_scalar(self, path: FieldPath, value: str) -> "YamlText":
        """Return it with other text in a field that is there. Raises InstallError."""
        node = self._node(path)
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(path, "is no text")
        start, end = node.start_mark.index, node.end_mark.index
        *above, name = path
        want, at_path = self._copied(above)
        at_path[name] = value
        return self._changed(path, self.text[:start] + value + self.text[end:], want)

    def _copied(self, path: FieldPath) -> tuple[Any, Any]:
        """Return a copy of what it says, and what that has at a path."""
        copied = found = deepcopy(self.value)
        for part in path:
            found = found[part]
        return copied, found

    def _node(self, path: FieldPath) -> yaml.Node:
        found = self.node
        for part in path:
            if isinstance(part, int):
                found = found.value[part]
            else:
                found = next(value for key, value in found.value if key.value == part)
        return found

    def _with_lines(self, line: int, lines: list[str]) -> str:
        before = self.text.splitlines(keepends=True)
        return "".join([*before[:line], *lines, *before[line:]])

    def _changed(self, path: FieldPath, text: str, want: object) -> "YamlText":
        """Return the file with new text, once that says what is meant and nothing else."""
        try:
            found = YamlText.read(self.name, text)
        except InstallError:
            found = self
        if found.value != want:
            raise self.error(path, "cannot be changed as the file is written: use plain lists")
        return found


def field_name(path: FieldPath) -> str:
    """Return a path as `spec.volumes[0].name`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def _lines(value: object, column: int) -> list[str]:
    text = yaml.safe_dump(value, sort_keys=False, width=_WIDE)
    return [" " * column + line for line in text.splitlines(keepends=True)]


def _end(node: yaml.Node) -> int:
    """Return the line after a node: its end mark may be further on, behind empty lines."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    mark = node.end_mark
    return int(mark.line if mark.column == 0 else mark.line + 1)
