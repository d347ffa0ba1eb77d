"""A simulation as one page that needs nothing else: its timeline of nodes, jobs and queues."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from extender.resources.quantity import PODS, show
from extender.simulate.engine import Simulation
from extender.simulate.jobs import SimJob
from extender.simulate.report import RunReport, SimulationReport, duration
from extender.state.queue.records import FlavorResource, quotas_of

WIDTH: Final = 1000
"""Of the time axis, in units of the drawing."""
LEFT: Final = 150
"""Of what stands before it."""
ROWS: Final = 60
"""Rows of nodes or jobs that are drawn, at most: of more nodes each row shows several."""
COLUMNS: Final = 200
"""Parts of time in a row of several nodes."""
_TICKS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAY: Final = 86400
_POINTS: Final = 400
_COLOURS: Final = (
    *("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6"),
    *("#06b6d4", "#ec4899", "#84cc16", "#f97316", "#64748b"),
)


def page(found: SimulationReport, runs: Sequence[tuple[str, Simulation]], *, title: str) -> str:
    """Return the page; `runs` are the simulations with what they are called, the first first."""
    end = max(max((played.clock.now for _, played in runs), default=0.0), 1.0)
    drawn = [_Drawing(name, played, end) for name, played in runs]
    body = [_summary(found, title)]
    body += [part for each in drawn for part in each.sections(several=len(drawn) > 1)]
    return _PAGE.replace("@title@", escape(title)).replace("@body@", "\n".join(body))


# --- in numbers ----------------------------------------------------------------------------------


def _summary(found: SimulationReport, title: str) -> str:
    run = found.gang_extender
    waits = [c.waits for c in run.classes if c.waits]
    longest = max((w.most for w in waits), default=0.0)
    cards = [
        ("jobs started", f"{run.started} <small>of {run.jobs}</small>", run.started < run.jobs),
        ("gangs half-placed", str(run.partial_gangs), run.partial_gangs > 0),
        ("longest wait", duration(longest), False),
        ("preemptions", str(run.preemptions), False),
        ("virtual time", duration(run.seconds), False),
    ]
    html = [f"<h1>{escape(title)}</h1>", '<div class="cards">']
    html += [
        f'<div class="card{" bad" if bad else ""}"><b>{value}</b><span>{name}</span></div>'
        for name, value, bad in cards
    ]
    html.append("</div>")
    if found.alone is not None:
        html.append(_against(found.alone, run))
    html += [f'<p class="note">{escape(note)}</p>' for note in found.notes]
    return "\n".join([*html, _waiting_times(run)])


def _against(alone: RunReport, run: RunReport) -> str:
    half = f"{alone.partial_at_end} gangs stay half-placed for ever" if alone.partial_at_end else ""
    half = half or f"{alone.partial_gangs} gangs were half-placed for a while"
    return (
        f'<p class="lead">With kube-scheduler alone <b>{alone.started} of {alone.jobs}</b> jobs '
        f"start, and {half}. With gang-extender <b>{run.started} of {run.jobs}</b> start, and "
        f"{run.partial_gangs} are ever half-placed.</p>"
    )


def _waiting_times(run: RunReport) -> str:
    head = "".join(
        f"<th>{name}</th>"
        for name in ("class", "jobs", "started", "mean wait", "p50", "p90", "longest", "preempted")
    )
    rows = []
    for number, each in enumerate(run.classes):
        w = each.waits
        times = [duration(t) for t in (w.mean, w.p50, w.p90, w.most)] if w else ["-"] * 4
        cells = [str(each.jobs), str(each.started), *times, str(each.preempted)]
        rows.append(
            f'<tr><td><i style="background:{_colour(number)}"></i>{escape(each.name)}</td>'
            + "".join(f"<td>{cell}</td>" for cell in cells)
            + "</tr>"
        )
        if each.waiting:
            rows.append(f'<tr class="why"><td colspan="8">{escape(each.waiting)}</td></tr>')
    return f"<section><h2>Waiting times</h2><table><tr>{head}</tr>{''.join(rows)}</table></section>"


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


# --- drawings ------------------------------------------------------------------------------------


class _Drawing:
    """The pictures of one simulation, on a time axis that all share."""

    def __init__(self, name: str, played: Simulation, end: float) -> None:
        self._name, self._played, self._end = name, played, end
        self._jobs = {job.number: job for job in (*played.world.running, *played.world.jobs)}
        kinds = dict.fromkeys(job.kind for job in self._jobs.values())
        self._colours = {kind: _colour(number) for number, kind in enumerate(kinds)}

    def sections(self, *, several: bool) -> Iterator[str]:
        """Yield nodes, jobs and queues, as far as there are any."""
        suffix = f" with {self._name}" if several else ""
        kinds = "".join(
            f'<span><i style="background:{colour}"></i>{escape(kind)}</span>'
            for kind, colour in self._colours.items()
        )
        yield self._section(f"Nodes{suffix}", kinds, self._nodes())
        yield self._section(f"Jobs{suffix}", kinds, self._courses())
        if self._played.books.courses and not self._played.alone:
            yield self._section(f"Quota in use{suffix}", "&nbsp;", self._queues())

    def _section(self, title: str, legend: str, drawn: tuple[str, float, list[str]]) -> str:
        note, height, parts = drawn
        return (
            f"<section><h2>{escape(title)}</h2>"
            f'<p class="legend">{legend}<em>{escape(note)}</em></p>'
            f'<svg viewBox="0 0 {LEFT + WIDTH + 10} {height + 26:g}" role="img">'
            f"{''.join(self._axis(height))}{''.join(parts)}</svg></section>"
        )

    def _x(self, when: float) -> float:
        return round(LEFT + WIDTH * when / self._end, 2)

    def _axis(self, height: float) -> Iterator[str]:
        most = self._end / 9
        step = next((each for each in _TICKS if each >= most), 0) or _DAY * (int(most / _DAY) + 1)
        for number in range(int(self._end / step) + 1):
            x = self._x(number * step)
            label = duration(number * step)
            yield f'<path class="grid" d="M{x} 0V{height:g}"/>'
            yield f'<text class="tick" x="{x}" y="{height + 17:g}">{label}</text>'

    # nodes

    def _nodes(self) -> tuple[str, float, list[str]]:
        names = sorted(self._played.view.nodes)
        if len(names) <= ROWS:
            return self._each_node(names)
        return self._many_nodes(names)

    def _each_node(self, names: Sequence[str]) -> tuple[str, float, list[str]]:
        """Return a row for each node, as high as what its pods ask for."""
        row = 26 if len(names) <= 20 else 16
        parts: list[str] = []
        for number, name in enumerate(names):
            y = number * row
            parts.append(_label(name, y + row / 2))
            parts.append(f'<rect class="lane" x="{LEFT}" y="{y + 2}" width="{WIDTH}" '
                         f'height="{row - 4}"/>')  # fmt: skip
        by_node: dict[str, list[tuple[float, float, float, SimJob]]] = {}
        for stay in self._played.books.stays:
            share = self._share(stay.node, stay.requests)
            job = self._jobs[stay.job]
            by_node.setdefault(stay.node, []).append((stay.began, stay.ended, share, job))
        for number, name in enumerate(names):
            parts += self._pods_of(by_node.get(name, []), number * row + 2, row - 4)
        return "each bar is a pod, as high as its share of the node", len(names) * row, parts

    def _pods_of(
        self, stays: Sequence[tuple[float, float, float, SimJob]], y: float, height: float
    ) -> Iterator[str]:
        """Yield the pods of a node, each on top of those that are there when it comes."""
        there: list[tuple[float, float, float]] = []
        for began, ended, share, job in sorted(stays, key=lambda each: each[:2]):
            there = [each for each in there if each[0] > began]
            at, free = 0.0, sorted((low, high) for _, low, high in there)
            for low, high in free:
                if low - at >= share - 1e-9:
                    break
                at = max(at, high)
            there.append((ended, at, at + share))
            top = y + height * max(0.0, 1 - at - share)
            wide = max(0.8, self._x(ended) - self._x(began) - 0.6)
            text = f"{job.name}, {duration(began)} to {duration(ended)}"
            # Held by a gang that never starts: it is of no use to anything.
            idle = " idle" if job.need and job.started is None else ""
            yield (
                f'<rect class="pod{idle}" x="{self._x(began)}" y="{top:.2f}" width="{wide:.2f}" '
                f'height="{max(1.0, height * min(1.0, share) - 0.6):.2f}" '
                f'fill="{self._colours[job.kind]}"><title>{escape(text)}</title></rect>'
            )

    def _share(self, node: str, requests: object) -> float:
        """Return the largest share of a node that a pod asks for."""
        whole = self._played.view.nodes[node].allocatable
        asked = requests.items() if isinstance(requests, dict) else ()
        return max((n / whole[r] for r, n in asked if r != PODS and whole.get(r)), default=0.05)

    def _many_nodes(self, names: Sequence[str]) -> tuple[str, float, list[str]]:
        """Return rows of several nodes each, the darker the fuller."""
        a_row = -(-len(names) // ROWS)
        rows = -(-len(names) // a_row)
        number_of = {name: number // a_row for number, name in enumerate(names)}
        width = self._end / COLUMNS
        used = [[0.0] * COLUMNS for _ in range(rows)]
        for stay in self._played.books.stays:
            share, row = self._share(stay.node, stay.requests), used[number_of[stay.node]]
            first = min(COLUMNS - 1, int(stay.began / width))
            last = min(COLUMNS - 1, int(stay.ended / width))
            for column in range(first, last + 1):
                began, ended = column * width, (column + 1) * width
                within = min(ended, stay.ended) - max(began, stay.began)
                row[column] += share * max(0.0, within) / width
        parts: list[str] = []
        height = 6
        for number, row in enumerate(used):
            nodes = min(a_row, len(names) - number * a_row)
            if number % 10 == 0:
                parts.append(_label(names[number * a_row], number * height + height / 2))
            parts += self._heat([min(1.0, each / nodes) for each in row], number * height, height)
        note = f"each row is {a_row} nodes; the darker the fuller"
        return note, rows * height, parts

    def _heat(self, shares: Sequence[float], y: float, height: float) -> Iterator[str]:
        first = 0
        steps = [round(share * 12) for share in shares]
        for column in range(1, len(steps) + 1):
            if column < len(steps) and steps[column] == steps[first]:
                continue
            x, wide = LEFT + WIDTH * first / COLUMNS, WIDTH * (column - first) / COLUMNS
            if steps[first]:
                yield (
                    f'<rect class="heat" x="{x:g}" y="{y:g}" width="{wide + 0.3:g}" '
                    f'height="{height - 0.5:g}" opacity="{0.08 + 0.92 * steps[first] / 12:.2f}">'
                    f"<title>{steps[first] / 12:.0%} in use</title></rect>"
                )
            first = column

    # jobs

    def _courses(self) -> tuple[str, float, list[str]]:
        came = [job for job in self._jobs.values() if job.arrival <= self._end]
        if len(came) > ROWS:
            return self._counts(came)
        row, parts = 18, list[str]()
        for number, job in enumerate(came):
            y = number * row
            parts.append(_label(job.name, y + row / 2))
            parts += self._course(job, y + 3, row - 6)
        note = "grey: it waits; red: with some nodes, too few; colour: it runs; cross: stopped"
        return note, len(came) * row, parts

    def _course(self, job: SimJob, y: float, height: float) -> Iterator[str]:
        colour, since = self._colours[job.kind], job.arrival
        for attempt in job.attempts:
            if attempt.ran is None:
                continue
            text = f"{job.name} waits"
            yield self._bar((since, attempt.ran), y, height, kind="wait", text=text)
            since = self._end if attempt.ended is None else attempt.ended
            text = f"{job.name} runs for {duration(since - attempt.ran)}"
            yield self._bar((attempt.ran, since), y, height, kind=colour, text=text)
            if attempt.reason:
                x, middle = self._x(since), y + height / 2
                yield f'<path class="cross" d="M{x - 4} {middle - 4}l8 8m0 -8l-8 8"/>'
        if job.ended is None and not job.works:
            why = f"{job.name} waits: {job.why}" if job.why else f"{job.name} waits"
            kind = "wait half" if job.half is not None else "wait"
            yield self._bar((since, self._end), y, height, kind=kind, text=why)

    def _bar(
        self, span: tuple[float, float], y: float, height: float, *, kind: str, text: str
    ) -> str:
        x, wide = self._x(span[0]), self._x(span[1]) - self._x(span[0])
        if wide <= 0:
            return ""
        said = kind if kind.startswith("#") else ""
        fill = f'class="run" fill="{said}"' if said else f'class="{kind}"'
        return (
            f'<rect {fill} x="{x}" y="{y:g}" width="{wide:.2f}" height="{height:g}" rx="2">'
            f"<title>{escape(text)}</title></rect>"
        )

    def _counts(self, jobs: Sequence[SimJob]) -> tuple[str, float, list[str]]:
        """Return how many jobs of each class run, one upon the other, and how many wait."""
        steps = [self._end * n / _POINTS for n in range(_POINTS + 1)]
        running = {kind: [0] * (_POINTS + 2) for kind in self._colours}
        waiting = [0] * (_POINTS + 2)
        for job in jobs:
            since = job.arrival
            for attempt in job.attempts:
                if attempt.ran is not None:
                    ended = self._end if attempt.ended is None else attempt.ended
                    self._count(waiting, since, attempt.ran)
                    self._count(running[job.kind], attempt.ran, ended)
                    since = ended
            if job.ended is None and not job.works:
                self._count(waiting, since, self._end)
        parts, height = list[str](), 150
        parts += self._stacked([*running.items()], steps, height, label="running")
        lines = self._stacked([("", waiting)], steps, 80, label="waiting")
        parts.append(f'<g transform="translate(0 {height + 18})">{"".join(lines)}</g>')
        return "above: jobs that run; below: jobs that wait", height + 98, parts

    def _count(self, into: list[int], began: float, ended: float) -> None:
        into[min(_POINTS, int(began / self._end * _POINTS))] += 1
        into[min(_POINTS + 1, int(ended / self._end * _POINTS))] -= 1

    def _stacked(
        self,
        series: Sequence[tuple[str, Sequence[int]]],
        steps: Sequence[float],
        height: float,
        *,
        label: str,
    ) -> Iterator[str]:
        base, layers = [0] * len(steps), list[tuple[str, list[int], list[int]]]()
        for kind, changes in series:
            total, top = 0, list[int]()
            for number in range(len(steps)):
                total += changes[number]
                top.append(base[number] + total)
            layers.append((kind, base, top))
            base = top
        most = max(max(base), 1)
        for kind, low, high in layers:
            line, back = self._stairs(steps, high), self._stairs(steps, low)
            points = [f"{x} {height - height * n / most:.1f}" for x, n in [*line, *reversed(back)]]
            fill = f' fill="{self._colours[kind]}"' if kind else ' class="waits"'
            yield f'<path{fill} d="M{"L".join(points)}Z"/>'
        yield _label(f"{most} {label}", 8)
        yield f'<path class="base" d="M{LEFT} {height:g}h{WIDTH}"/>'

    def _stairs(self, steps: Sequence[float], counts: Sequence[int]) -> list[tuple[float, int]]:
        """Return the corners of a line that is level from one step to the next."""
        corners: list[tuple[float, int]] = []
        for number, (when, count) in enumerate(zip(steps, counts, strict=True)):
            before = counts[number - 1] if number else count
            last = number == len(steps) - 1
            if count != before or not number or last:
                corners += [(self._x(when), before), (self._x(when), count)]
        return corners

    # queues

    def _queues(self) -> tuple[str, float, list[str]]:
        books, view = self._played.books, self._played.queue_view
        parts, y = list[str](), 0.0
        for name in sorted(books.courses):
            quotas = quotas_of(view.cluster_queues[name].resource_groups)
            used = books.held_area.get(name, {})
            if quotas:
                what = max(quotas, key=lambda w: used.get(w, 0.0) / max(1, quotas[w].nominal))
                parts += self._course_of_quota(name, what, y, nominal=quotas[what].nominal)
                y += 74
        return "of the resource that is used most; the line is the nominal quota", y, parts

    def _course_of_quota(
        self, name: str, what: FlavorResource, y: float, *, nominal: int
    ) -> Iterator[str]:
        books, height, last = self._played.books, 60.0, -1.0
        most = max(books.held_most.get(name, {}).get(what, 0), nominal, 1)
        points, course = [f"M{LEFT} {y + height:.1f}"], books.courses[name]
        for number, (when, held) in enumerate(course):
            x = self._x(when)
            if x - last < 0.8 and number < len(course) - 1:
                continue
            last = x
            points.append(f"H{x}V{y + height - height * held.get(what, 0) / most:.1f}")
        points.append(f"H{self._x(self._end)}V{y + height:.1f}Z")
        yield _label(name, y + height / 2 - 7)
        yield _label(f"{what[1]} {show(what[1], most)}", y + height / 2 + 8, small=True)
        yield f'<path class="quota" d="{"".join(points)}"/>'
        line = y + height - height * nominal / most
        yield f'<path class="nominal" d="M{LEFT} {line:.1f}h{WIDTH}"/>'
        yield f'<path class="base" d="M{LEFT} {y + height:.1f}h{WIDTH}"/>'


def _label(text: str, y: float, *, small: bool = False) -> str:
    shown = text if len(text) <= 20 else f"{text[:19]}…"
    kind = "label small" if small else "label"
    return f'<text class="{kind}" x="{LEFT - 10}" y="{y:g}">{escape(shown)}</text>'


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@title@</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{--ink:#0f172a;--soft:#64748b;--line:#e2e8f0;--back:#f8fafc;--card:#fff;--lane:#f1f5f9;
--wait:#cbd5e1;--heat:#1d4ed8}
@media (prefers-color-scheme:dark){:root{--ink:#e2e8f0;--soft:#94a3b8;--line:#334155;
--back:#0f172a;--card:#1e293b;--lane:#273449;--wait:#475569;--heat:#60a5fa}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:26px;margin:0 0 20px;letter-spacing:-.01em}
h2{font-size:16px;margin:0 0 10px}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;
padding:20px 22px;margin-top:20px}
.cards{display:flex;flex-wrap:wrap;gap:14px}
.card{flex:1 1 150px;background:var(--card);border:1px solid var(--line);border-radius:12px;
padding:14px 18px}
.card b{display:block;font-size:25px;line-height:1.2;font-weight:650}
.card b small{font-size:14px;font-weight:400;color:var(--soft)}
.card span{color:var(--soft);font-size:13px}
.card.bad b{color:#dc2626}
.lead{font-size:16px;margin:20px 2px 0}
.note{color:var(--soft);margin:8px 2px 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{font-weight:500;color:var(--soft);font-size:13px}
th,td{text-align:right;padding:6px 8px;border-top:1px solid var(--line)}
tr:first-child th{border-top:0}
th:first-child,td:first-child{text-align:left}
.why td{color:var(--soft);border-top:0;padding-top:0;text-align:left;font-size:13px}
i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px}
.legend{margin:0 0 12px;font-size:13px;color:var(--soft)}
.legend span{margin-right:16px}.legend em{font-style:normal;float:right}
svg{display:block;width:100%;height:auto;overflow:visible}
.grid{stroke:var(--line);stroke-width:1;fill:none}
.base{stroke:var(--soft);stroke-width:1;fill:none;opacity:.5}
.tick{font-size:11px;fill:var(--soft);text-anchor:middle}
.label{font-size:12px;fill:var(--ink);text-anchor:end;dominant-baseline:central}
.label.small{font-size:11px;fill:var(--soft)}
.lane{fill:var(--lane);opacity:.7}
.pod{stroke:var(--card);stroke-width:.4}.pod:hover,.run:hover{filter:brightness(1.15)}
.pod.idle{opacity:.38;stroke:#dc2626;stroke-width:1;stroke-dasharray:4 3}
.heat{fill:var(--heat)}
.wait{fill:var(--wait)}.wait.half{fill:#fca5a5}
.waits{fill:var(--wait)}
.cross{stroke:#dc2626;stroke-width:2;fill:none}
.quota{fill:var(--heat);opacity:.55}
.nominal{stroke:#dc2626;stroke-width:1.2;stroke-dasharray:5 4;fill:none}
.now{stroke:var(--ink);stroke-width:1;opacity:.35;pointer-events:none}
</style></head><body><main>
@body@
</main><script>
const lines=[...document.querySelectorAll("svg")].map(svg=>{
const line=document.createElementNS(svg.namespaceURI,"path");
line.setAttribute("class","now");svg.append(line);return [svg,line]});
document.addEventListener("mousemove",event=>{
const svg=event.target.closest&&event.target.closest("svg");
for(const [each,line] of lines){if(!svg){line.setAttribute("d","");continue}
const box=svg.getBoundingClientRect(),view=each.viewBox.baseVal;
const x=(event.clientX-box.left)/box.width*view.width;
line.setAttribute("d",x<150?"":`M${x} 0V${view.height-26}`)}});
</script></body></html>
"""
