"""`kubectl gang top`: queues, gangs, jobs, nodes and reasons in a terminal, as they change."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Footer, Input, Static, Tab, Tabs
from typing_extensions import override

from extender.config.settings import Settings
from extender.explain.facts import moment
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.runtime.clock import Clock, SystemClock
from gang_tools.cli.explain_text import group_text, workload_text
from gang_tools.cli.kubectl.tables import TABLES, Rows, texts
from gang_tools.page.following import FollowedCluster

LOOK_SECONDS: Final = 0.5
"""The time between two looks at whether something has changed."""
_AGES_SECONDS: Final = 10.0
"""The longest time between two updates of ages."""
_SHARE: Final = 4
"""The pause after a look, as a multiple of the time that the look took."""
_HELP: Final = """\
1 to 5        show a table: queues, gangs, jobs that wait, nodes or reasons
Enter         open the explanation of a gang or a job, or what waits in a queue or for a reason
/             show only the rows with a text, or of a column's cell, such as queue=team
s             sort by the next column, the largest numbers first
Escape        go back; show all rows in their own order
q             quit"""


class TopApp(App[None]):
    """The tables of a cluster, and the explanation that is open."""

    CSS = "DataTable { height: 1fr; } #filter, VerticalScroll { display: none; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"table('{name}')", show=False) for n, name in enumerate(TABLES, 1)),
        ("slash", "filter", "Filter"),
        ("s", "sort", "Sort"),
        ("escape", "close", "Back"),
        ("question_mark", "explain_keys", "Help"),
        ("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, seen: FollowedCluster, clock: Clock, namespace: str = "") -> None:
        """Show the gangs and jobs of one namespace, or of all."""
        super().__init__()
        self._seen, self._clock, self._namespace = seen, clock, namespace
        self._wanted, self._sorted_by = dict.fromkeys(TABLES, ""), dict[str, int]()
        self._opened: Callable[[], str] | None = None
        self._sizes: dict[str, int] = {}
        self._rows: Rows = []
        self._count = ""
        self._version, self._looked, self._rests = -1, 0.0, 0.0

    @override
    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        yield Tabs(*(Tab(f"{n} {name}", id=name) for n, name in enumerate(TABLES, 1)))
        yield Static(id="status", markup=False)
        yield DataTable[Text](cursor_type="row")
        with VerticalScroll():
            yield Static(id="text", markup=False)
        yield Input(placeholder="text of a row", id="filter", compact=True)
        yield Footer()

    def on_mount(self) -> None:
        """Look from now on."""
        self.query_one(DataTable).focus()
        self.set_interval(LOOK_SECONDS, self.look)

    @property
    def _tab(self) -> str:
        return self.query_one(Tabs).active or next(iter(TABLES))

    def look(self) -> None:
        """Show what has changed, unless looks take too much of the time."""
        if not self.query("#status"):
            return  # the app ends, and its widgets are gone
        now = self._clock.monotonic()
        changed = self._seen.version != self._version or now - self._looked > _AGES_SECONDS
        if changed and now >= self._rests:
            self._version, self._looked = self._seen.version, now
            self._show()
            self._rests = now + _SHARE * (self._clock.monotonic() - now)
        said = self._seen.trouble.replace("not listed yet", "reading the cluster")
        hint = "Ask for the ClusterRole gang-explain-reader: " if " 403 " in said else ""
        status, text = self.query_one("#status", Static), f"{hint}{said}" if said else self._count
        if status.content != text:
            status.update(text)

    def _show(self) -> None:
        """Show the table, or what is open, as it is now."""
        if self._opened is not None:
            self.query_one("#text", Static).update(self._opened())
            return
        text, column = self._wanted[self._tab], self._sorted_by.get(self._tab)
        found = TABLES[self._tab](self._seen, self._namespace)
        heads = [*found.heads]
        if column is not None:
            column %= len(heads)  # nodes have a column for each resource that there is
            heads[column] += " (sorted)"
        rows = texts(found, text, column)
        self._fill(heads, rows)
        self._count = f"{len(rows)} of {len(found.rows)}{f' with {text!r}' if text else ''}"

    def _fill(self, heads: list[str], rows: Rows) -> None:
        """Show rows in the table; the cursor stays on its row."""
        table: DataTable[Text] = self.query_one(DataTable)
        before, keys = self._rows, [key for key, _ in rows]
        columns = zip(heads, *(cells for _, cells in rows), strict=True)
        sizes = {column[0]: max(map(cell_len, column)) for column in columns}
        if (sizes, keys) == (self._sizes, [key for key, _ in before]):
            for place in product(range(len(rows)), range(len(heads))):
                cell = rows[place[0]][1][place[1]]
                if cell != before[place[0]][1][place[1]]:
                    table.update_cell_at(Coordinate(*place), Text(cell))
        else:
            at, left, top = table.cursor_row, table.scroll_x, table.scroll_y
            table.clear(columns=True)
            for head, size in sizes.items():
                # The table measures its cells too late: it may show them cut before.
                table.add_column(head, width=size)
            for each, cells in rows:
                table.add_row(*map(Text, cells), key=each)
            key = before[at][0] if at < len(before) else ""
            table.move_cursor(row=keys.index(key) if key in keys else at, scroll=False)
            table.scroll_to(left, top, animate=False)
        self._sizes, self._rows = sizes, rows

    def _open(self, text: Callable[[], str] | None) -> None:
        """Show a text in the place of the table, or the table."""
        self._opened = text
        table, scroll = self.query_one(DataTable), self.query_one(VerticalScroll)
        table.display, scroll.display = text is None, text is not None
        self.query_one("#filter", Input).display = False
        (scroll if text else table).focus()
        self._show()

    @on(Tabs.TabActivated)
    @on(Input.Submitted)
    def _open_table(self) -> None:
        self._open(None)

    @on(DataTable.RowSelected)
    def _open_row(self, event: DataTable.RowSelected) -> None:
        kind, _, name = str(event.row_key.value).partition("/")
        if kind in {"gang", "workload"}:
            self._open(partial(self._explanation, kind, name))
        elif kind in TABLES:
            self._wanted[kind] = name
            self._action_table(kind)

    def _explanation(self, kind: str, name: str) -> str:
        now = moment(self._clock.wall())
        if kind == "gang":
            group = self._seen.group(name)
            return group_text(group, now) if group else f"PodGroup {name} is gone"
        namespace, _, own = name.partition("/")
        workload = self._seen.workload(namespace, own)
        return workload_text(workload, now) if workload else f"Workload {name} is gone"

    def _action_table(self, name: str) -> None:
        self.query_one(Tabs).active = name
        self._open(None)

    def _action_filter(self) -> None:
        self._open(None)
        asked = self.query_one("#filter", Input)
        asked.value, asked.display = self._wanted[self._tab], True
        asked.focus()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        self._wanted[self._tab] = event.value
        self._show()

    def _action_sort(self) -> None:
        self._sorted_by[self._tab] = (self._sorted_by.get(self._tab, -1) + 1) % len(self._sizes)
        self._show()

    def _action_close(self) -> None:
        if self._opened is None:
            self._wanted[self._tab] = ""
            self._sorted_by.pop(self._tab, None)
        self._open(None)

    def _action_explain_keys(self) -> None:
        self._open(lambda: _HELP)


async def run(
    settings: Settings, kubeconfig: Path | None, namespace: str, *, context: str | None
) -> int:
    """Show a cluster until the user quits; return the exit code. Raises ConfigurationError."""
    clock = SystemClock()
    async with KubeClient(await keyring(kubeconfig, context)) as client:
        seen = FollowedCluster(settings, client, clock)
        app = TopApp(seen, clock, namespace)
        # It gives the terminal back as it was.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(seen.run())
            await app.run_async()
            following.cancel()
    return app.return_code or 0
