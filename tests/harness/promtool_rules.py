"""Our alerts, judged by promtool on series of samples: which of them fire."""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from tests.harness import monitoring
from tests.harness.toolchain import ensure_promtool

MINUTES = 90
"""How long series are; an alert is looked at in the last minute."""

Series = Mapping[str, str]
"""Values in promtool's notation, by selector."""

_SAMPLE = re.compile(r"^([a-z_]+)(\{.*\})? (\S+)$", re.MULTILINE)


class RulesError(AssertionError):
    """promtool refuses rules, or says that they come to something else."""


def check(folder: Path, groups: object) -> str:
    """Return what promtool says of rules that it takes; RulesError where it does not."""
    file = folder / "checked.yaml"
    file.write_text(yaml.safe_dump(groups))
    return run("check", "rules", "--lint=all", "--lint-fatal", str(file))


def fires(folder: Path, name: str, series: Series, *, expected: bool = True) -> None:
    """Return where an alert fires on these series, or does not; else RulesError."""
    prove(folder, [(name, series, expected)])


def prove(folder: Path, cases: Iterable[tuple[str, Series, bool]]) -> None:
    """Return where alerts fire on series exactly where that is expected; else RulesError."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(monitoring.rules()))
    tests = [
        {
            "name": f"{name} {'fires' if expected else 'does not fire'}",
            "interval": "1m",
            "input_series": [{"series": key, "values": value} for key, value in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) > bool 0',
                    "eval_time": f"{MINUTES}m",
                    "exp_samples": [{"labels": "{}", "value": 1}] * expected,
                }
            ],
        }
        for name, series, expected in cases
    ]
    said = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "cases.yaml").write_text(json.dumps(said))
    run("test", "rules", str(folder / "cases.yaml"))


def scraped(page: str, now: float, *, before: str = "") -> dict[str, str]:
    """Return a page of metrics as series: as if all had been like that for the whole time.

    A counter goes from what it was on the page `before` to what it is, all the time at the same
    pace. `now` is the time at the end, in seconds since the epoch: series begin at the epoch, so
    points in time are moved.
    """
    found = {}
    counts = {name + labels: float(value) for name, labels, value in _SAMPLE.findall(before)}
    for name, labels, text in _SAMPLE.findall(page):
        value = float(text)
        if name.endswith(("_total", "_count", "_sum", "_bucket")):
            more = value - counts.get(name + labels, 0.0)
            found[name + labels] = f"0+{more / MINUTES:.9f}x{MINUTES}"
            continue
        if name.endswith("_timestamp_seconds") and value:
            value += MINUTES * 60 - now
        found[name + labels] = f"{value:.9f}x{MINUTES}"
    return found


def names_of(expr: str) -> dict[str, set[str]]:
    """Return the metrics that an expression is over, each with the labels that are matched."""
    found: dict[str, set[str]] = {}
    plain = re.sub(r"\b(?:by|without|on) \([^)]*\)", "", expr)
    for name, matchers in re.findall(r"\b([a-z]+_[a-z_]+|up)\b(\{[^}]*\})?(?![\w(])", plain):
        labels = re.findall(r"(\w+)(?:=~|!=|=)", matchers)
        found.setdefault(name, set()).update(labels)
    return found


def run(*arguments: str) -> str:
    """Return what promtool prints; RulesError where it ends with a failure."""
    done = subprocess.run(
        [str(ensure_promtool()), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RulesError(done.stdout + done.stderr)
    return done.stdout
