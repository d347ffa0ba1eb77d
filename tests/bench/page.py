"""`python -m tests.bench.page`: how soon a browser shows a large cluster, and what changes in it.

`gang-extender page` runs against a stand-in for the API server that answers at once, with 5000
nodes of eight pods, 200 ClusterQueues and 1000 workloads that wait. Chromium opens each list, then
sees a workload ask for more, or a node become not ready, again and again, alone and among several
who look.
"""

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, product
from typing import Annotated, Final

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
_CHANCE: Final = random.Random(7)
_FIRST: Final = """(() => {
  const look = () => {
    if (!window.shown && document.querySelector("td.col-lacks, td.col-state, .tile"))
      window.shown = performance.now();
    if (!window.shown) requestAnimationFrame(look);
  };
  look();
})()"""
_WATCH: Final = """place => {
  const cell = () => document.querySelector(place).textContent, before = cell();
  window.seen = new Promise(done => new MutationObserver((_, observer) => {
    if (cell() !== before) { observer.disconnect(); done(Date.now()); }
  }).observe(document.body, { subtree: true, childList: true, characterData: true }));
}"""
_CHANGES: Final[Mapping[str, tuple[str, str, int]]] = {
    "/queues": ("td.col-lacks", WORKLOADS, 1000),
    "/nodes": (".tile small", NODES, 1),
}
"""The first cell of each list, the kind of object that it shows, and the step between variants of
that object."""

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
    rows, watches = list[Row](), set[int]()
    with Meter() as meter, PageProcesses("page", "page", (nodes, queues), {}) as processes:
        meter.add("page", processes.pid)
        for path, shown in LISTS.items():
            seen = [*_first(browser, processes.url + path, shown, times=5)]
            rows.append(Row(f"first sight of {path}", seen))
        numbers = defaultdict[str, Iterator[int]](count)
        for path, many, churn in product(_CHANGES, (1, viewers), (0, _CHURN)):
            with _looking(browser, processes.url, path, many=many) as pages:
                watches.add(processes.bench("open")["watches"])
                seen = [
                    _update(processes, pages, path, number=next(numbers[path]), churn=churn)
                    for _ in range(times)
                ]
                name = f"update of {path}, {many} look, {churn} nodes change a second"
                rows.append(Row(name, seen))
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
def _looking(browser: Browser, url: str, path: str, *, many: int) -> Iterator[list[Page]]:
    """Give so many windows that look."""
    with ExitStack() as stack:
        pages = [stack.enter_context(browser.new_context()).new_page() for _ in range(many)]
        for page in pages:
            page.goto(url + path)
            page.wait_for_selector(_CHANGES[path][0])
        yield pages


def _update(
    processes: Processes, pages: Sequence[Page], path: str, *, number: int, churn: int
) -> float:
    """Return the milliseconds until the last window shows a change of the first item of a list."""
    (cell, of, step), until = _CHANGES[path], time.monotonic() + _CHANCE.uniform(0.5, 1.5)
    while time.monotonic() < until:
        if churn:  # a change of labels, which nobody sees
            variant = 2 * _CHANCE.randrange(1, 100)
            processes.bench("send", path=NODES, first=1, count=1, variant=variant)
        time.sleep(1 / _CHURN)
    for page in pages:
        page.evaluate(_WATCH, cell)
    began = 1000 * time.time()
    processes.bench("send", path=of, first=0, count=1, variant=step * (1 + number % 8))
    return max(float(page.evaluate("window.seen")) for page in pages) - began


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
