"""What decisions know of a pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from extender.api.core_v1 import Affinity, Toleration
from extender.api.wellknown import GANG_GATE

HostPort = tuple[str, int, str]
"""Protocol, number and address; no address is every address."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Shape:
    """Everything of a pod that decides where it fits; pods of one template share one Shape.

    Equality is identity: shapes are interned where pods are decoded, so that a gang of a thousand
    equal pods is one shape, one feasibility answer per node and one set of amounts in memory.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    """What a node must have free for it."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    one_per_node: bool = False
    """Two of this shape never share a node: host ports, or anti-affinity to itself by host name."""
    host_ports: frozenset[HostPort] = frozenset()
    individually_constrained: bool = False
    """Volumes, resource claims, spread constraints or affinity between pods: kube-scheduler judges
    them pod by pod, and differently after each placement."""
    beside_nodes: Mapping[str, int] = field(default_factory=dict)
    """What it asks for that kube-scheduler does not look for on nodes; quota counts it."""

    @property
    def asked(self) -> Mapping[str, int]:
        """Everything that it asks for, on nodes and beside them."""
        return {**self.requests, **self.beside_nodes} if self.beside_nodes else self.requests


@dataclass(frozen=True, slots=True)
class PodInfo:
    """One pod as last seen; times in seconds since the epoch."""

    uid: str
    namespace: str
    name: str
    shape: Shape
    group: str | None = None
    """`namespace/name` of the PodGroup that a label names, whether or not it exists."""
    node: str | None = None
    nominated: str | None = None
    priority: int = 0
    gates: tuple[str, ...] = ()
    terminating: bool = False
    finished: bool = False
    created: float = 0.0
    unschedulable: str | None = None
    """The message of `PodScheduled=False`, reason Unschedulable, of a pod that has no node."""
    scheduler: str = "default-scheduler"
    phase: str = "Pending"
    ready: bool = False
    """Whether everything in it is ready, readiness gates aside (`ContainersReady`)."""
    owners: tuple[str, ...] = ()
    """`namespace/name` of what owns it."""
    controller: str | None = None
    """The UID of the owner that makes another one in its place."""
    only_node: str | None = None
    """The one node of a pod that says that a DaemonSet made it."""
    readiness_gate: bool = False
    """Whether it waits for us to say that its gang is ready."""
    pod_set: str | None = None
    """Which pods of its workload it is one of, where its template was admitted by a queue."""
    workload: str | None = None
    """`namespace/name` of the Workload that it was admitted with, where its template says so."""
    gang_ready: bool = False
    """Whether we have said so."""
    index: int | None = None
    """Which part of an Indexed Job's work it does."""

    @property
    def is_held_back(self) -> bool:
        """Whether our own gate is the only one that keeps kube-scheduler from trying it."""
        return self.gates == (GANG_GATE,)

    def as_requested(self) -> "PodInfo":
        """Return what of a pod in a request is believed: what it is, not where and how it is."""
        return replace(
            self,
            node=None,
            nominated=None,
            unschedulable=None,
            finished=False,
            phase="Pending",
            ready=False,
            gang_ready=False,
        )

    @property
    def admitted(self) -> bool:
        """Whether it was made from a template that a queue has admitted."""
        return self.pod_set is not None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"
