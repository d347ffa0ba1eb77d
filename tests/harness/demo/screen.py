"""What is shown: a live table in a terminal, plain lines without control characters elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tests.harness.demo.pods import Pod, by_group
from tests.harness.demo.record import Step

_PLAIN_WIDTH = 120
_PROGRESS_SECONDS = 2.0

View = Callable[[], Sequence[Pod]]

_STYLES = {"Running": "green", "Pending": "yellow", "Succeeded": "blue", "Failed": "red"}


class Screen:
    """Writes to standard output; while something is waited for, the pods are shown live."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        self._console = Console(
            highlight=False,
            # Even where FORCE_COLOR says otherwise: what reads a pipe is no terminal.
            force_terminal=None if terminal else False,
            width=None if terminal else _PLAIN_WIDTH,
        )
        self.is_live = terminal and not self._console.is_dumb_terminal
        self.view: View | None = None

    def title(self, text: str) -> None:
        """Begin a scene."""
        self._print(Text(f"\n== {text}", style="bold"))

    def say(self, text: str, style: str = "") -> None:
        """Write one line, however long."""
        self._print(Text(text, style=style))

    def command(self, command: str, lines: Sequence[str]) -> None:
        """Show what a command of kubectl would say."""
        self._print(Text(f"  $ {command}", style="bold cyan"))
        for line in lines:
            self._print(Text(f"  {line}"))

    def step(self, step: Step) -> None:
        """Show a step that is over."""
        mark, style = ("ok", "green") if step.held else ("NOT", "bold red")
        self._print(
            Text.assemble(
                (f"  {mark:<3}", style),
                f" {step.what}: {step.seen}  ",
                (duration(step.seconds), "dim"),
            )
        )

    def summary(self, steps: Sequence[Step]) -> None:
        """Show the table of all steps."""
        table = Table(title="What happened", title_justify="left", show_lines=False)
        for column in ("scene", "step", "expected", "seen"):
            table.add_column(column, overflow="fold")
        table.add_column("took", justify="right")
        table.add_column("held")
        for step in steps:
            held = Text("yes", "green") if step.held else Text("NO", "bold red")
            cells = (step.scene, step.what, step.want, step.seen, duration(step.seconds))
            table.add_row(*(Text(cell) for cell in cells), held)
        self.say("")
        self._show(table)

    def pods(self) -> None:
        """Show the table of the pods as it is now."""
        if self.view is not None:
            self._show(_pod_table(self.view(), one_line=False))

    @contextmanager
    def waiting(self, what: str, *, lines: bool = True) -> Iterator[None]:
        """Show, as long as the body runs, for what and how long, and the pods.

        Where nothing can be shown live, a line is written every two seconds, unless `lines` is
        False.
        """
        started = time.monotonic()
        if self.is_live:
            spinner = Spinner("dots")

            def show() -> RenderableType:
                spinner.update(text=Text(f"{what} ... {time.monotonic() - started:.1f} s"))
                return Group(_pod_table(self.view()), spinner) if self.view else spinner

            with Live(
                console=self._console, get_renderable=show, transient=True, refresh_per_second=8
            ):
                yield
            return
        over = threading.Event()

        def write_lines() -> None:
            while not over.wait(_PROGRESS_SECONDS):
                pods = by_group(self.view()) if self.view else ""
                seen = f"  [{pods}]" if pods else ""
                self.say(f"  ... {what}, {time.monotonic() - started:.0f} s{seen}")

        writer = threading.Thread(target=write_lines, daemon=True)
        if lines:
            writer.start()
        try:
            yield
        finally:
            over.set()
            if lines:
                writer.join()

    def _show(self, table: Table) -> None:
        if self._console.is_terminal:
            self._console.print(table)
            return
        with self._console.capture() as capture:
            self._console.print(table)
        for line in capture.get().splitlines():
            self.say(line.rstrip())  # rich fills lines with spaces

    def _print(self, text: Text) -> None:
        # Long lines are left to the terminal: a path that was wrapped cannot be copied.
        self._console.print(text, soft_wrap=True)


def duration(seconds: float) -> str:
    """Return `46 ms` or `4.5 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _pod_table(pods: Sequence[Pod], *, one_line: bool = True) -> Table:
    """Return the pods as a table; on one line each where it is redrawn."""
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    for column in ("  POD", "GROUP", "PHASE", "NODE"):
        table.add_column(column, no_wrap=True)
    table.add_column("REASON")  # the one that gives way where the terminal is narrow
    for pod in pods:
        phase = Text(pod.phase, _STYLES.get(pod.phase, ""))
        reason = Text(pod.reason, no_wrap=one_line, overflow="ellipsis" if one_line else "fold")
        table.add_row(f"  {pod.name}", pod.group, phase, pod.node, reason)
    return table
