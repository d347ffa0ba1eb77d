"""`gang-extender page`: shows queues, gangs and nodes, live, in a browser."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gang_tools.cli.options import Kubeconfig, LogFormat, LogLevel, missing_extra, reported, run


def page(
    *,
    kubeconfig: Kubeconfig = None,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML settings of the processes, if there are any: gang, queue, kube."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. On any other than loopback people need a bearer token of "
            "the cluster, and the page a certificate."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8890,
    tls_cert_file: Annotated[
        Path | None, typer.Option(help="PEM certificate chain of the page.")
    ] = None,
    tls_key_file: Annotated[Path | None, typer.Option(help="PEM key of the certificate.")] = None,
    authenticate: Annotated[
        bool,
        typer.Option(
            help="Ask for a token on loopback too, as behind a proxy that passes tokens on."
        ),
    ] = False,
    prometheus: Annotated[
        str | None,
        typer.Option(
            help="Address of a Prometheus that scrapes the reconciler, such as "
            "http://127.0.0.1:9090: it is asked once for the hours before the start."
        ),
    ] = None,
    prometheus_token_file: Annotated[
        Path | None,
        typer.Option(help="File with a bearer token for it. SSL_CERT_FILE names its authorities."),
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Show in a browser what waits and why, who has what, and which room is kept for whom.

    It reads the cluster and changes nothing; no scheduling depends on it. Needs the packages of the
    extra page. Runs until SIGTERM or SIGINT. Exit codes: 0 stopped, 1 failed, 2 wrong use.
    """
    from extender.config.sections import SettingsError, is_loopback
    from extender.config.settings import load
    from extender.telemetry import logs

    try:
        from gang_tools.page import serving
    except ImportError as error:
        missing_extra(error, "page")
    with reported():
        if (tls_cert_file is None) != (tls_key_file is None):
            raise SettingsError("--tls-cert-file and --tls-key-file go together")
        if not is_loopback(host) and tls_cert_file is None:
            raise SettingsError(f"{host} is not loopback, and tokens come here: give --tls-*-file")
        if prometheus_token_file and not prometheus:
            raise SettingsError("--prometheus-token-file is for --prometheus: give both")
        if prometheus and not prometheus.startswith(("http://", "https://")):
            raise SettingsError(f"--prometheus {prometheus} is not an http or https address")
        overrides: dict[str, dict[str, object]] = {
            "log": {"level": log_level, "format": log_format}
        }
        settings = load(config, overrides)
        logs.configure(settings.log.level, as_json=settings.log.format == "json")
        files = (tls_cert_file, tls_key_file) if tls_cert_file and tls_key_file else None
        guarded = authenticate or not is_loopback(host)
        asked = (prometheus, prometheus_token_file) if prometheus else None
        serve = partial(serving.serve, settings, kubeconfig, (host, port), files=files)
        run(serve(authenticate=guarded, prometheus=asked))
