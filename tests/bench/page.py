"""`python -m tests.bench.page`: how soon a browser shows a large cluster, and what changes in it.

`gang-extender page` runs against a stand-in for the API server that answers at once, with 5000
nodes of eight pods, 200 ClusterQueues and 1000 workloads that wait. Chromium opens each list, then
sees a workload ask for more, again and again, alone and among several who look.
"""

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, islice, product
from typing import Annotated, Any, Final

import typer
from playwright.sync_api import Browser, Page
from rich.console import Console
from rich.table import Table
from typing_extensions import override

from tests.bench.loop.processes import Processes
from tests.bench.loop.scenes import WORKLOADS
from tests.bench.loop.stage import NODES
from tests.bench.meter import Meter
from tests.harness.chromium import chromium

LISTS: Final = {"/queues": "td.col-lacks", "/gangs": "td.col-state", "/nodes": ".tile"}
"""The element that each list has once it shows something."""
_CHURN: Final = 20
"""Changes of nodes a second."""
_FIRST: Final = """(() => {
  const look = () => {
    if (!window.shown && document.querySelector("td.col-lacks, td.col-state, .tile"))
      window.shown = performance.now();
    if (!window.shown) requestAnimationFrame(look);
  };
  look();
})()"""
_CELL: Final = 'document.querySelector("td.col-lacks").textContent'
_WATCH: Final = f"""() => {{
  const before = {_CELL};
  window.seen = new Promise(done => new MutationObserver((_, observer) => {{
    if ({_CELL} !== before) {{ observer.disconnect(); done(Date.now()); }}
  }}).observe(document.body, {{ subtree: true, childList: true, characterData: true }}));
}}"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Row:
    """The times that a browser needed, in milliseconds."""

    name: str
    times: Sequence[float]


@dataclass(frozen=True, slots=True)
class Found:
    """All times and sizes that were measured."""

    rows: list[Row]
    mib: float
    """The largest resident set of the page's process."""
    watches: set[int]
    """The numbers of watches that the API server had, at each look."""


class PageProcesses(Processes):
    """The stand-in and the page."""

    pid = 0

    @override
    def _command(self, kubeconfig: str, config: str, port: int) -> list[str]:
        files = ["--kubeconfig", kubeconfig, "--config", config]
        return ["gang_tools", "page", *files, "--port", str(port)]

    @override
    def _start(self) -> None:
        super()._start()
        self._stack.callback(self._process.terminate)
        self.pid = self._process.pid
        self.bench("begin")
        self.wait_ready()


def measure(browser: Browser, *, nodes: int, queues: int, viewers: int, times: int) -> Found:
    """Return what people see who look at a cluster of that size."""
    rows, watches, numbers = list[Row](), set[int](), count()
    with Meter() as meter, PageProcesses("page", "page", (nodes, queues), {}) as processes:
        meter.add("page", processes.pid)
        for path, shown in LISTS.items():
            seen = [*_first(browser, processes.url + path, shown, times=5)]
            rows.append(Row(f"first sight of {path}", seen))
        for many, churn in product((1, viewers), (0, _CHURN)):
            with _looking(browser, f"{processes.url}/queues", many) as pages:
                watches.add(processes.bench("open")["watches"])
                seen = [*_updates(processes, pages, numbers, times=times, churn=churn)]
                rows.append(Row(f"update, {many} look, {churn} nodes change a second", seen))
        return Found(rows, meter.peak_mib()["page"], watches)


def _first(browser: Browser, url: str, shown: str, *, times: int) -> Iterator[float]:
    """Yield how long it takes from the address to the first row."""
    for _ in range(times):
        with browser.new_context() as context:  # nothing is cached
            page = context.new_page()
            page.add_init_script(_FIRST)
            page.goto(url)
            page.wait_for_selector(shown)
            yield page.wait_for_function("window.shown").json_value()


@contextmanager
def _looking(browser: Browser, url: str, many: int) -> Iterator[list[Page]]:
    """Give so many windows that look."""
    with ExitStack() as stack:
        pages = [stack.enter_context(browser.new_context()).new_page() for _ in range(many)]
        for page in pages:
            page.goto(url)
            page.wait_for_selector("td.col-lacks")
        yield pages


def _updates(
    processes: Processes, pages: Sequence[Page], numbers: Iterator[int], *, times: int, churn: int
) -> Iterator[float]:
    """Yield how long it takes until the last one sees that the first workload asks for more."""
    chance = random.Random(7)
    for number in islice(numbers, times):
        until = time.monotonic() + chance.uniform(0.5, 1.5)
        while time.monotonic() < until:
            if churn:
                variant = 2 * chance.randrange(1, 100)
                processes.bench("send", path=NODES, first=0, count=1, variant=variant)
            time.sleep(1 / _CHURN)
        for page in pages:
            page.evaluate(_WATCH)
        began = 1000 * time.time()
        change: dict[str, Any] = {"first": 0, "count": 1, "variant": 1000 * (1 + number % 7)}
        processes.bench("send", path=WORKLOADS, **change)
        yield max(page.evaluate("window.seen") for page in pages) - began


@app.command(help=__doc__)
def main(
    *,
    nodes: Annotated[int, typer.Option(min=50, help="Nodes.")] = 5000,
    queues: Annotated[
        int, typer.Option(min=8, help="ClusterQueues; five times as many jobs wait.")
    ] = 200,
    viewers: Annotated[int, typer.Option(min=2, help="People who look at once.")] = 4,
    times: Annotated[int, typer.Option(min=2, help="Updates of each kind.")] = 20,
) -> None:
    """Print what a browser sees."""
    with chromium() as browser:
        found = measure(browser, nodes=nodes, queues=queues, viewers=viewers, times=times)
    made = Table(title="Milliseconds until a browser shows it", title_justify="left")
    for name in ("", "median", "largest"):
        made.add_column(name, justify="left" if not name else "right")
    for row in found.rows:
        made.add_row(row.name, f"{statistics.median(row.times):.0f}", f"{max(row.times):.0f}")
    console = Console(width=100)
    console.print(made)
    console.print(f"the page: {found.mib:.0f} MiB, {found.watches} watches", highlight=False)


if __name__ == "__main__":
    app()
