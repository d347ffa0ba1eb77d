"""The scenario file: which nodes, queues and jobs there are. Strict, as the settings are."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from extender.config.gang import Gang
from extender.config.queue import Queue
from extender.config.sections import Duration, Name, Section, SettingsError, read_yaml
from extender.config.settings import problems
from extender.resources.quantity import QuantityError, parse_resources

Amount = str | int | float
Longer = Annotated[Duration, Field(gt=0)]


def _quantities(given: dict[str, Amount]) -> dict[str, Amount]:
    try:
        parse_resources(given)
    except QuantityError as error:
        raise ValueError(str(error)) from error
    return given


class NodeClass(Section):
    """Equal nodes."""

    name: Name = "node"
    """what their names begin with"""
    count: int = Field(default=1, ge=1, le=100_000)
    """how many there are"""
    allocatable: dict[str, Amount]
    """what each has for pods, such as `{cpu: 32, memory: 128Gi}`; `pods` is 110 unless it is named
    """
    labels: dict[str, str | list[str]] = Field(default_factory=dict)
    """labels of each; where a label has a list, the nodes have its values in turn"""
    taints: list[dict[str, str]] = Field(default_factory=list)
    """taints of each, as a Node has them"""

    _read = field_validator("allocatable")(_quantities)


class QueueClass(Section):
    """A ClusterQueue, with a LocalQueue of its name in each namespace."""

    name: Name
    """its name, and that of its LocalQueues"""
    quota: dict[str, Amount]
    """its nominal quota, of the flavor `default`"""
    cohort: str | None = None
    """the cohort with which it shares quota"""
    strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    """its `queueingStrategy`"""
    preemption: dict[str, Any] = Field(default_factory=dict)
    """its `preemption`, as a ClusterQueue has it"""
    require_room: bool | None = None
    """whether its jobs need room on nodes as well as quota; null: as `settings.queue` says"""
    preempt_for_room: Literal["Never", "LowerPriority"] | None = None
    """as the setting of that name; null: as `settings.queue` says"""

    _read = field_validator("quota")(_quantities)


class LogNormal(Section):
    """A distribution with few that take long."""

    median: Longer
    """half of the jobs run shorter"""
    sigma: float = Field(default=1.0, ge=0, le=5)
    """standard deviation of the logarithm: at 1 a sixth of the jobs run 2.7 times the median"""
    most: Longer | None = None
    """the longest run; longer ones are cut"""


class Distribution(Section):
    """Run times that differ from job to job: one of the two."""

    uniform: tuple[Duration, Duration] | None = None
    """evenly between two times"""
    lognormal: LogNormal | None = None
    """by a median and a spread"""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.uniform is None) == (self.lognormal is None):
            raise ValueError("say one of `uniform: [1m, 10m]` and `lognormal: {median: 10m}`")
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise ValueError("uniform: the first time should not be longer than the second")
        return self


class Arrivals(Section):
    """The times at which jobs are created: fixed, in equal intervals, or at random."""

    at: list[Duration] | None = None
    """fixed times"""
    every: Longer | None = None
    """interval; with `count`"""
    poisson_per_hour: float | None = Field(default=None, gt=0, le=1e9)
    """how many come in an hour on average, independent of each other; with `count`"""
    start: Duration = 0
    """when the first interval begins"""
    count: int | None = Field(default=None, ge=1, le=10_000_000)
    """how many times jobs come"""

    @model_validator(mode="after")
    def _one(self) -> Self:
        said = [name for name in ("at", "every", "poisson_per_hour") if getattr(self, name)]
        if len(said) != 1:
            raise ValueError("say one of `at: [0, 5m]`, `every: 30s` and `poissonPerHour: 120`")
        if (self.at is None) != (self.count is not None):
            raise ValueError("`count` belongs to `every` and `poissonPerHour`, which need it")
        return self


class GangClass(Section):
    """Jobs whose pods start together, whether or not a queue says so."""

    min_member: int | None = Field(default=None, ge=1)
    """how many pods start together; null: all"""
    required_topology: str | None = None
    """the label of which all nodes of its pods have the same value"""
    preferred_topology: str | None = None
    """the label of which the nodes of its pods have as few values as possible"""


class JobClass(Section):
    """Equal jobs. Each has its number in its name: `train-0`, `train-1`."""

    name: Name
    """what waiting times are added up by"""
    namespace: Name = "default"
    """namespace"""
    queue: str | None = None
    """LocalQueue; null: no queue, its pods are there at once"""
    priority: int = Field(default=0, ge=-(2**31), le=2**31 - 1)
    """priority of its pods and its workload"""
    count: int = Field(default=1, ge=1, le=1_000_000)
    """jobs that come each time"""
    arrivals: Arrivals = Arrivals(at=[0])
    """when they come; null: at the beginning"""
    pods: int = Field(default=1, ge=1, le=100_000)
    """pods of each job"""
    requests: dict[str, Amount] = Field(default_factory=dict)
    """what each pod asks for"""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """labels of the nodes that its pods may use"""
    pod_spec: dict[str, Any] = Field(default_factory=dict)
    """more of the pods' `spec`, such as `tolerations` and `affinity`"""
    gang: GangClass | None = None
    """whether it has a PodGroup of its own"""
    run_for: Longer | Distribution
    """how long its pods run, from when enough of them have started"""

    _read = field_validator("requests")(_quantities)

    @model_validator(mode="after")
    def _members(self) -> Self:
        if self.gang is not None and (self.gang.min_member or 1) > self.pods:
            raise ValueError(f"gang.minMember is above pods ({self.pods}): no such job ever starts")
        return self


class SimulatedSettings(Section):
    """The sections of the processes' settings on which decisions depend."""

    queue: Queue = Queue()
    """the section `queue`"""
    gang: Gang = Gang()
    """the section `gang`"""


class Scenario(Section):
    """Everything that is simulated."""

    nodes: list[NodeClass] = Field(default_factory=list)
    """nodes"""
    queues: list[QueueClass] = Field(default_factory=list)
    """queues in short"""
    objects: list[dict[str, Any]] = Field(default_factory=list)
    """real manifests: nodes, namespaces, priority classes, and all that Kueue's API has but
    Workloads"""
    jobs: list[JobClass] = Field(default_factory=list)
    """jobs"""
    settings: SimulatedSettings = SimulatedSettings()
    """settings of both processes"""
    seed: int = 0
    """what random numbers begin with: equal scenarios with equal seeds are equal"""
    until: Longer | None = None
    """when the simulation ends; null: when nothing happens any more"""
    step: Duration = 0.1
    """for how long changes are gathered before the next decisions, in seconds"""
    compare_alone: bool = False
    """whether to play it with kube-scheduler alone as well: no gangs and no queues"""


def load(path: Path) -> Scenario:
    """Return the scenario of a file. Raises SettingsError, which names each field and its fault."""
    given = read_yaml(path)
    if not isinstance(given, dict):
        raise SettingsError(f"{path}: should be a mapping with `nodes:` and `jobs:`")
    try:
        found = Scenario.model_validate(given, by_alias=True, by_name=False)
    except ValidationError as error:
        raise SettingsError(f"{path}: {problems(error)}") from None
    if not found.jobs:
        raise SettingsError(f"{path}: jobs: is missing: say which jobs come")
    return found
