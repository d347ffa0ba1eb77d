"""Gangs in one namespace: makes them, waits for them, reads back what became of their pods."""

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.harness import objects
from tests.harness.client import PATIENCE_SECONDS, Api, ApiError
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.objects import Object

POD_GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
GATE = "scheduling.x-k8s.io/gang"
PATIENT = "patient"
HELD = "gang_extender_waiting_pods"
RESERVED = "gang_extender_reserved_pods"

_ANCHOR = {"anchor": "here"}
_NEAR_ANCHOR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": _ANCHOR}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
_END = "end-of-history"
_LOOK_AGAIN = "harness/look-again"
_FORGOTTEN_SECONDS = 20.0
"""After how long a pod that has a node and does not run is shown to kwok once more."""


class Placement(NamedTuple):
    """A pod was seen on a node for the first time."""

    group: str
    pod: str
    node: str


@dataclass(frozen=True)
class Gangs:
    """One namespace, and the gangs in it."""

    api: Api
    namespace: str
    _seen: list[Object] = field(default_factory=list)
    """What has been read of the history of its pods."""

    def pod(self, name: str, **options: Any) -> Object:
        """Return a pod of this namespace; options of objects.pod."""
        return objects.pod(name, namespace=self.namespace, **options)

    def late(self, name: str, **options: Any) -> Object:
        """Return a pod for which kube-scheduler finds no node before there is an anchor.

        The extender's plan does not read affinity between pods, and so counts on it.
        """
        return self.pod(name, affinity=_NEAR_ANCHOR, **options)

    def anchor(self, **options: Any) -> Object:
        """Return the pod, outside any gang, that lets `late` ones in."""
        return self.pod("anchor", labels=_ANCHOR, **options)

    def create(self, group: str, count: int, *, min_member: int = 0, **pod: Any) -> list[str]:
        """Make a PodGroup (minMember is `count` if not given) and its pods; return their names."""
        self.create_group(group, min_member or count)
        return self.add(group, count, **pod)

    def create_group(self, group: str, min_member: int, **options: Any) -> None:
        """Make a PodGroup; options of objects.pod_group."""
        self.api.create(objects.pod_group(group, min_member, namespace=self.namespace, **options))

    def add(self, group: str, count: int, *, start: int = 0, **pod: Any) -> list[str]:
        """Make pods of a group, numbered from `start`; return their names."""
        names = [f"{group}-{number}" for number in range(start, start + count)]
        self.api.create(*(self.pod(name, group=group, **pod) for name in names))
        return names

    def hold(
        self,
        group: str,
        timeout: int = 600,
        cpu: str = "1",
        scheduler_name: str | None = PATIENT,
    ) -> None:
        """Make a gang of three of which two are held until there is an anchor.

        After `timeout` seconds they are sent away: by default that is in no test.
        """
        self.create_group(group, 3, timeout=timeout)
        self.add(group, 2, cpu=cpu, scheduler_name=scheduler_name)
        last = f"{group}-2"
        self.api.create(self.late(last, group=group, cpu=cpu, scheduler_name=scheduler_name))

    def await_seen(self, scheduler_name: str | None = None) -> None:
        """Return when the extender has seen what was done to pods and PodGroups until now.

        kube-scheduler may have seen it before, and ask. A pod that has its node from the start is
        known from the watch alone, and the other one of its gang starts with it. The history does
        not show them.
        """
        group = f"{_END}-seen"
        self.create_group(group, 2)
        self.add(group, 1, cpu="0", node_name="nowhere", scheduler_name=scheduler_name)
        self.add(group, 1, start=1, cpu="0", scheduler_name=scheduler_name)
        self.api.wait_for("all was seen", lambda: len(self.bound(group)) == 2)
        self.delete([f"{group}-0", f"{group}-1"])
        self.api.delete(POD_GROUPS, group, self.namespace)

    def members(self, group: str) -> list[Object]:
        """Return the pods of a group."""
        label = f"{objects.POD_GROUP_LABEL}={group}"
        return self.api.list("pods", self.namespace, labels=label)

    def message(self, pod: str) -> str:
        """Return what the PodScheduled condition of a pod says; empty where it says nothing."""
        return message(self.api.get("pods", pod, self.namespace))

    def node_of(self, pod: str) -> str | None:
        """Return the node of a pod, None where it has none yet."""
        node: str | None = self.api.get("pods", pod, self.namespace)["spec"].get("nodeName")
        return node

    def bound(self, group: str) -> set[str]:
        """Return the names of the pods of a group that have a node."""
        return {_name(pod) for pod in self.members(group) if pod["spec"].get("nodeName")}

    def phases(self, group: str) -> list[str]:
        """Return the phases of the pods of a group, sorted: Pending before Running."""
        return sorted(pod["status"]["phase"] for pod in self.members(group))

    def await_phases(self, group: str, timeout: float = PATIENCE_SECONDS, **phases: int) -> None:
        """Wait until so many pods of a group are in each phase, and none in another."""
        want = {phase: count for phase, count in phases.items() if count}
        last: Counter[str] = Counter()
        nudge = time.monotonic() + _FORGOTTEN_SECONDS

        def reached() -> bool:
            nonlocal last, nudge
            last = Counter(self.phases(group))
            if last != want and time.monotonic() > nudge:
                self._show_again(group)
                nudge = time.monotonic() + _FORGOTTEN_SECONDS
            return last == want

        try:
            self.api.wait_for(f"{group} is {phases}", reached, timeout)
        except AssertionError:
            rest = Counter(_state(pod) for pod in self.members(group))
            raise AssertionError(f"{group} is {dict(last)}, not {want}: {dict(rest)}") from None

    def _show_again(self, group: str) -> None:
        """Have kwok look once more at the pods that have a node and do not run.

        Where the answer to one of its writes is lost, or is an error of most kinds, it does not
        try again, as a kubelet would.
        """
        for pod in self.members(group):
            if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                body = {"metadata": {"annotations": {_LOOK_AGAIN: str(time.monotonic())}}}
                with suppress(ApiError):  # it may be gone by now
                    self.api.patch("pods", _name(pod), self.namespace, body=body)

    def await_refused(
        self, group: str, text: str, *, count: int = 1, timeout: float = PATIENCE_SECONDS
    ) -> None:
        """Wait until that many pods of a group have a condition that begins with our sentence."""
        reported: list[str] = []

        def refused() -> bool:
            reported[:] = [message(pod) for pod in self.members(group)]
            return sum(self.says(group, text, each) for each in reported) >= count

        try:
            self.api.wait_for(f"{group} is refused", refused, timeout)
        except AssertionError:
            raise AssertionError(f"not {count} of {reported} say {text!r}") from None

    def sentence(self, group: str, text: str) -> str:
        """Return one of our sentences about a group."""
        return f"gang {self.namespace}/{group}: {text}"

    def says(self, group: str, text: str, message: str) -> bool:
        """Return whether a message has our sentence about a group."""
        return self.sentence(group, text) in message

    def said(self, group: str, text: str) -> bool:
        """Return whether a FailedScheduling Event has our sentence about a group."""
        return any(self.says(group, text, failure) for failure in self.failures())

    def failures(self) -> list[str]:
        """Return the texts of the FailedScheduling events of this namespace."""
        return self.api.notes(self.namespace, "FailedScheduling")

    def retry(self, scheduler: GangScheduler, node: str, *, attempts: int) -> None:
        """Have kube-scheduler try all pending pods again, by a pod that ends on a node.

        Returns when it has tried that many pods.
        """
        self.api.wait_for("all have been tried once", self._all_tried)
        before = scheduler.attempts()
        self.api.create(self.pod("passer-by", cpu="1m", node_name=node))
        self.api.delete("pods", "passer-by", self.namespace, grace_seconds=0)
        self.api.wait_for(
            f"{attempts} more pods were tried",
            lambda: scheduler.attempts() >= before + attempts,
        )

    def _all_tried(self) -> bool:
        pods = self.api.list("pods", self.namespace, fields="spec.nodeName=")
        return all(message(pod) for pod in pods)

    def delete(self, names: Sequence[str]) -> None:
        """Delete pods at once."""
        for name in names:
            self.api.delete("pods", name, self.namespace, grace_seconds=0)

    def placements(self) -> list[Placement]:
        """Return every placement of a gang's pod since the namespace was made, oldest first.

        This reads the API server's history and not a sample of states: nothing is missed. It
        fails when a pod ever changed its node.
        """
        nodes: dict[str, str] = {}
        found = []
        for pod in self._history():
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            if node and uid not in nodes:
                nodes[uid] = node
                group = pod["metadata"].get("labels", {}).get(objects.POD_GROUP_LABEL)
                if group:
                    found.append(Placement(group, _name(pod), node))
            assert nodes.get(uid) == node, f"{_name(pod)} went from {nodes.get(uid)} to {node}"
        return found

    def catch_up(self) -> None:
        """Read the history until now: the API server forgets what is older than a minute or so."""
        version = _version(self._seen[-1] if self._seen else self._namespace())
        end = f"{_END}-{version}"
        self.api.create(self.pod(end, gates=["harness/never"]))
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "30"}
        with self.api._http.stream("GET", path, params=params) as response:
            for line in response.iter_lines():
                event = json.loads(line)
                assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
                self._seen.append(event["object"])
                if _name(event["object"]) == end:
                    self.delete([end])
                    return
        raise AssertionError("the history has no end")

    def _namespace(self) -> Object:
        return self.api.get("namespaces", self.namespace)

    def _history(self) -> list[Object]:
        self.catch_up()
        return [pod for pod in self._seen if not _name(pod).startswith(_END)]


def _state(pod: Object) -> str:
    """Return what tells kube-scheduler's part in a pod that does not run from the kubelet's."""
    bound = "with a node" if pod["spec"].get("nodeName") else "without a node"
    return f"{pod['status']['phase']} {bound} {message(pod)}".rstrip()


def message(pod: Object) -> str:
    """Return what the PodScheduled condition says; empty where it says nothing."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled":
            text: str = condition.get("message", "")
            return text
    return ""


def bind_requests(api: Api) -> float:
    """Return how many Bindings the API server has made, or found made, since its start.

    Others do not count: the extender asks again for those for which the API server was too busy,
    and pods of a namespace that ends, which another test has left, are tried and forbidden.
    """
    samples = (line.rpartition(" ") for line in api.request("GET", "/metrics").text.splitlines())
    return sum(
        float(value)
        for sample, _, value in samples
        if sample.startswith("apiserver_request_total{")
        and 'subresource="binding"' in sample
        and re.search('code="(201|409)"', sample)
    )


def await_bind_requests(api: Api, want: float) -> None:
    """Wait until so many requests for Bindings were made in all, and no more.

    The API server counts a request after its answer, when the watch may long have shown the pod.
    """
    api.wait_for("the Bindings are counted", lambda: bind_requests(api) >= want)
    assert bind_requests(api) == want


def await_held(
    api: Api, scheduler: GangScheduler, count: int, timeout: float = PATIENCE_SECONDS
) -> None:
    """Wait until the extender holds that many bind requests."""
    api.wait_for(f"{count} are held", lambda: scheduler.metric(HELD) == count, timeout)


def decisions(scheduler: GangScheduler, verb: str, *reasons: str) -> float:
    """Return how often the extender has answered a verb for one of the reasons."""
    name = "gang_extender_decisions_total"
    return sum(scheduler.metric(f'{name}{{reason="{reason}",verb="{verb}"}}') for reason in reasons)


def _version(found: Object) -> str:
    version: str = found["metadata"]["resourceVersion"]
    return version


def _name(pod: Object) -> str:
    name: str = pod["metadata"]["name"]
    return name
