"""AppWrapper (workload.codeflare.dev): objects that are made and deleted together.

Its pod sets are numbered through all components. Those of some kinds its controller knows; others
declare the paths of their pod templates, or have no pods.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar, Final, NamedTuple

from typing_extensions import override

from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.job import Finished, GenericJob, OperatedJob, Slot
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.kinds.jobset import JobSet
from extender.jobs.kinds.kubeflow import PyTorchJob
from extender.jobs.kinds.ray import RayCluster, RayJob, RayKind
from extender.jobs.templates import Placement

_KNOWN: Final = {
    (f"{each.group}/{each.version}", each.kind): each
    for each in (BatchJob, JobSet, PyTorchJob, RayCluster, RayJob)
}
_TEMPLATES: Final = {
    ("v1", "Pod"): "template",
    ("apps/v1", "Deployment"): "template.spec.template",
    ("apps/v1", "StatefulSet"): "template.spec.template",
}
"""The pod templates of the other kinds that its controller knows."""
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class _Part(NamedTuple):
    """A pod set of a component, and whether its pods are made only when others run."""

    component: Object
    slot: Slot
    is_late: bool


class AppWrapper(OperatedJob):
    """An AppWrapper."""

    integration: ClassVar = "workload.codeflare.dev/appwrapper"
    kind: ClassVar = "AppWrapper"
    group: ClassVar = "workload.codeflare.dev"
    version: ClassVar = "v1beta2"
    plural: ClassVar = "appwrappers"

    @override
    def slots(self) -> list[Slot]:
        """Return copies of the templates, with what `podSetInfos` add to them."""
        return [each.slot for each in self._parts()]

    @override
    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Write the placements into `podSetInfos`: the components themselves are immutable."""
        super().inject_node_selectors(placements)  # into copies: it fails where they conflict
        given, parts = {each.name: each for each in placements}, self._parts()
        self.restore_node_selectors(())
        for component, slot, _ in parts:
            before = fields.objects(component, "podSetInfos")
            component["podSetInfos"] = [*before, _info(given[slot.name])]

    @override
    def restore_node_selectors(self, pod_sets: Sequence[Slot]) -> None:
        for component in self._components():
            component.pop("podSetInfos", None)

    @override
    def problem(self) -> str:
        for number, component in enumerate(self._components()):
            for index, each in enumerate(fields.objects(component, "podSets")):
                path = fields.text(each, "path")
                if _at(component, path) is None:
                    return (
                        f"spec.components[{number}].podSets[{index}].path: {path!r} is no object "
                        "in the template of the component. Begin it with 'template'"
                    )
            said = _uncounted(component)
            if said:
                return f"spec.components[{number}].{said}"
        return ""

    @override
    def finished(self) -> Finished | None:
        """Return how it ended; one that failed has not ended while its objects are deleted."""
        phase = self._phase()
        deployed = fields.condition(self.object, "ResourcesDeployed") is not None
        if phase == "Succeeded" or (phase == "Failed" and not deployed):
            found = fields.condition(self.object, "Unhealthy") or {}
            return Finished(phase == "Succeeded", fields.text(found, "message"))
        return None

    @override
    def pods_ready(self) -> bool:
        return fields.condition(self.object, "PodsReady") is not None

    @override
    def is_active(self) -> bool:
        return fields.condition(self.object, "QuotaReserved") is not None

    @override
    def notices_stop(self) -> bool:
        return self._phase() == "Suspended"

    @override
    def makes(self, kind: str, name: str) -> bool:
        """Return whether a component is of this kind and name."""
        return any(
            _integration(made) == kind
            and (
                fields.text(made, "metadata", "name") == name
                or name.startswith(fields.text(made, "metadata", "generateName") or "/")
            )
            for made in (fields.mapping(each, "template") for each in self._components())
        )

    @override
    def late_pod_sets(self) -> Collection[str]:
        return {each.slot.name for each in self._parts() if each.is_late}

    def _phase(self) -> str:
        return fields.text(self.object, "status", "phase")

    def _components(self) -> list[Object]:
        return fields.objects(self.object, "spec", "components")

    def _parts(self) -> list[_Part]:
        """Return its pod sets in order, named by its own name and their number."""
        own, found = fields.text(self.object, "metadata", "name"), list[_Part]()
        for component in self._components():
            infos = fields.objects(component, "podSetInfos")
            for index, part in enumerate(_parts_of(component)):
                template = deepcopy(part.slot.template)
                if index < len(infos):
                    templates.follow(template, {}, templates.unfolded(infos[index]))
                # A component is immutable: it never gets fewer pods.
                slot = replace(
                    part.slot, name=f"{own}-{len(found)}", template=template, min_count=None
                )
                found.append(part._replace(slot=slot))
        return found


def _integration(source: Mapping[str, object]) -> str:
    group = fields.text(source, "apiVersion").rpartition("/")[0]
    return f"{group}/{fields.text(source, 'kind')}".lstrip("/").lower()


def _inside(component: Object) -> GenericJob | None:
    """Return the job that a component is, if it is of a kind that is queued too."""
    template = fields.ensure(component, "template")
    of = _KNOWN.get((fields.text(template, "apiVersion"), fields.text(template, "kind")))
    return None if of is None else of(template)


def _uncounted(component: Object) -> str:
    """Return the field by which a component could get more pods than are counted, or nothing."""
    inner, said = _inside(component), fields.objects(component, "podSets")
    if isinstance(inner, RayKind) and (growth := inner.growth()):
        return f"template.{growth}"
    if inner is None or not said:
        return ""
    counted = [_at(component, fields.text(each, "path")) for each in said]
    left = (s.name for s in inner.slots() if not any(s.template is each for each in counted))
    return next((f"podSets: {name!r} of the {inner.kind} is not among them" for name in left), "")


def _parts_of(component: Object) -> Iterator[_Part]:
    """Yield the pod sets of a component: those that it declares, or else those of its kind."""
    template, inner = fields.ensure(component, "template"), _inside(component)
    kind = fields.text(template, "apiVersion"), fields.text(template, "kind")
    known: list[Slot] = []
    late: Collection[str] = ()
    if inner is not None:
        known, late = inner.slots(), inner.late_pod_sets()
    elif kind in _TEMPLATES:
        pods = _at(component, _TEMPLATES[kind])
        replicas = fields.count(template, "spec", "replicas", default=1)
        known = [] if pods is None else [Slot("", replicas, pods)]
    for each in fields.objects(component, "podSets"):
        pods = _at(component, fields.text(each, "path"))
        if pods is None:  # which is a problem of the AppWrapper
            continue
        same = next((slot for slot in known if slot.template is pods), None)
        slot = same or Slot("", fields.count(each, "replicas", default=1), pods)
        yield _Part(component, slot, slot.name in late)
    if not fields.objects(component, "podSets"):
        yield from (_Part(component, slot, slot.name in late) for slot in known)


def _at(component: Object, path: str) -> Object | None:
    """Return the object at a path such as `template.spec.groups[0].template`; None without one."""
    steps = path.removeprefix("template")
    if not path.startswith("template") or _STEP.sub("", steps):
        return None
    found: object = component.get("template")
    for name, index in _STEP.findall(steps):
        if index and isinstance(found, list):
            found = found[int(index)] if int(index) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _info(placement: Placement) -> Object:
    info = {
        "labels": dict(placement.labels),
        "annotations": dict(placement.annotations),
        "nodeSelector": dict(placement.node_selector),
        "tolerations": [dict(each) for each in placement.tolerations],
        "schedulingGates": [{"name": each} for each in placement.gates],
    }
    return {name: found for name, found in info.items() if found}
