"""What is known of a cluster: all that the checks read, gathered by a shell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unknown:
    """In place of a fact that could not be had."""

    why: str


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the API server says of itself."""

    version: str
    """As `v1.36.3`."""
    minor: tuple[int, int] | None
    """As (1, 36); None where the version cannot be read."""
    ahead: float | None = None
    """Seconds by which its clock is ahead of this machine's, to about a second."""


@dataclass(frozen=True, slots=True)
class CrdFacts:
    """One of our CRDs, as the cluster has it."""

    served: frozenset[str]
    """The versions that the API server serves the resource in, by its discovery."""
    stored: Object | Unknown | None
    """The CRD itself; None where there is none."""


@dataclass(frozen=True, slots=True)
class NeededRight:
    """One verb on one resource."""

    verb: str
    group: str
    resource: str
    """With its subresource, as `pods/binding`."""
    name: str = ""
    """Of the one object that it is needed for; empty: of each."""
    namespace: str = ""
    """Where it is needed; empty: everywhere."""


@dataclass(frozen=True, slots=True)
class RightsFacts:
    """Which of the rights that a process needs one user has."""

    user: str
    allowed: Mapping[NeededRight, bool]


@dataclass(frozen=True, slots=True)
class IdentityFacts:
    """The rights of one process: of each user that it may be known as."""

    name: str
    """`extender` or `reconciler`."""
    users: Sequence[RightsFacts] | Unknown


@dataclass(frozen=True, slots=True)
class SchedulerFile:
    """A KubeSchedulerConfiguration, and what it is judged by."""

    path: str
    document: object | Unknown
    longest_wait: float
    """Seconds that the extender holds a bind request, at most."""


@dataclass(frozen=True, slots=True)
class OtherFacts:
    """What else runs in the cluster and may meet the same pods or jobs."""

    deployments: Mapping[str, str]
    """Those of `others.LOOKED_FOR` that run: the namespace by name."""
    native_gangs: Sequence[str]
    """Versions of scheduling.k8s.io in which Kubernetes serves groups of pods itself."""
    without_config: Sequence[str]
    """Static pods of kube-scheduler that have no `--config`."""
    native_cycles: bool = False
    """Whether kube-scheduler has written its condition to a native PodGroup."""
    native: str = "auto"
    """The setting `gang.native`."""
    half_gated: Sequence[str] = ()
    """Static pods of kube-scheduler with the gate GenericWorkload and without GangScheduling."""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One line of a metrics page."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class ExtenderFacts:
    """What an extender says of itself."""

    url: str
    ready: tuple[int, str] | Unknown
    """The status of /readyz, and its text."""
    samples: Sequence[MetricSample] | Unknown = ()


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """The Lease of the reconciler."""

    holder: str
    age: float
    """Seconds since it was renewed, by the API server's clock."""
    seconds: float
    """How long it counts."""


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """One thing that the API server calls a webhook for."""

    name: str
    """`conversion` or `jobs`, and for what."""
    has_authority: bool
    """Whether the API server has been given a certificate to trust."""
    trouble: str | Unknown = ""
    """What the API server said to a request that is not carried out; empty: it was answered."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Until when something counts."""

    name: str
    """The part of the finding's id."""
    title: str
    ends: float | Unknown
    renewal: str
    """How it is renewed."""
    is_brief: bool = False
    """Whether it is renewed every hour, so that a near end says nothing."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All of it."""

    now: float
    """Seconds since the epoch."""
    server: ServerFacts | Unknown
    crds: Mapping[str, CrdFacts | Unknown] = field(default_factory=dict)
    """By name, as `podgroups.scheduling.x-k8s.io`."""
    identities: Sequence[IdentityFacts] = ()
    policies: Mapping[str, bool] | Unknown = field(default_factory=dict)
    """By name of those that are shipped: whether the cluster has it, bound."""
    scheduler: SchedulerFile | None = None
    """None: none was named."""
    others: OtherFacts | Unknown | None = None
    extender: ExtenderFacts | None = None
    """None: none was named."""
    lease: LeaseFacts | Unknown | None = None
    """None: there is none."""
    elects: bool = False
    """Whether there should be one."""
    webhooks: Sequence[WebhookFacts] | Unknown = ()
    certificates: Sequence[CertificateFacts] = ()
    queue: bool = True
    """Whether the reconciler admits jobs."""
    without_effect: Sequence[tuple[str, str, Sequence[str]]] | Unknown = ()
    """Kind and name of queue objects and jobs, with what has no effect on them."""
