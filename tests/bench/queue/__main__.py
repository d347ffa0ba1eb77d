"""`python -m tests.bench.queue`: Workloads under quota, admitted by our reconciler or by others.

Part `quota`: a real API server and etcd, no nodes and no pods: an admitted Workload is finished
after the runtime of its class, an evicted one lets its quota go. Part `jobs`: real Jobs from their
creation to Complete, through our queue alone or another one beside a stock kube-scheduler, and
through ours with gangs. Every run has a control plane of its own. Tables go to standard output,
progress to standard error. Exit code 1 says that more quota was held than there is, that Workloads
were not finished or Jobs not complete in time, or that a run failed.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from tests.bench.queue import controllers
from tests.bench.queue import load as loads
from tests.bench.queue.bench import JobsBench, QuotaBench
from tests.bench.queue.jobs import JobsLoad
from tests.bench.series import Limits, Series, play
from tests.harness.toolchain import ensure_binaries

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Part(StrEnum):
    """What is measured."""

    QUOTA = "quota"
    JOBS = "jobs"
    ALL = "all"


@app.command(help=__doc__)
def main(
    part: Annotated[
        Part,
        typer.Option(
            help="`quota`: Workloads without pods; `jobs`: Jobs from their creation to Complete; "
            "`all`: one after the other."
        ),
    ] = Part.ALL,
    config: Annotated[
        Path,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Part quota: the load, which has cohorts, queues, and classes of Workloads with "
            "count, interval, runtime, priority and request. tests/bench/queue/loads has two.",
        ),
    ] = loads.BASELINE,
    jobs: Annotated[int, typer.Option(min=1, help="Part jobs: number of Jobs.")] = 2000,
    jobs_pods: Annotated[
        int, typer.Option(min=1, help="Part jobs: pods of a Job, all at once.")
    ] = 3,
    jobs_quota: Annotated[
        int,
        typer.Option(min=1, help="Part jobs: for how many Jobs each of the ten queues has quota."),
    ] = 20,
    jobs_runtime: Annotated[
        float, typer.Option(min=0, help="Part jobs: seconds that each pod runs.")
    ] = 1.0,
    jobs_rate: Annotated[
        float,
        typer.Option(
            min=0,
            help="Part jobs: Jobs created each second; 0: as fast as the API server takes them.",
        ),
    ] = 0.0,
    external: Annotated[
        str,
        typer.Option(
            help="Measure this command in place of ours. It gets "
            "KUBECONFIG, with all rights, serves the same API, and is stopped by SIGTERM. No shell "
            "is between, and its own process is measured: a script should end with `exec`."
        ),
    ] = "",
    external_name: Annotated[str, typer.Option(help="What its column is called.")] = "external",
    external_crds: Annotated[
        Path,
        typer.Option(exists=True, help="Its CRDs, a file or folder of YAML; default ours."),
    ] = controllers.CRDS,
    both: Annotated[
        bool, typer.Option("--both", help="With --external: measure ours too, in turn.")
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(exists=True, help="Configuration of our reconciler."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 1,
    timeout: Annotated[float, typer.Option(min=1, help="Most seconds of a run.")] = 900,
    json: Annotated[Path | None, typer.Option(help="Write all results there.")] = None,
) -> None:
    try:
        load = loads.read(config)
    except (ValueError, yaml.YAMLError) as error:
        raise typer.BadParameter(f"{config}:\n{error}") from error
    given = yaml.safe_load(settings.read_text()) if settings else None
    other = (
        controllers.external(external, name=external_name, crds=external_crds) if external else None
    )
    real_jobs = JobsLoad(
        jobs=jobs, pods=jobs_pods, quota=jobs_quota, runtime=jobs_runtime, rate=jobs_rate
    )
    limits = Limits(run=timeout)
    benches: dict[Part, Series[Any, Any]] = {
        Part.QUOTA: QuotaBench(
            config, load, controllers.of_workloads(given, other, both=both), limits, repeat
        ),
        Part.JOBS: JobsBench(
            real_jobs, controllers.of_jobs(given, other, both=both), limits, repeat
        ),
    }
    ensure_binaries()
    chosen = [bench for each, bench in benches.items() if part in {each, Part.ALL}]
    raise typer.Exit(play(chosen, json))


if __name__ == "__main__":
    app()
