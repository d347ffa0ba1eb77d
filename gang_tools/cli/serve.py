"""`gang-extender serve`: the extender beside kube-scheduler."""

import resource
from pathlib import Path
from typing import Annotated

import typer

from gang_tools.cli.options import Kubeconfig, LogFormat, LogLevel, SchedulerConfig, reported, run


def serve(
    *,
    kubeconfig: Kubeconfig = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML settings: sections listen, gang, kube, health, telemetry and log. "
            "It also reads reconcile.leaseNamespace. Flags win over it."
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on, 127.0.0.1; any other than loopback needs TLS."),
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 8888.")] = None,
    tls_cert_file: Annotated[
        Path | None, typer.Option(help="PEM certificate chain of this service.")
    ] = None,
    tls_key_file: Annotated[Path | None, typer.Option(help="PEM key of the certificate.")] = None,
    tls_client_ca_file: Annotated[
        Path | None,
        typer.Option(help="PEM authority that signs kube-scheduler's client certificate."),
    ] = None,
    tls_client_name: Annotated[
        list[str] | None,
        typer.Option(
            help="Name in the certificate of a client that may call the verbs, such as "
            "system:kube-scheduler. May be repeated."
        ),
    ] = None,
    schedule_timeout_seconds: Annotated[
        float | None, typer.Option(help="Wait of a gang whose PodGroup sets no time, 60.")
    ] = None,
    scheduler_config: SchedulerConfig = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Serve kube-scheduler's filter, prioritize, preempt and bind webhooks for gangs of pods.

    Runs until SIGTERM or SIGINT. Endpoints: POST /filter /prioritize /preempt /bind, and GET
    /livez /readyz /metrics /openapi.json /podgroups /podgroups/{namespace}/{name} /debug/snapshot.
    Exit codes: 0 stopped, 1 failed, 2 wrong use.
    """
    from extender.config.settings import load
    from extender.telemetry import logs
    from extender.wiring import serve as wiring

    tls = {
        "certFile": tls_cert_file,
        "keyFile": tls_key_file,
        "clientCaFile": tls_client_ca_file,
        "clientNames": tls_client_name or None,
    }
    given = {name: value for name, value in tls.items() if value is not None}
    overrides: dict[str, dict[str, object]] = {
        "listen": {"host": host, "port": port, "tls": given or None},
        "gang": {
            "schedule_timeout_seconds": schedule_timeout_seconds,
            "scheduler_configuration": scheduler_config,
        },
        "log": {"level": log_level, "format": log_format},
    }
    with reported():
        settings = load(config, overrides)
        if settings.listen.tls is not None:
            settings.listen.tls.check_files()
        # To the maximum: each held bind is a connection.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        logs.configure(settings.log.level, as_json=settings.log.format == "json")
        run(wiring.serve(settings, kubeconfig))
