"""The section `reconcile`."""

from typing import Self

from pydantic import Field, model_validator

from extender.config.sections import Name, Port, Positive, Section, is_loopback
from extender.config.tls import Certificate
from extender.kube.lease import LeaseTimes


class Reconcile(Section):
    """Where the reconciler serves health, metrics and lists, and how a leader is elected."""

    host: str = "127.0.0.1"
    """address of health, metrics and the lists of waiting workloads; any other than loopback is
    served with TLS, to callers whose bearer token the API server accepts"""
    port: Port = 8889
    """port; 0 takes a free one"""
    tls: Certificate | None = None
    """certificate to serve; default on another address than loopback: the webhooks'"""
    authenticate_on_loopback: bool = False
    """whether callers need a bearer token on loopback too"""
    leader_elect: bool = True
    """whether to work only as the leader among replicas"""
    lease_namespace: Name = "gang-extender-system"
    """namespace of the Lease; change it with `webhooks.namespace` where the reconciler runs in
    another namespace"""
    lease_name: Name = "gang-extender-reconciler"
    """name of the Lease"""
    lease_seconds: int = Field(default=15, ge=1)
    """how long replicas wait for a silent leader; above `renewSeconds`"""
    renew_seconds: Positive = 10
    """how long the leader tries to renew before it gives up; above `retrySeconds`"""
    retry_seconds: Positive = 2
    """pause between two tries to renew"""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds:
            raise ValueError(
                "leaseSeconds must be above renewSeconds, and that above retrySeconds, or two "
                "replicas could lead at once"
            )
        return self

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the address."""
        return is_loopback(self.host)

    @property
    def authenticates(self) -> bool:
        """Whether callers must send a bearer token."""
        return self.authenticate_on_loopback or not self.is_local

    def times(self) -> LeaseTimes:
        """Return the times of the election."""
        return LeaseTimes(float(self.lease_seconds), self.renew_seconds, self.retry_seconds)
