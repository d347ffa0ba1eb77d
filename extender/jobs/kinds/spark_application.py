"""SparkApplication (sparkoperator.k8s.io): a driver, and the executors that it makes.

The spec has no pod templates that say it all: Spark and its operator make the pods from fields of
the driver and of the executors. The pod sets are what they make of these.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import ClassVar, Final

from typing_extensions import override

from extender.api.wellknown import NODE_SELECTOR_ANNOTATION, QUEUE_LABEL
from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.job import Finished, OperatedJob, Slot, Step
from extender.jobs.templates import Placement, PlacementError

_SELECTOR: Final = "nodeSelector"
_PARTS: Final = ("driver", "executor")
_LEAST_OVERHEAD: Final = 384
"""The memory in MiB that Spark adds at least."""
_MIB: Final = 2**20
_UNITS: Final = {"b": 1, "k": 2**10, "m": _MIB, "g": 2**30, "t": 2**40, "p": 2**50}
_MEMORY: Final = re.compile(r"(\d{1,15})([bkmgtp]?)b?", re.IGNORECASE)
_AMOUNTS: Final = re.compile(
    r"spark\.(driver|executor)\.(cores|memory|(minM|m)emoryOverhead(Factor)?|resource\..*)"
    r"|spark\.yarn\.(driver|executor)\.memoryOverhead"  # Spark reads the former name everywhere
    r"|spark\.kubernetes\.((driver|executor)\.(request\.cores|podTemplateFile)"
    r"|memoryOverheadFactor)"
    r"|spark\.executor\.instances|spark\.dynamicAllocation\.(enabled|\w+Executors)",
)
"""The keys of `sparkConf` that say what fields of the spec say too."""

_IDLE: Final = frozenset(("", "SUSPENDED", "COMPLETED", "FAILED"))
_GOOD: Final = frozenset(("RUNNING", "COMPLETED"))


class SparkApplication(OperatedJob):
    """A SparkApplication; its operator suspends it since release 2.4.0."""

    integration: ClassVar = "sparkoperator.k8s.io/sparkapplication"
    kind: ClassVar = "SparkApplication"
    group: ClassVar = "sparkoperator.k8s.io"
    version: ClassVar = "v1beta2"
    plural: ClassVar = "sparkapplications"
    pods_outlive_job: ClassVar = True

    @override
    def slots(self) -> list[Slot]:
        counts = (1, self._executors("maxExecutors"))
        return [
            Slot(part, count, self._template(part))
            for part, count in zip(_PARTS, counts, strict=True)
        ]

    @override
    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Write the placements into the driver and the executors.

        The operator refuses a selector for both beside theirs, so that one moves into them.
        """
        given, slots = {each.name: each for each in placements}, self.slots()
        for slot in slots:
            if slot.name not in given:
                raise PlacementError(f"pod set {slot.name} is given no place")
            if given[slot.name].gates and not self._own_template(slot.name):
                raise PlacementError(
                    f"spec.{slot.name}: its pods go to several domains of a topology, for which "
                    "they need gates: give them a template"
                )
            templates.inject(slot.template, given[slot.name])
        spec = fields.ensure(self.object, "spec")
        moved = ",".join(f"{key}={text}" for key, text in fields.strings(spec, _SELECTOR).items())
        if spec.pop(_SELECTOR, None):
            fields.ensure(self.object, "metadata", "annotations")[NODE_SELECTOR_ANNOTATION] = moved
        self._write(slots)

    @override
    def restore_node_selectors(self, pod_sets: Sequence[Slot]) -> None:
        before, slots = {each.name: each.template for each in pod_sets}, self.slots()
        for slot in slots:
            if slot.name in before:
                templates.restore(slot.template, before[slot.name])
        moved = fields.annotation(self.object, NODE_SELECTOR_ANNOTATION)
        if moved:
            pairs = (each.partition("=") for each in moved.split(","))
            fields.ensure(self.object, "spec")[_SELECTOR] = {key: text for key, _, text in pairs}
            del fields.ensure(self.object, "metadata", "annotations")[NODE_SELECTOR_ANNOTATION]
        self._write(slots)

    @override
    def stop_steps(self, pod_sets: Sequence[Slot] | None) -> Sequence[Step]:
        return () if self._cannot_stop() else super().stop_steps(pod_sets)

    @override
    def problem(self) -> str:
        if self._cannot_stop():
            return (
                "spec.suspend: the CRD has no such field, so nothing can stop it and it runs "
                "without quota. The operator has it since release 2.4.0: upgrade the operator and "
                f"its CRDs, or remove the label {QUEUE_LABEL}"
            )
        for part in _PARTS:
            for name in ("memory", "memoryOverhead"):
                said = fields.text(self._spec(part), name)
                if said and _mebibytes(said) is None:
                    return f"spec.{part}.{name}: {said!r} is no amount of Spark, such as 512m or 2g"
        if self._is_dynamic() and fields.number(self._dynamic(), "maxExecutors") is None:
            return (
                "spec.dynamicAllocation.maxExecutors: without it the application could become "
                "larger than any quota. Set it: it needs quota for so many executors"
            )
        odd = sorted(filter(_AMOUNTS.fullmatch, self._conf()))
        if odd:
            return f"spec.sparkConf: {odd[0]} is not counted. Use the field of the spec for it"
        return ""

    @override
    def finished(self) -> Finished | None:
        state = self._state()
        if state not in ("COMPLETED", "FAILED"):
            return None
        message = fields.text(self.object, "status", "applicationState", "errorMessage")
        return Finished(state == "COMPLETED", message)

    @override
    def pods_ready(self) -> bool:
        """Return whether it runs with the executors that it begins with."""
        states = fields.strings(self.object, "status", "executorState").values()
        ready = sum(state in _GOOD for state in states)
        return self._state() == "RUNNING" and ready >= self._executors("initialExecutors")

    @override
    def is_active(self) -> bool:
        return self._state() not in _IDLE

    @override
    def notices_stop(self) -> bool:
        return self._state() == "SUSPENDED"

    @override
    def has_stopped(self) -> bool:
        """Return whether its operator has seen it suspended, also where it was created so.

        Otherwise the operator may submit it twice.
        """
        return self.notices_stop()

    @override
    def makes(self, kind: str, name: str) -> bool:
        """Return False: it makes only pods, which are no jobs of their own."""
        return False

    @override
    def late_pod_sets(self) -> Collection[str]:
        """Return the executors: the driver makes them."""
        return ("executor",)

    # -- the spec

    def _state(self) -> str:
        return fields.text(self.object, "status", "applicationState", "state")

    def _cannot_stop(self) -> bool:
        """Return whether `suspend` was written with the mark of a stop, and not stored."""
        marked = self._mark() is not None
        return marked and "suspend" not in fields.mapping(self.object, "spec")

    def _spec(self, part: str) -> Mapping[str, object]:
        return fields.mapping(self.object, "spec", part)

    def _conf(self) -> dict[str, str]:
        return fields.strings(self.object, "spec", "sparkConf")

    def _dynamic(self) -> Mapping[str, object]:
        return fields.mapping(self.object, "spec", "dynamicAllocation")

    def _is_dynamic(self) -> bool:
        return fields.flag(self._dynamic(), "enabled")

    def _executors(self, limit: str) -> int:
        """Return how many executors there are; with dynamic allocation, up to one of its limits.

        Spark makes two where the spec says nothing.
        """
        instances = fields.count(self._spec("executor"), "instances", default=2)
        if not self._is_dynamic():
            return instances
        start = fields.count(self._spec("executor"), "instances")
        names = ("minExecutors", "initialExecutors", limit)
        return max(start, *(fields.count(self._dynamic(), name) for name in names))

    def _own_template(self, part: str) -> bool:
        """Return whether the pods have a template; the operator then adds nothing to them."""
        return bool(fields.mapping(self._spec(part), "template"))

    def _template(self, part: str) -> Object:
        """Return a part as the pod template that Spark and its operator make of it."""
        said = deepcopy(dict(self._spec(part)))
        made = fields.ensure(said, "template")
        pod = fields.ensure(made, "spec")
        containers = fields.objects(pod, "containers")
        main, beside = (containers[0], containers[1:]) if containers else ({}, [])
        if not self._own_template(part):
            beside = fields.objects(said, "sidecars")
            for name in ("affinity", "priorityClassName", "schedulerName", "initContainers"):
                fields.put(pod, name, said.get(name))
        else:
            said = {name: said.get(name) for name in ("labels", "annotations")}
        pod["containers"] = [self._container(part, main), *beside]
        common = {_SELECTOR: fields.mapping(self.object, "spec", _SELECTOR)}
        for each in (common, said):
            templates.follow(made, {}, templates.unfolded(each))
        return made

    def _container(self, part: str, main: Mapping[str, object]) -> Object:
        """Return the container of Spark, with what it asks for."""
        spec = self._spec(part)
        cpu = fields.text(spec, "coreRequest") or str(fields.count(spec, "cores", default=1))
        asked = {"cpu": cpu, "memory": f"{self._memory(part)}Mi"}
        gpu = fields.mapping(spec, "gpu")
        name, quantity = fields.text(gpu, "name"), fields.count(gpu, "quantity")
        if name and quantity > 0 and not self._own_template(part):
            asked[name] = str(quantity)
        image = fields.text(spec, "image") or fields.text(self.object, "spec", "image")
        limits = {name: amount for name, amount in asked.items() if name != "cpu"}
        return {
            "name": fields.text(main, "name") or f"spark-kubernetes-{part}",
            "image": image or fields.text(main, "image"),
            "resources": {
                "requests": {**fields.mapping(main, "resources", "requests"), **asked},
                "limits": {**fields.mapping(main, "resources", "limits"), **limits},
            },
        }

    def _memory(self, part: str) -> int:
        """Return the memory of a pod in MiB, with the overhead and what `sparkConf` adds."""
        spec, conf = self._spec(part), self._conf()
        memory = _mebibytes(fields.text(spec, "memory") or "1g") or 0
        is_jvm = fields.text(self.object, "spec", "type") in ("Java", "Scala")
        factor = _factor(fields.text(self.object, "spec", "memoryOverheadFactor"), is_jvm=is_jvm)
        overhead = _mebibytes(fields.text(spec, "memoryOverhead"))
        if overhead is None:
            overhead = max(int(memory * factor), _LEAST_OVERHEAD)
        if part == "executor":
            if not is_jvm:
                overhead += _mebibytes(conf.get("spark.executor.pyspark.memory", "")) or 0
            if conf.get("spark.memory.offHeap.enabled") == "true":
                overhead += _mebibytes(conf.get("spark.memory.offHeap.size", ""), unit="b") or 0
        return memory + overhead

    def _write(self, slots: Sequence[Slot]) -> None:
        """Write the scheduling directives of these templates into the spec."""
        common = fields.strings(self.object, "spec", _SELECTOR).items()
        for slot in slots:
            part = fields.ensure(self.object, "spec", slot.name)
            own = fields.ensure(part, "template") if self._own_template(slot.name) else {}
            where = fields.ensure(own, "spec") if own else part
            for name in ("labels", "annotations"):
                known = fields.strings(own, "metadata", name).items()
                found = fields.strings(slot.template, "metadata", name).items()
                fields.put(part, name, dict(found - known))
            selector = fields.strings(slot.template, "spec", _SELECTOR).items()
            fields.put(where, _SELECTOR, dict(selector - common))
            for name in ("tolerations", *(["schedulingGates"] if own else [])):
                fields.put(where, name, fields.objects(slot.template, "spec", name))


def _mebibytes(said: str, unit: str = "m") -> int | None:
    """Return an amount of memory as Spark reads it, where it can be read."""
    found = _MEMORY.fullmatch(said)
    if found is None:
        return None
    return int(found[1]) * _UNITS[(found[2] or unit).lower()] // _MIB


def _factor(said: str, *, is_jvm: bool) -> float:
    try:
        return max(0.0, float(said))
    except ValueError:
        return 0.1 if is_jvm else 0.4
