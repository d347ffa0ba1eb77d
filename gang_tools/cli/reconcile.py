"""`gang-extender reconcile`: admits jobs and keeps the status of PodGroups, as the leader."""

from pathlib import Path
from typing import Annotated

import typer

from gang_tools.cli.options import Kubeconfig, LogFormat, LogLevel, SchedulerConfig, reported, run


def reconcile(
    *,
    kubeconfig: Kubeconfig = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML settings: sections reconcile, gang, queue, webhooks, kube, health, "
            "telemetry and log. Flags win over it."
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address of health, metrics and lists, 127.0.0.1.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port of the same, 8889.")] = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option(
            "--leader-elect/--no-leader-elect", help="Whether to work only as the leader; on."
        ),
    ] = None,
    lease_namespace: Annotated[
        str | None, typer.Option(help="Namespace of the Lease, gang-extender-system.")
    ] = None,
    lease_name: Annotated[
        str | None, typer.Option(help="Name of the Lease, gang-extender-reconciler.")
    ] = None,
    queue: Annotated[
        bool | None,
        typer.Option("--queue/--no-queue", help="Whether to admit jobs under quota; on."),
    ] = None,
    integration: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:CLASS",
            help="A kind of job that is not built in, to be queued as well; may be repeated. See "
            "docs/tasks/admin/add-a-kind.md.",
        ),
    ] = None,
    manage_jobs_without_queue_name: Annotated[
        bool | None,
        typer.Option(
            "--manage-jobs-without-queue-name/--no-manage-jobs-without-queue-name",
            help="Whether jobs without the label kueue.x-k8s.io/queue-name are held back too; off.",
        ),
    ] = None,
    scheduler_config: SchedulerConfig = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Admit suspended jobs under quota, keep the status of PodGroups, and act on partial gangs.

    Jobs that name a LocalQueue wait, suspended, until their ClusterQueue has quota for them
    (kueue.x-k8s.io/v1beta2). The reconciler starts, preempts and stops them, and requeues them
    where their pods are not ready after 30 minutes (queue.waitForPodsReady). Do not run it beside
    another controller of that API, except with --no-queue.

    Runs until SIGTERM or SIGINT. Endpoints: GET /livez /readyz /metrics /openapi.json
    /debug/snapshot, and of waiting workloads: /clusterqueues/{name}/pendingworkloads,
    /localqueues/{namespace}/{name}/pendingworkloads, /workloads/{namespace}/{name}/explanation.
    Exit codes: 0 stopped, 1 failed or no longer the leader, 2 wrong use.
    """
    from extender.config.settings import load
    from extender.telemetry import logs
    from extender.wiring import reconcile as wiring

    overrides: dict[str, dict[str, object]] = {
        "reconcile": {
            "host": host,
            "port": port,
            "leader_elect": leader_elect,
            "lease_namespace": lease_namespace,
            "lease_name": lease_name,
        },
        "queue": {
            "enabled": queue,
            "external_integrations": integration or None,
            "manage_jobs_without_queue_name": manage_jobs_without_queue_name,
        },
        "gang": {"scheduler_configuration": scheduler_config},
        "log": {"level": log_level, "format": log_format},
    }
    with reported():
        settings = load(config, overrides)
        logs.configure(settings.log.level, as_json=settings.log.format == "json")
        run(wiring.reconcile(settings, kubeconfig))
