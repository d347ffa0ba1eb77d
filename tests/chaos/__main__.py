"""`python -m tests.chaos`: kill, cut and confuse everything under a load of gangs and Jobs.

Every scenario has a control plane of its own: the real etcd, API server, controllers and
kube-scheduler. The report goes to standard output, progress to standard error. Exit code 1 says
that something was lost: a gang that stayed partial, quota or a node that was exceeded, a Job that
was admitted twice or never ended, or room that is kept in an empty cluster.
"""

import random
import sys
import time
import traceback
from collections.abc import Callable
from typing import Annotated

import typer

from tests.chaos import report, scenarios
from tests.chaos.load import Load
from tests.chaos.scenarios import Outcome

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    only: Annotated[
        str,
        typer.Option(help=f"Only these scenarios, with commas: {', '.join(scenarios.SCENARIOS)}."),
    ] = "",
    kills: Annotated[int, typer.Option(min=1, help="How often a component is killed.")] = 50,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs of plain pods in a load.")] = 30,
    jobs: Annotated[int, typer.Option(min=1, help="Queued Jobs in a load.")] = 200,
    held: Annotated[int, typer.Option(min=2, help="Binds that are held at SIGTERM.")] = 1000,
    churn: Annotated[float, typer.Option(min=30, help="Seconds of churn.")] = 1800,
    off: Annotated[bool, typer.Option("--off", help="With gang.bindTogether: off.")] = False,
    seed: Annotated[
        int | None, typer.Option(help="Of everything that is random; drawn if not given.")
    ] = None,
) -> None:
    chosen = seed if seed is not None else random.SystemRandom().randrange(10_000)
    wanted = only.split(",") if only else list(scenarios.SCENARIOS)
    unknown = set(wanted) - set(scenarios.SCENARIOS)
    if unknown:
        raise typer.BadParameter(f"there is no scenario {', '.join(sorted(unknown))}")
    load = Load(gangs=gangs, jobs=jobs, seed=chosen, together=not off)
    runs = {
        "kills": lambda: scenarios.kills(load, kills, _say),
        "api": lambda: scenarios.unreliable_api(load, _say),
        "leadership": lambda: scenarios.leadership(load, 5, _say),
        "compaction": lambda: scenarios.compaction(load, 5, _say),
        "sigterm": lambda: scenarios.sigterm(held, _say, together=not off),
        "churn": lambda: scenarios.churn(churn, _say, seed=chosen, together=not off),
    }
    print(f"seed {chosen}", flush=True)
    outcomes = []
    for name in wanted:
        _say(f"scenario {name}")
        outcome = _played(name, runs[name])
        outcomes.append(outcome)
        print("\n".join(report.of_one(outcome)), flush=True)
    print(report.in_all(outcomes))
    if any(each.lost for each in outcomes):
        raise typer.Exit(1)


def _played(name: str, scenario: Callable[[], Outcome]) -> Outcome:
    """Return what a scenario saw; one that an error ended does not end the others."""
    try:
        return scenario()
    except Exception as error:  # noqa: BLE001 - the report says which, and the next one goes on
        traceback.print_exc()
        return Outcome(name, lost=[f"the scenario was ended by {type(error).__name__}: {error}"])


_said = [0.0]


def _say(text: str) -> None:
    """Print a line of progress, one a second at most."""
    now = time.monotonic()
    if now - _said[0] >= 1:
        _said[0] = now
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    app()
