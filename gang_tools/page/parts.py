"""The parts of all pages: the frame with its links and the search, cards, tables, commands."""

import html
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from fastapi import Request
from nicegui import context, ui

from gang_tools.page.access import Viewer, viewer_of
from gang_tools.page.looks import template
from gang_tools.page.showing import Draw, Showing, ViewKey
from gang_tools.page.views import Row

_PAGES: Final = {
    "Queues": "/queues", "Gangs": "/gangs", "Nodes": "/nodes", "Time": "/time",
    "What if": "/what-if",
}  # fmt: skip
_HEAD: Final = """<q-th :props="props" tabindex="0"
  @keydown.enter.space.prevent="props.sort(props.col)">{{ props.col.label }}</q-th>"""
"""The head of a column: Enter and Space sort by it, as a click does."""
GOOD: Final = frozenset(("Admitted", "Started", "Finished", "Bound", "Running"))
TROUBLE: Final = frozenset(("Evicted", "Refused", "Unschedulable", "Terminating"))


def follow(showing: Showing, key: ViewKey, draw: Draw) -> None:
    """Draw once a browser is connected, and after each change for as long as the page is open.

    For a request without a browser nothing is made and kept.
    """
    with context.client.content:
        wrong = words("This cannot be shown now. The log of the page has the reason.", "bad", "p")
    wrong.props("role=alert").set_visibility(False)

    def drawn() -> None:
        wrong.set_visibility(True)
        draw()
        wrong.set_visibility(False)

    def begin() -> None:
        showing.watch(key, drawn)
        drawn()

    context.client.on_connect(begin)
    context.client.on_delete(lambda: showing.leave(key, drawn))


@contextmanager
def frame(title: str, showing: Showing, request: Request) -> Iterator[Viewer]:
    """Draw the head of a page, and yield its viewer; what is made inside is the body."""
    viewer = viewer_of(request)
    ui.page_title(f"{title} · gang-extender")
    with ui.header().classes("top"):
        ui.link("gang-extender", "/").classes("brand")
        with ui.element("nav").props('aria-label="Lists"'):
            for name, path in _PAGES.items():
                link = ui.link(name, path).classes("here" if name == title else "")
                link.props('title="Key: {0}" aria-keyshortcuts={0}'.format(name[0].lower()))
        ui.space()
        if viewer.name:
            out = f'<button title="Sign out">{html.escape(viewer.name)}</button>'
            form = f'<form method="post" action="/login">{out}</form>'
            ui.html(form, sanitize=False).classes("out")
        live = ui.label().classes("live").props("role=status")
        search = ui.input(placeholder="Find: name (key: /)").classes("search")
        search.props('dense outlined aria-label="Find a workload, a job or a gang"')
        search.on("keydown.enter", lambda: ui.navigate.to(f"/find?name={quote(search.value)}"))

    def tell() -> None:
        live.text = f"⚠ {showing.trouble}" if showing.trouble else "● live"
        live.classes(add="old") if showing.trouble else live.classes(remove="old")

    follow(showing, ("trouble",), tell)
    yield viewer


@contextmanager
def card(title: str = "") -> Iterator[None]:
    """Draw a border around what is made inside, and a heading if there is a title."""
    with ui.element("section").classes("card column"):
        if title:
            words(title, tag="h2")
        yield


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page, which is left alone for as long as it shows the same."""

    name: str
    shown: Any
    draw: Callable[[Any], "Again | None"]
    """Draws what is shown, and may return what shows something else in the same place."""


Again = Callable[[Any], None]


class Parts:
    """Parts of a page in order; only those whose content changes are redrawn.

    So what somebody has focused, sorted or selected stays.
    """

    def __init__(self, layout: str = "stack") -> None:
        self._into = ui.element("div").classes(layout)
        self._there: dict[str, tuple[object, ui.element, Again | None]] = {}

    def show(self, parts: Iterable[Part]) -> None:
        """Show these parts and no others."""
        shown = {part.name: part for part in parts}
        for gone in [*self._there.keys() - shown.keys()]:
            self._there.pop(gone)[1].delete()
        for place, part in enumerate(shown.values()):
            if part.name not in self._there:
                with self._into:
                    self._there[part.name] = None, ui.element("div"), None
            before, box, again = self._there[part.name]
            if self._into.default_slot.children[place] is not box:
                box.move(target_index=place)
            if before == part.shown:
                continue
            if again is not None:
                again(part.shown)
            else:
                box.clear()
                with box:
                    again = part.draw(part.shown)
            self._there[part.name] = part.shown, box, again


def words(text: str, classes: str = "", tag: str = "span") -> ui.html:
    """Show text as it is: HTML is escaped."""
    return ui.html(html.escape(text), sanitize=False, tag=tag).classes(classes)


def tone(state: str) -> str:
    """Return the class of a state, whose word is always beside the colour."""
    return "good" if state in GOOD else "bad" if state in TROUBLE else "waits"


def numbers(shown: Mapping[str, object]) -> list[Part]:
    """Return numbers in large letters, each over its name."""

    def draw(each: tuple[str, object]) -> None:
        with ui.element("div").classes("card"):
            words(str(each[1]), tag="b")
            words(each[0], "quiet")

    return [Part(name, (name, value), draw) for name, value in shown.items()]


def facts(shown: Mapping[str, object]) -> None:
    """Show short facts beside each other, without those that are empty."""
    with ui.element("div").classes("facts"):
        for name in (name for name, value in shown.items() if value not in (None, "")):
            with ui.element("span"):
                words(name, tag="small")
                words(str(shown[name]))


def legend(kinds: Mapping[str, str]) -> None:
    """Say what each colour and pattern is."""
    with ui.element("div").classes("legend"):
        for kind, text in kinds.items():
            with ui.element("span"):
                ui.element("i").classes(kind)
                words(text)


def empty(text: str) -> None:
    """Say that there is nothing, and why that may be."""
    words(text, "empty", "p")


def warn(text: str) -> None:
    """Say on a card what is wrong."""
    with card():
        words(text, "bad", "p").props("role=alert")


def table(columns: str) -> ui.table:
    """Return a table whose cells may be links: `NAME_href` of a row is where one goes.

    A column is `NAME` or `NAME=ITS_HEAD`.
    """
    named = [each.partition("=")[::2] for each in columns.split()]
    heads = [
        {
            "name": name,
            "label": (head or name.capitalize()).replace("_", " "),
            "field": name,
            "sortable": True,
            "align": "left",
            "classes": f"col-{name}",
            "headerClasses": f"col-{name}",
        }
        for name, head in named
    ]
    found = ui.table(columns=heads, rows=[], row_key="id", pagination=0)
    found.props("dense flat hide-bottom virtual-scroll :virtual-scroll-slice-size=40")
    found.classes("scrolls")
    found.add_slot("body-cell", template("cell.html"))
    found.add_slot("header-cell", _HEAD)
    return found


class Growing:
    """The first rows of a long list, and a button for more: what nobody sees is not sent."""

    def __init__(self, shown: ui.table, step: int, none: str) -> None:
        """Grow by steps; where there are no rows, say so."""
        self._table, self._step, self._most, self._none = shown, step, step, none
        self._rows: list[Row] = []
        self._button = ui.button(on_click=self._grow).props("flat no-caps color=primary")
        self._note = ui.label().classes("empty")

    def set(self, rows: list[Row], note: str = "") -> None:
        """Show these rows, and a note below them."""
        self._rows, shown = rows, rows[: self._most]
        if self._table.rows != shown:
            self._table.rows = shown
        left = len(rows) - len(shown)
        self._button.text = f"Show more: {left} are left"
        self._button.set_visibility(left > 0)
        self._table.set_visibility(bool(rows))
        self._note.text = note if rows else f"{self._none} {note}".strip()
        self._note.set_visibility(bool(self._note.text))

    def _grow(self) -> None:
        self._most += self._step
        self.set(self._rows, self._note.text)


def listed(
    title: str, columns: str, rows: Iterable[Row], *, more: int = 0, none: str = "", name: str = ""
) -> Iterator[Part]:
    """Yield a card with rows, or with the text for an empty list if there is one.

    A row is known by its first cell, wherever it stands.
    """
    first, times = columns.split()[0].partition("=")[0], Counter[object]()
    known = []
    for row in rows:
        times[row[first]] += 1
        known.append({**row, "id": f"{row[first]}#{times[row[first]]}"})
    if known or more or none:
        note = f"and {more} more" if more else "" if known else none
        yield Part(name or title, (title, known, note), partial(_draw_listed, columns))


def on_nodes(title: str, nodes: Mapping[str, int]) -> Iterator[Part]:
    """Yield a card with the numbers of pods by node."""
    rows = [{"name": name, "pods": pods} for name, pods in sorted(nodes.items())]
    return listed(title, "name=Node pods=Its_pods", rows)


def _draw_listed(columns: str, shown: tuple[str, list[Row], str]) -> Again:
    with card():
        head = words("", tag="h2")
        rows = table(columns)
        note = ui.label().classes("quiet")

    def again(shown: tuple[str, list[Row], str]) -> None:
        title, rows.rows, note.text = shown
        head.content = html.escape(title)
        rows.set_visibility(bool(shown[1]))
        note.set_visibility(bool(shown[2]))

    again(shown)
    return again


def command(text: str) -> None:
    """Show a command, and a button that copies it."""
    with ui.element("div").classes("command"):
        words(text, tag="code")
        ui.button(icon="content_copy", on_click=lambda: _copy(text)).props(
            'flat dense round size=sm color=grey aria-label="Copy"'
        )


def _copy(text: str) -> None:
    ui.clipboard.write(text)
    ui.notify("copied")


def choice(label: str, value: str, *, change: Callable[[str], None]) -> ui.select:
    """Show a field in which one option can be chosen, or none."""
    found = ui.select(
        [value] if value else [],
        label=label,
        value=value or None,
        clearable=True,
        on_change=lambda event: change(event.value or ""),
    )
    return found.props(f'dense outlined options-dense aria-label="{label}"')


def offer(field: ui.select, options: Iterable[str]) -> None:
    """Replace the options of a field if they differ, and keep the choice."""
    offered = sorted({*options, *filter(None, [field.value])})
    if field.options != offered:
        field.set_options(offered)
