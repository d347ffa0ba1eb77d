"""What is compared: our queue alone, another one, and everything of ours together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.bench.queue import controllers
from tests.bench.queue.controllers import Controller
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.process import Component

WHOLE = "whole"
# By its own settings kube-scheduler binds 50 pods a second: all queues would be as fast.
_SCHEDULER = {"clientConnection": {"qps": 1000, "burst": 1000}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One column of the report."""

    controller: Controller
    extender: bool = False
    """Whether kube-scheduler has our extender; it is a stock one otherwise."""

    @property
    def key(self) -> str:
        """How results name it."""
        return self.controller.key

    @property
    def title(self) -> str:
        """What its column is called."""
        return self.controller.title

    def scheduler(self, plane: ControlPlane) -> dict[str, Component]:
        """Start kube-scheduler, and return it by name with what else was started."""
        if not self.extender:
            return {"kube-scheduler": plane.scheduler(_SCHEDULER)}
        both = GangScheduler(plane, scheduler=_SCHEDULER)
        return {"kube-scheduler": both.scheduler, "extender": both.extender}


def queue_alone(settings: Mapping[str, Any] | None = None) -> Side:
    """Return our reconciler without groups and without room: no more than other queues do."""
    alone = _with_queue(settings, {"podGroups": "Off", "requireRoom": False})
    return Side(controller=controllers.ours(alone))


def whole(settings: Mapping[str, Any] | None = None) -> Side:
    """Return the reconciler with room and groups, and kube-scheduler with the extender."""
    settings = _with_queue(settings, {"podGroups": "Auto", "requireRoom": True})
    ours = controllers.ours(settings)
    whole = Controller(key=WHOLE, title=f"{ours.title} with gangs", start=ours.start)
    return Side(controller=whole, extender=True)


def measured(
    settings: Mapping[str, Any] | None, other: Controller | None, *, both: bool
) -> list[Side]:
    """Return ours with these settings, or another queue in its place, or `both`."""
    others = [Side(controller=other)] if other else []
    if other and not both:
        return others
    return [queue_alone(settings), *others, whole(settings)]


def _with_queue(settings: Mapping[str, Any] | None, queue: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(settings or {})
    given["queue"] = {**given.get("queue", {}), **queue}
    return given
