"""A world out of a scenario: manifests become records by the decoders of both processes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

import msgspec

from extender.api.wellknown import (
    GROUP_X,
    POD_GROUP_LABEL,
    PREEMPT_FOR_ROOM_ANNOTATION,
    QUEUE_API_VERSION,
    REQUIRE_ROOM_ANNOTATION,
)
from extender.config.sections import SettingsError
from extender.kube.decode import DecodeError, Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.resources.quantity import PODS
from extender.state.cluster.records import NodeInfo, PodGroupInfo
from extender.state.queue.events import Record
from extender.state.queue.records import (
    LimitRangeInfo,
    LocalQueueInfo,
    Meta,
    NamespaceInfo,
    OwnerRef,
    PodSetInfo,
    RuntimeClassInfo,
    WorkloadInfo,
)
from gang_tools.manifests import faults, schema_for
from gang_tools.simulate.scenario import Arrivals, Distribution, JobClass, NodeClass, Scenario
from gang_tools.simulate.world import EPOCH, SimJob, World

Object = dict[str, Any]
DEFAULT_FLAVOR: Final = "default"
MOST_PODS: Final = 110
"""Pods of a node that does not say how many it takes."""
FIRST_VERSION: Final = 1_000_000
"""The resourceVersion of the first job; jobs have theirs in the order in which they come."""
POD_SET: Final = "main"
_GROUP: Final = "GROUP-OF-THE-JOB"
_encode = msgspec.json.encode


def world_of(scenario: Scenario) -> World:
    """Return the world of a scenario. Raises SettingsError where it contradicts itself."""
    return _Builder(scenario).world()


class _Builder:
    """Builds one world; numbers grow from object to object."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario, gang = scenario, scenario.settings.gang
        self._decoder = Decoder(gang.ignored(), placement=gang.placement)
        self._queues = QueueDecoder(self._decoder)
        self._version = 0
        self._namespaces = dict.fromkeys(each.namespace for each in scenario.jobs)
        self._read: Mapping[str, Callable[[bytes], Record]] = {
            "ResourceFlavor": self._queues.flavor,
            "Topology": self._queues.topology,
            "ClusterQueue": self._queues.cluster_queue,
            "Cohort": self._queues.cohort,
            "LocalQueue": self._queues.local_queue,
            "Namespace": self._queues.namespace,
            "PriorityClass": self._queues.priority_class,
            "WorkloadPriorityClass": self._queues.workload_priority_class,
            "LimitRange": self._queues.limit_range,
            "RuntimeClass": self._queues.runtime_class,
        }

    def world(self) -> World:
        scenario = self._scenario
        nodes = [node for each in scenario.nodes for node in self._nodes(each)]
        nodes += [
            self._decoded(n, each, self._decoder.node)
            for n, each in enumerate(scenario.objects)
            if each.get("kind") == "Node"
        ]
        if not nodes:
            raise SettingsError("nodes: are missing: say what the cluster has")
        records = [*self._records()]
        self._check(records, nodes)
        settings, jobs = scenario.settings, [*self._jobs()]
        completes = any(isinstance(each, LimitRangeInfo | RuntimeClassInfo) for each in records)
        return World(
            nodes=nodes,
            records=records,
            jobs=jobs,
            queue=settings.queue.options(),
            gang=settings.gang.options(),
            makes_groups=settings.queue.pod_groups == "Auto",
            step=scenario.step,
            until=scenario.until,
            version=FIRST_VERSION + len(jobs),
            # Without them templates count, as they are.
            complete=self._queues.completed if completes else None,
            compare=scenario.compare_alone,
        )

    # --- nodes and queues ----------------------------------------------------------------------

    def _nodes(self, of: NodeClass) -> Iterator[NodeInfo]:
        manifest = {
            "metadata": {"name": of.name},
            "spec": {"taints": of.taints},
            "status": {"allocatable": {PODS: MOST_PODS, **of.allocatable}},
        }
        try:
            first = self._decoder.node(_encode(manifest))
        except DecodeError as error:
            raise SettingsError(f"nodes: {of.name}: {error}") from None
        width = len(str(of.count - 1))
        for number in range(of.count):
            name = f"{of.name}-{number:0{width}d}" if of.count > 1 else of.name
            labels = {
                key: value if isinstance(value, str) else value[number % len(value)]
                for key, value in of.labels.items()
            }
            yield replace(first, name=name, labels={"kubernetes.io/hostname": name, **labels})

    def _records(self) -> Iterator[Record]:
        objects = [*self._of_queues(), *self._scenario.objects]
        said = {each["metadata"]["name"] for each in objects if each.get("kind") == "Namespace"}
        for name in self._namespaces:
            if name not in said:
                yield NamespaceInfo(name, {"kubernetes.io/metadata.name": name})
        for number, each in enumerate(objects):
            kind = each.get("kind")
            if kind == "Node":
                continue
            read = self._read.get(str(kind))
            if read is None:
                raise SettingsError(
                    f"objects[{number}]: a {kind} cannot be simulated; "
                    f"use one of Node, {', '.join(sorted(self._read))}; jobs go under `jobs:`"
                )
            yield self._decoded(number, each, read)

    def _of_queues(self) -> Iterator[Object]:
        """Yield the manifests that queues in short stand for."""
        if self._scenario.queues:
            yield _manifest("ResourceFlavor", DEFAULT_FLAVOR, {})
        for each in self._scenario.queues:
            resources = [{"name": r, "nominalQuota": n} for r, n in each.quota.items()]
            spec: Object = {
                "namespaceSelector": {},
                "queueingStrategy": each.strategy,
                "preemption": each.preemption,
                "resourceGroups": [
                    {
                        "coveredResources": [*each.quota],
                        "flavors": [{"name": DEFAULT_FLAVOR, "resources": resources}],
                    }
                ],
                **({"cohortName": each.cohort} if each.cohort else {}),
            }
            said: Object = {}
            if each.require_room is not None:
                said[REQUIRE_ROOM_ANNOTATION] = str(each.require_room).lower()
            if each.preempt_for_room is not None:
                said[PREEMPT_FOR_ROOM_ANNOTATION] = each.preempt_for_room
            yield _manifest("ClusterQueue", each.name, spec, annotations=said)
            for namespace in self._namespaces:
                local = {"clusterQueue": each.name}
                yield _manifest("LocalQueue", each.name, local, namespace=namespace)

    def _decoded(self, number: int, given: Object, read: Callable[[bytes], Any]) -> Any:  # noqa: ANN401
        meta = given.get("metadata")
        if not isinstance(meta, dict) or not meta.get("name"):
            raise SettingsError(f"objects[{number}]: metadata.name: is missing")
        self._version += 1
        kind, name = given.get("kind"), meta["name"]
        known = {
            "uid": f"{kind}-{meta.get('namespace', '')}-{name}",
            "resourceVersion": str(self._version),
            "generation": 1,
        }
        if wrong := "; ".join(_faults(given)):
            raise SettingsError(f"objects[{number}]: {kind} {name}: {wrong}")
        try:
            return read(_encode({**given, "metadata": {**known, **meta}}))
        except DecodeError as error:
            raise SettingsError(f"objects[{number}]: {kind} {name}: {error}") from None

    def _check(self, records: list[Record], nodes: list[NodeInfo]) -> None:
        names = {node.name for node in nodes}
        if len(names) < len(nodes):
            raise SettingsError("nodes: two have one name: give each class a name of its own")
        there = {each.key for each in records if isinstance(each, LocalQueueInfo)}
        for number, each in enumerate(self._scenario.jobs):
            if each.queue is not None and f"{each.namespace}/{each.queue}" not in there:
                known = ", ".join(sorted(there)) or "none"
                raise SettingsError(
                    f"jobs.{number}.queue: there is no LocalQueue {each.queue} in namespace "
                    f"{each.namespace}; there are: {known}"
                )

    # --- jobs ----------------------------------------------------------------------------------

    def _jobs(self) -> Iterator[SimJob]:
        until, arrivals = self._scenario.until, list[tuple[float, int, float]]()
        classes = [(each, self._pods(n, each)) for n, each in enumerate(self._scenario.jobs)]
        for number, (each, _) in enumerate(classes):
            random = Random(f"{self._scenario.seed}/{number}/{each.name}")  # noqa: S311
            arrivals += [
                (when, number, _run(each.run_for, random))
                for when in _times(each.arrivals, random)
                for _ in range(each.count)
            ]
        arrivals.sort(key=lambda each: each[0])
        counts = Counter[int]()
        for number, (when, which, runs) in enumerate(arrivals):
            if until is None or when <= until:
                of, pods = classes[which]
                name = f"{of.name}-{counts[which]}"
                counts[which] += 1
                yield _job(of, pods, name, number=number, arrival=when, runs=runs)

    def _pods(self, number: int, of: JobClass) -> PodSetInfo:
        """Return the pods of a job of a class, made once for all of them."""
        labels = {POD_GROUP_LABEL: _GROUP} if of.gang else {}
        container = {"name": "main", "resources": {"requests": of.requests}}
        template = _encode(
            {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container],
                    **({"nodeSelector": of.node_selector} if of.node_selector else {}),
                    **of.pod_spec,
                },
            }
        )
        try:
            shape = self._decoder.template(template)
        except DecodeError as error:
            raise SettingsError(f"jobs.{number}: {of.name}: {error}") from None
        return PodSetInfo(POD_SET, of.pods, shape, template=template)


def _job(
    of: JobClass, pods: PodSetInfo, name: str, *, number: int, arrival: float, runs: float
) -> SimJob:
    uid = f"job-{number}"
    group = None
    if of.gang is not None:
        pods = replace(pods, template=pods.template.replace(_GROUP.encode(), name.encode()))
        group = PodGroupInfo(
            of.namespace,
            name,
            GROUP_X,
            of.gang.min_member or of.pods,
            uid=f"group-{number}",
            created=EPOCH + arrival,
            version=FIRST_VERSION + number,
            required_topology=of.gang.required_topology,
            preferred_topology=of.gang.preferred_topology,
        )
    workload = None
    if of.queue is not None:
        workload = WorkloadInfo(
            Meta(
                f"job-{name}",
                of.namespace,
                uid=f"workload-{number}",
                version=FIRST_VERSION + number,
                created=EPOCH + arrival,
            ),
            (pods,),
            queue_name=of.queue,
            priority=of.priority,
            owners=(OwnerRef("batch/v1", "Job", name, uid),),
        )
    return SimJob(
        name,
        of.namespace,
        of.name,
        arrival,
        runs,
        (pods,),
        priority=of.priority,
        pod_group=group,
        workload=workload,
        uid=uid,
        gang_size=group.min_member if group is not None else 0,
    )


def _faults(given: Object) -> Iterator[str]:
    """Yield what is wrong with a manifest of the queue, each with the field."""
    schema = schema_for(QUEUE_API_VERSION, given.get("kind"))
    if schema is None:
        return
    if given.get("apiVersion") != QUEUE_API_VERSION:
        yield f"apiVersion: should be {QUEUE_API_VERSION}"
    yield from faults(given, schema)


def _manifest(
    kind: str, name: str, spec: Object, *, namespace: str = "", annotations: Object | None = None
) -> Object:
    meta: Object = {"name": name, "annotations": annotations or {}}
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": QUEUE_API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


def _times(arrivals: Arrivals, random: Random) -> Iterator[float]:
    """Yield when jobs of a class come, in seconds since the beginning."""
    if arrivals.at is not None:
        yield from arrivals.at
        return
    now = arrivals.start
    for _ in range(arrivals.count or 0):
        if arrivals.every is not None:
            yield now
            now += arrivals.every
        else:
            now += random.expovariate((arrivals.poisson_per_hour or 1.0) / 3600)
            yield now


def _run(run: float | Distribution, random: Random) -> float:
    """Return for how many seconds a job runs."""
    if not isinstance(run, Distribution):
        return run
    if run.uniform is not None:
        return random.uniform(*run.uniform)
    spread = run.lognormal
    assert spread is not None
    found = spread.median * random.lognormvariate(0.0, spread.sigma)
    return found if spread.most is None else min(found, spread.most)
