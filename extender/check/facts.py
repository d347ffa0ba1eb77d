"""The facts of a cluster that the checks judge; `survey` reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.samples import Sample

from extender.api.manifests import stored_version
from extender.api.wellknown import GROUP_SIGS
from extender.check.findings import Unknown
from extender.kube.reviews import Access

Object = Mapping[str, Any]
Rights = Mapping[str, Mapping[Access, bool]]
"""The rights that are needed, and whether each is there, by user."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The version and the clock of the API server."""

    version: str
    """The version, such as `v1.36.3`."""
    minor: tuple[int, int] | None
    """The same in numbers, such as (1, 36); None where it cannot be read."""
    ahead: float | None = None
    """Seconds by which its clock is ahead of this machine's, to about a second."""


@dataclass(frozen=True, slots=True)
class CrdFacts:
    """One of our CRDs, as it is shipped and as the cluster has it."""

    shipped: Object
    served: frozenset[str] | Unknown
    """The versions that the API server serves the resource in, by its discovery."""
    stored: Object | Unknown | None = None
    """The CRD itself; None where there is none."""

    @property
    def title(self) -> str:
        """The name, as `podgroups.scheduling.x-k8s.io`."""
        return str(self.shipped["metadata"]["name"])

    @property
    def name(self) -> str:
        """The part of the finding's id; both groups of PodGroups have the same plural."""
        spec = self.shipped["spec"]
        return f"{spec['names']['plural']}{'-sigs' * (spec['group'] == GROUP_SIGS)}"

    @property
    def version(self) -> str:
        """The version that the processes write."""
        return stored_version(self.shipped)


@dataclass(frozen=True, slots=True)
class SchedulerFile:
    """A KubeSchedulerConfiguration, and what it is judged by."""

    path: str
    document: object | Unknown
    longest_wait: float
    """The most seconds that the extender holds a bind request."""


@dataclass(frozen=True, slots=True)
class OtherFacts:
    """The other controllers and schedulers that may meet the same pods or jobs."""

    deployments: Mapping[str, str]
    """The other controllers that run: the namespace by name."""
    native_gangs: Sequence[str] = ()
    """Versions of scheduling.k8s.io in which Kubernetes serves groups of pods itself."""
    without_config: Sequence[str] = ()
    """Static pods of kube-scheduler that have no `--config`."""
    native_cycles: bool = False
    """True if kube-scheduler has written its condition to a native PodGroup."""
    native: str = "auto"
    """The setting `gang.native`."""
    half_gated: Sequence[str] = ()
    """Static pods of kube-scheduler with the gate GenericWorkload and without GangScheduling."""


@dataclass(frozen=True, slots=True)
class ExtenderFacts:
    """The health and the metrics of an extender."""

    url: str
    ready: tuple[int, str] | Unknown
    """The status of /readyz, and its text."""
    samples: Sequence[Sample] | Unknown = ()


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """The Lease of the reconciler."""

    holder: str
    age: float
    """Seconds since it was renewed, by the API server's clock."""
    seconds: float
    """The seconds for which it counts."""


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """One thing that the API server calls a webhook for."""

    name: str
    """`conversion` or `jobs`."""
    has_authority: bool
    """True if the API server has been given a certificate to trust."""
    trouble: str | Unknown = ""
    """The error of a request that is only tried; empty if the webhook answered."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """A certificate or a token, and when it ends."""

    name: str
    """The part of the finding's id."""
    title: str
    ends: float | Unknown
    renewal: str
    """A sentence that says how it is renewed."""
    is_brief: bool = False
    """True if it is renewed every hour, so that a near end says nothing."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of one cluster."""

    now: float
    """Seconds since the epoch."""
    server: ServerFacts | Unknown
    crds: Sequence[CrdFacts] = ()
    rights: Mapping[str, Rights | Unknown] = field(default_factory=dict)
    """The rights by process, `extender` or `reconciler`."""
    policies: Mapping[str, bool] | Unknown = field(default_factory=dict)
    """The shipped policies by name: true if the cluster has the policy, bound."""
    scheduler: SchedulerFile | None = None
    """None: none was named."""
    others: OtherFacts | Unknown | None = None
    extender: ExtenderFacts | None = None
    """None: none was named."""
    lease: LeaseFacts | Unknown | None = None
    """None: there is none."""
    elects: bool = False
    """True if there should be a Lease."""
    webhooks: Sequence[WebhookFacts] | Unknown = ()
    certificates: Sequence[CertificateFacts] = ()
    queue: bool = True
    """True if the reconciler admits jobs."""
    without_effect: Sequence[tuple[str, str, Sequence[str]]] | Unknown = ()
    """Kind and name of queue objects and jobs, with what has no effect on them."""
