"""The forecast for a job that is not created yet: a simulation with the job added."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import yaml
from pydantic import Field

from extender.api.values import LONGEST
from extender.api.wellknown import (
    GROUP_X,
    POD_GROUP_GROUPS,
    QUEUE_LABEL,
    names_without_effect,
    no_effect_sentence,
)
from extender.config.sections import SettingsError
from extender.jobs import fields, registry, workload
from extender.jobs.actions import Context
from extender.jobs.job import GenericJob
from extender.jobs.workload import PriorityClassNotFoundError, brought_by, refusal
from extender.kube.decode import DecodeError, Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.state.cluster.records import PodGroupInfo
from extender.state.queue.records import PriorityClassInfo, WorkloadPriorityClassInfo
from gang_tools.simulate.engine import Simulation
from gang_tools.simulate.from_cluster import expected
from gang_tools.simulate.report import Shown, duration
from gang_tools.simulate.world import MOST_PODS, SimJob, World

ARRIVES: Final = 0.001
"""The arrival of the job, in seconds: after all jobs that exist."""

Object = dict[str, Any]
_MOST_NAMES: Final = 20


class UnknownJobError(Exception):
    """The manifest has no job that can be answered about."""


class Forecast(Shown):
    """The forecast for a job that is created now."""

    job: str
    starts_now: bool
    lacks: str
    """what it is short of now, in the words of the decision"""
    starts_in_seconds: float | None
    """when it starts at the earliest; null where nothing that is known makes room for it"""
    waits_for: int
    """jobs that are there, and wait as well"""
    preempts: int
    """jobs that are stopped for it, or meanwhile"""
    preempted: list[str] = Field(default_factory=list)
    """the first of these jobs"""
    nodes: dict[str, int] = Field(default_factory=dict)
    """its pods by node, where it starts"""
    assumptions: list[str] = Field(default_factory=list)


def read(path: Path) -> list[Object]:
    """Return the objects of a manifest. Raises SettingsError."""
    try:
        return parsed(path.read_text(), str(path))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not YAML: {error}") from error


def parsed(manifest: str, name: str) -> list[Object]:
    """Return the objects of a manifest of that name. Raises SettingsError."""
    try:
        found = [each for each in yaml.safe_load_all(manifest) if each]
    except yaml.YAMLError as error:
        raise SettingsError(f"{name}: not YAML: {error}") from error
    if not all(isinstance(each, dict) for each in found):
        raise SettingsError(f"{name}: should be objects, such as a Job")
    return found


def answer(
    world: World,
    objects: Sequence[Object],
    *,
    assumed: float | None,
    gives_up: Callable[[], bool] = lambda: False,
) -> Forecast:
    """Return what would become of the job among these objects if they were created now.

    `assumed` is for how many seconds pods run of which nothing says it; no later start is looked
    for once `gives_up` says so. Raises UnknownJobError.
    """
    job = _Submission(world, objects, assumed).job()
    at_once = [each for each in world.jobs if each.arrival <= ARRIVES]
    played = Simulation(replace(world, jobs=[*world.jobs, job]))
    played.run(ARRIVES + world.step)
    now, lacks = job.started is not None, played.why_waiting(job)
    waiting = sum(1 for each in (*world.running, *at_once) if each.started is None)
    if not now:
        played.run(LONGEST, stop=lambda: job.started is not None or gives_up())
    open_ended = sum(1 for each in world.running if each.run_seconds is None and each.ended is None)
    stopped = [each.key for each in world.running if each.preempted]
    nodes = Counter(pod.node for pod in job.pods.values() if pod.node is not None)
    return Forecast(
        job=f"{job.kind} {job.key}",
        starts_now=now,
        lacks="" if now else lacks or "kube-scheduler finds no node for its pods",
        starts_in_seconds=0.0 if now else job.started and round(job.started, 1),
        waits_for=waiting,
        preempts=played.preemptions,
        preempted=stopped[:_MOST_NAMES],
        nodes=dict(sorted(nodes.items())) if job.started is not None else {},
        assumptions=[*_assumptions(world, job, open_ended, assumed=assumed)],
    )


def starts_of(world: World, gives_up: Callable[[], bool]) -> dict[str, int | None]:
    """Return when each workload that waits starts at the earliest, in seconds since the epoch.

    None where nothing that is known makes room for it. Those whose start is not found until
    `gives_up` says so are left out, and those that were evicted and still have pods on nodes.
    """
    waits = (each for each in world.running if each.workload and not each.workload.admission)
    queued = [each for each in waits if not any(pod.node for pod in each.pods.values())]
    left, late = [*queued], False

    def stop() -> bool:
        nonlocal late
        while left and left[-1].started is not None:
            left.pop()
        late = bool(left) and gives_up()
        return late or not left

    Simulation(world).run(LONGEST, stop=stop)
    return {
        each.workload.key: round(world.began + each.started) if each.started is not None else None
        for each in queued
        if each.workload is not None and (each.started is not None or not late)
    }


def _assumptions(
    world: World, job: SimJob, open_ended: int, *, assumed: float | None
) -> Iterator[str]:
    """Yield what the answer assumes, and what of the job it leaves out."""
    if open_ended:
        what = "job runs" if open_ended == 1 else "jobs run"
        yield (
            f"{open_ended} {what} on forever: neither activeDeadlineSeconds nor the annotation "
            "scheduling.x-k8s.io/expected-run-seconds says how long. Give a time with --assume"
        )
    if assumed is not None and world.running:
        yield f"pods of which nothing says how long they run, run for {duration(assumed)}"
    if not world.jobs:
        yield "jobs that are not there yet do not come before it"
    if any(each.shape.individually_constrained for each in job.pod_sets):
        yield (
            "not looked at: volumes, resource claims, topology spread, and affinity between pods. "
            "kube-scheduler alone decides about these"
        )
    if job.workload is not None and job.workload.meta.ignored:
        yield no_effect_sentence(job.workload.meta.ignored)


def text(found: Forecast) -> str:
    """Return an answer as text."""
    lines = [found.job]
    if found.starts_now:
        lines.append("  It would start now.")
    else:
        lines += ["  It would wait.", f"  Lacks now: {found.lacks}"]
        if found.starts_in_seconds is None:
            lines.append("  Nothing that is known makes room for it.")
        else:
            lines.append(f"  Starts in {duration(found.starts_in_seconds)} at the earliest.")
    if found.preempts:
        what = "job is" if found.preempts == 1 else "jobs are"
        lines.append(f"  {found.preempts} {what} preempted meanwhile.")
    if found.waits_for:
        what = "job waits" if found.waits_for == 1 else "jobs wait"
        lines.append(f"  {found.waits_for} other {what} already.")
    lines += [f"  Assumed: {each}." for each in found.assumptions]
    return "\n".join(lines) + "\n"


class _Submission:
    """A job as it would be in a world."""

    def __init__(self, world: World, objects: Sequence[Object], assumed: float | None) -> None:
        self._world, self._objects, self._assumed = world, objects, assumed
        self._decoder = Decoder()
        self._queues = QueueDecoder(self._decoder)
        self._created_at = world.began + ARRIVES

    def job(self) -> SimJob:
        """Return the job. Raises UnknownJobError."""
        kinds = registry.builtin().values()
        for source in self._objects:
            for each in kinds:
                if (each.api_version, each.kind) == (source.get("apiVersion"), source.get("kind")):
                    # As the API server would hold it.
                    meta = fields.ensure(source, "metadata")
                    meta.setdefault("namespace", "default")
                    meta.setdefault("name", f"{meta.get('generateName', 'job-')}xxxxx")
                    meta["uid"] = "submitted"
                    return self._job(each.wrap(source))
        names = ", ".join(f"{each.api_version} {each.kind}" for each in kinds)
        raise UnknownJobError(f"the manifest has no job; there should be one of {names}")

    def _job(self, job: GenericJob) -> SimJob:
        refused = None if job.is_composed else refusal(job)
        if refused is not None:
            raise UnknownJobError(f"the job would not be queued: {refused.message}")
        records = self._world.records
        context = Context(
            workload_priority_classes={
                each.name: each for each in records if isinstance(each, WorkloadPriorityClassInfo)
            },
            priority_classes={
                each.name: each for each in records if isinstance(each, PriorityClassInfo)
            },
        )
        try:
            priority = workload.priority_of(job, context)
            built = workload.build(job, priority)
            meta = cast(Object, built["metadata"])
            meta.update(uid="submitted-workload", resourceVersion=str(self._world.version))
            found = self._queues.workload(msgspec.json.encode(built))
        except PriorityClassNotFoundError as error:
            raise UnknownJobError(str(error)) from error
        except (DecodeError, TypeError, ValueError) as error:
            raise UnknownJobError(f"the job cannot be read: {error}") from error
        if found.unreadable:
            raise UnknownJobError(f"the job cannot be read: {found.unreadable}")
        pods = sum(each.count for each in found.pod_sets)
        if pods > MOST_PODS:
            raise UnknownJobError(f"the job has {pods} pods: at most {MOST_PODS} can be played")
        names = (fields.strings(job.object, "metadata", each) for each in ("labels", "annotations"))
        ignored = (*found.meta.ignored, *names_without_effect(*names))
        meta_now = replace(found.meta, created=self._created_at, ignored=ignored)
        found = replace(found, meta=meta_now)
        namespace, name = found.meta.namespace, fields.text(job.object, "metadata", "name")
        group = self._group(job, namespace)
        queued = bool(fields.label(job.object, QUEUE_LABEL))
        runs = expected(job.object, [each.template for each in job.pod_sets()])
        return SimJob(
            name,
            namespace,
            fields.text(job.object, "kind"),
            ARRIVES,
            self._assumed if runs is None else runs,
            found.pod_sets,
            priority=found.priority,
            pod_group=group,
            workload=found if queued else None,
            uid="submitted",
            gang_size=group.min_member if group is not None else 0,
        )

    def _group(self, job: GenericJob, namespace: str) -> PodGroupInfo | None:
        """Return the PodGroup that the pods of a job name: from the manifest, or the cluster."""
        name = next(filter(None, (brought_by(each.template) for each in job.pod_sets())), "")
        if not name:
            return None
        for source in self._objects:
            said: Mapping[str, Any] = source.get("metadata") or {}
            if source.get("kind") == "PodGroup" and said.get("name") == name:
                api_group = str(source.get("apiVersion", "")).partition("/")[0]
                api_group = api_group if api_group in POD_GROUP_GROUPS else GROUP_X
                meta = {"namespace": namespace, "uid": "submitted-group", **said}
                raw = msgspec.json.encode({**source, "metadata": meta})
                try:
                    found = self._decoder.pod_group(raw, api_group=api_group)
                except DecodeError as error:
                    raise UnknownJobError(f"PodGroup {name}: {error}") from error
                return replace(found, created=self._created_at, version=self._world.version)
        key = f"{namespace}/{name}"
        known = next((each for each in self._world.pod_groups if each.key == key), None)
        if known is None:
            raise UnknownJobError(f"its pods name PodGroup {name}, which is not in the manifest")
        return known
