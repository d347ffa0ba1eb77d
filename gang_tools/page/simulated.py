"""A simulation as one HTML file, which needs no network: `gang-extender simulate --html`."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.metadata import distribution
from itertools import chain
from math import ceil, floor, log10
from pathlib import Path
from string import Template
from typing import Final

from gang_tools.page.looks import INK, LINES, line_chart, template
from gang_tools.simulate.report import RunReport, SimulationReport, duration, tables

# Where NiceGUI is missing, this is an ImportError. It is not imported, which takes a second.
_NICEGUI: Final = distribution("nicegui")
_UNITS: Final = {86400: "d", 3600: "h", 60: "min", 1: "s"}


def write(file: Path, title: str, found: SimulationReport) -> None:
    """Write the file; the title and the names in it may have any characters. Raises OSError."""
    both = {"kube-scheduler alone": found.alone, "gang-extender": found.gang_extender}
    runs = {name: run for name, run in both.items() if run is not None}
    parts = chain(
        (_card(name, _numbers(run)) for name, run in runs.items()),
        _charts(runs),
        (_card(name, *_tables(run)) for name, run in runs.items()),
    )
    values = {"title": escape(title), "style": template("page.css"), "echarts": _echarts()}
    text = Template(template("simulated.html")).substitute(values, body="\n".join(parts))
    file.write_text(text, encoding="utf-8")


def _card(title: str, *parts: str) -> str:
    return f'<section class="card column"><h2>{title}</h2>{"".join(parts)}</section>'


def _numbers(run: RunReport) -> str:
    shown = {
        "jobs": run.jobs,
        "started": run.started,
        "finished": run.finished,
        "gangs half-placed": run.partial_gangs,
        "preemptions": run.preemptions,
        "other evictions": run.evictions,
        "of virtual time": duration(run.seconds),
    }
    each = (f'<div><b>{n}</b><span class="quiet">{name}</span></div>' for name, n in shown.items())
    return f'<div class="numbers">{"".join(each)}</div>'


def _tables(run: RunReport) -> Iterator[str]:
    for head, *rows in tables(run):
        drawn = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows)
        table = f'<table class="q-table"><tr>{_cells(head, "th")}</tr>{drawn}</table>'
        yield f'<div class="wide">{table}</div>'
    for each in run.classes:
        if each.waiting:
            yield f"<p>{escape(f'{each.name} waits: {each.waiting}')}</p>"


def _cells(row: Sequence[str], tag: str) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)


def _charts(runs: Mapping[str, RunReport]) -> Iterator[str]:
    """Yield a card for each kind of chart, in which all runs have the same lines and axes."""
    end = max(run.seconds for run in runs.values())
    unit = next((each for each in _UNITS if end >= 2 * each), 1)
    labels = {"formatter": f"{{value}} {_UNITS[unit]}", "color": INK, "showMaxLabel": False}
    x_axis = {"type": "value", "max": ceil(10 * end / unit) / 10, "axisLabel": labels}
    for title in runs["gang-extender"].over_time:
        shown = {name: run.over_time[title] for name, run in runs.items() if title in run.over_time}
        highest = {
            name: max(n for lines in shown.values() for _, n in lines.get(name, ()))
            for name in chain(*shown.values())
        }
        names = sorted(highest, key=highest.__getitem__, reverse=True)[: len(LINES)]
        top = max(100 if "%" in title else 1, *highest.values())
        step = max(1, 10 ** floor(log10(top)) // 5)
        drawn = []
        for run, lines in shown.items():
            scaled = {
                name: [(round(at / unit, 4), n) for at, n in lines.get(name, ())] for name in names
            }
            options = json.dumps(line_chart(scaled, x_axis, top=ceil(top / step) * step))
            drawn.append(
                f'<p class="quiet">{run}</p><div class="chart" role="img" '
                f'aria-label="{title}, {run}" data-options="{escape(options)}"></div>'
            )
        few = f" (the {len(names)} with most)" if len(highest) > len(names) else ""
        yield _card(title + few, *drawn)


def _echarts() -> str:
    """Return NiceGUI's copy of ECharts, a module of two files, as an address with all of it."""
    folder = Path(str(_NICEGUI.locate_file("nicegui/elements/echart/dist")))
    entry = (folder / "index.js").read_text()

    def inlined(found: re.Match[str]) -> str:
        return f'"{_address((folder / found[1]).read_bytes())}"'

    return _address(re.sub(r'"\./([^"]+\.js)"', inlined, entry).encode())


def _address(module: bytes) -> str:
    return f"data:text/javascript;base64,{b64encode(module).decode()}"
