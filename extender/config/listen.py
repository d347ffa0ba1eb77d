"""The section `listen`."""

from typing import Self

from pydantic import Field, model_validator

from extender.config.sections import Port, Positive, Seconds, Section, is_loopback
from extender.config.tls import Tls


class Listen(Section):
    """Where kube-scheduler finds the extender, and limits for clients."""

    host: str = "127.0.0.1"
    """address; any other than loopback requires `tls`"""
    port: Port = 8888
    """port; 0 takes a free one"""
    tls: Tls | None = None
    """TLS with client certificates"""
    keep_alive_seconds: int = Field(default=120, gt=90)
    """how long an idle connection is kept; longer than the 90 s of kube-scheduler"""
    max_body_bytes: int = Field(default=64 * 2**20, gt=0)
    """a larger request is refused; the names of 5000 nodes take 100 KiB"""
    read_seconds: Positive = 10
    """how long a client may take to send a whole request, and to begin the first"""
    max_connections: int = Field(default=25_000, ge=16)
    """open connections; one more closes the connection that has been without a whole request for
    longest; must be above `maxHeldBinds`"""
    max_handshakes: int = Field(default=256, ge=1)
    """connections with an unfinished TLS handshake, beside `maxConnections`; one more cuts off the
    oldest of the address that has the most"""
    max_held_binds: int = Field(default=20_000, ge=1)
    """bind requests that wait for the rest of their gangs, at about 17 KiB each; a gang that would
    hold more is refused"""
    shutdown_seconds: Seconds = 20
    """how long bindings that have begun may take after SIGTERM; keep it ten seconds below the pod's
    terminationGracePeriodSeconds"""

    @model_validator(mode="after")
    def _loopback_or_tls(self) -> Self:
        if self.tls is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} is not loopback, and a caller of /bind can place any pod: "
                "set listen.tls with certFile, keyFile, clientCaFile and clientNames, or listen on "
                "127.0.0.1"
            )
        if self.max_connections <= self.max_held_binds:
            raise ValueError("maxConnections must be above maxHeldBinds: each is a connection")
        return self
