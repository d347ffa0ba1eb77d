"""`gang-extender serve`: the extender beside kube-scheduler."""

import resource
import sys
from pathlib import Path
from typing import Annotated

import typer

from extender.cli.options import Format, Level


def serve(
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Kubeconfig file. Default: the pod's service account, else $KUBECONFIG, else "
            "~/.kube/config."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML settings: sections listen, gang, kube and log. Flags win over it."),
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
        typer.Option(help="PEM authority that kube-scheduler's client certificate must be from."),
    ] = None,
    tls_client_name: Annotated[
        list[str] | None,
        typer.Option(
            help="Name in the certificate of a client that may call the verbs, such as "
            "system:kube-scheduler. May be repeated."
        ),
    ] = None,
    schedule_timeout_seconds: Annotated[
        float | None,
        typer.Option(help="Wait of a gang whose PodGroup does not say, 60."),
    ] = None,
    scheduler_config: Annotated[
        Path | None,
        typer.Option(
            help="The KubeSchedulerConfiguration of kube-scheduler, for the resources it ignores."
        ),
    ] = None,
    log_level: Annotated[Level | None, typer.Option(help="Least level to log, info.")] = None,
    log_format: Annotated[Format | None, typer.Option(help="Form of the log, console.")] = None,
) -> None:
    """Serve kube-scheduler's filter, prioritize, preempt and bind webhooks for gangs of pods.

    Runs until SIGTERM or SIGINT. Endpoints: POST /filter /prioritize /preempt /bind, and GET
    /livez /readyz /metrics /openapi.json. Exit codes: 0 stopped, 1 failed, 2 wrong use.
    """
    import uvloop

    from extender import config as settings_module
    from extender.kube.errors import ConfigurationError
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
    try:
        settings = settings_module.load(config, overrides)
        if settings.listen.tls is not None:
            settings.listen.tls.check_files()
    except settings_module.SettingsError as error:
        typer.echo(f"gang-extender: {error}", err=True)
        raise typer.Exit(2) from None
    _raise_file_limit()
    logs.configure(settings.log.level, as_json=settings.log.format == "json")
    try:
        uvloop.run(wiring.serve(settings, kubeconfig))
    except (ConfigurationError, OSError) as error:
        typer.echo(f"gang-extender: {error}", err=True)
        raise typer.Exit(1) from None
    except SystemExit:
        raise typer.Exit(1) from None  # uvicorn has told why, and ends with a code of its own
    except KeyboardInterrupt:
        sys.exit(0)


def _raise_file_limit() -> None:
    """Take all open files that the system allows: each held bind is a connection of its own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
