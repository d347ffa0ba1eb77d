"""Jobs and their workloads as the API server would have them, without one."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeVar

from extender.api.core_v1 import Toleration
from extender.jobs.actions import (
    Action,
    Context,
    CreateWorkload,
    DropFinalizer,
    FinishWorkload,
    PatchWorkload,
)
from extender.jobs.job import GenericJob, Step
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.registry import builtin
from extender.jobs.workload import Priority, build
from extender.state.cluster.records import ConditionInfo, Shape
from extender.state.queue.records import (
    AdmissionInfo,
    Assignment,
    FlavorInfo,
    Meta,
    OwnerRef,
    PodSetInfo,
    WorkloadInfo,
)
from tests.harness import objects

Object = dict[str, Any]
A = TypeVar("A")

NS, UID = "ns", "u1"
FLAVOR = FlavorInfo(
    Meta("spot"),
    node_labels={"tier": "spot"},
    tolerations=(Toleration(key="spot", operator="Exists", effect="NoSchedule"),),
)
CONTEXT = Context(flavors={"spot": FLAVOR})
FINALIZER = "kueue.x-k8s.io/resource-in-use"


def body_of(made: GenericJob | CreateWorkload) -> Object:
    """Return the object itself, so that a test can look into it and change it."""
    return made.object


def job(
    name: str = "work",
    parallelism: int = 2,
    completions: int | None = None,
    *,
    queue: str | None = "q",
    suspend: bool = True,
    status: Mapping[str, Any] | None = None,
    own_annotations: Mapping[str, str] | None = None,
    **options: Any,
) -> BatchJob:
    made = objects.job(
        name, parallelism, completions, namespace=NS, queue=queue, suspend=suspend, **options
    )
    made["metadata"]["uid"] = UID
    if own_annotations:
        made["metadata"]["annotations"] = dict(own_annotations)
    made["status"] = dict(status or {})
    wrapped = builtin()["batch/job"].wrap(made)
    assert isinstance(wrapped, BatchJob)
    return wrapped


def workload(
    of: GenericJob,
    *holds: str | tuple[str, str, str],
    admitted: bool = False,
    reserved: bool = False,
    counts: Mapping[str, int] | None = None,
    **changes: Any,
) -> WorkloadInfo:
    """Return the workload of a job; conditions that hold by type, or (type, status, reason)."""
    made: Any = build(of, Priority())
    spec, meta = made["spec"], made["metadata"]
    pod_sets = tuple(
        PodSetInfo(
            each["name"],
            each["count"],
            Shape(),
            each.get("minCount"),
            json.dumps(each["template"]).encode(),
        )
        for each in spec["podSets"]
    )
    assignments = tuple(
        Assignment(s.name, {"cpu": "spot"}, {"cpu": 1}, (counts or {}).get(s.name, s.count))
        for s in pod_sets
    )
    quota = ("QuotaReserved", "Admitted") if admitted else ("QuotaReserved",) if reserved else ()
    fields = {
        "meta": Meta(
            meta["name"],
            NS,
            uid="w1",
            labels=meta.get("labels", {}),
            finalizers=tuple(meta["finalizers"]),
        ),
        "pod_sets": pod_sets,
        "queue_name": spec["queueName"],
        "max_execution": spec.get("maximumExecutionTimeSeconds"),
        "owners": (OwnerRef("batch/v1", "Job", "work", UID),),
        "admission": AdmissionInfo("cq", assignments) if quota else None,
        "conditions": tuple(map(condition, (*quota, *holds))),
    }
    return WorkloadInfo(**{**fields, **changes})


def condition(said: str | tuple[str, str, str]) -> ConditionInfo:
    kind, status, reason = (said, "True", said) if isinstance(said, str) else said
    return ConditionInfo(kind, status, reason, f"because of {reason}")


def sent(source: GenericJob | Object, *steps: Step) -> Object:
    """Return what the API server makes of an object and patches; it checks no rules."""
    result: Object = deepcopy(source if isinstance(source, dict) else source.object)
    for step in steps:
        assert not step.delete
        result = merged(result, step.patch)
    return result


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, as its appendix has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def only(kind: type[A], actions: tuple[Action, ...]) -> A:
    """Return the one action, which is of that kind."""
    [found] = actions
    assert isinstance(found, kind)
    return found


def first(kind: type[A], actions: tuple[Action, ...]) -> A:
    """Return the first action, which is of that kind."""
    assert isinstance(actions[0], kind)
    return actions[0]


def end_of(actions: tuple[Action, ...]) -> FinishWorkload:
    """Return the end of a workload, whose finalizer is removed with it."""
    finish, drop = actions
    assert isinstance(finish, FinishWorkload)
    assert isinstance(drop, DropFinalizer)
    return finish


def reasons(actions: tuple[Action, ...]) -> dict[str, str]:
    """Return the reason that each action has, by its name."""
    return {type(each).__name__: getattr(each, "reason", "") for each in actions}


def words(actions: tuple[Action, ...]) -> list[str]:
    """Return the names of actions; a patch of a workload is named by what it changes."""
    return [_word(each) for each in actions]


def _word(action: Action) -> str:
    if not isinstance(action, PatchWorkload):
        return type(action).__name__
    return "UpdateWorkload" if "spec" in action.change else "UpdateMetadata"
