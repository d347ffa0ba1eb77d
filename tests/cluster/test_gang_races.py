"""Refusals in the moment of release, and bindings that fail: no gang is left half started."""

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx
import pytest

from tests.cluster import faults
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import (
    HELD,
    PATIENT,
    POD_GROUPS,
    RESERVED,
    Gangs,
    await_bind_requests,
    await_held,
    bind_requests,
    decisions,
    message,
)
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import Fault, FaultyProxy
from tests.harness.gang_scheduler import NAMESPACE, SERVICE_ACCOUNT, GangScheduler
from tests.tiers import LONG, long_but_for

EXTENDER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
FAILED = 'gang_extender_binding_duration_seconds_count{result="error"}'
LOSSY = "lossy"
GANGS = 20
MOST_BATCHES = 8
"""More batches than usual are played until the moment is met: that depends on the machine."""
LAGS = (1, 2, 3, 5, 7, 9, 12, -5)
"""Requests between the start of a gang's last member and the end of the others' wait.

Where that is well before it, the gang must not start.
"""


def idle(scheduler: GangScheduler) -> bool:
    return scheduler.metric(HELD) == scheduler.metric(RESERVED) == 0


# --- refusal against release ------------------------------------------------------------------


class Batch:
    """Gangs of three, each with a node of its own that has three CPUs.

    Two members are held and the last has no node before there is an anchor. A plain pod waits for
    two CPUs: it fits beside one member, so a gang that starts with one of its pods gives itself
    away.
    """

    def __init__(
        self, gangs: Gangs, number: int, slots: Sequence[str], scheduler: str | None
    ) -> None:
        self.gangs = gangs
        self.slots = {f"g{number}-{n}": slot for n, slot in enumerate(slots)}
        self._scheduler = scheduler

    def create(self, *, timeout: int) -> None:
        for group in self.slots:
            self.gangs.create_group(group, 3, timeout=timeout)
            self.gangs.api.create(self._pod(group, f"{group}-2", late=True))
        self._await_reported([f"{group}-2" for group in self.slots])
        for group in self.slots:
            for number in (0, 1):
                self.gangs.api.create(self._pod(group, f"{group}-{number}"))

    def add_plain_pods(self) -> None:
        for group in self.slots:
            self.gangs.api.create(self._pod(group, f"plain-{group}", cpu="2", member=False))

    def add_anchor(self, group: str) -> None:
        slot = self.slots[group]
        anchor = self.gangs.anchor(cpu="0", node_name=slot)
        anchor["metadata"]["name"] = f"anchor-{group}"
        self.gangs.api.create(anchor)

    def settle(self) -> list[str]:
        """Return the groups that started, once each has, or is refused and has lost its room."""
        states: dict[str, str] = {}

        def settled() -> bool:
            pods = {pod["metadata"]["name"]: pod for pod in self._pods()}
            states.update((group, self._state(group, pods)) for group in self.slots)
            return set(states.values()) <= {"started", "refused"}

        try:
            self.gangs.api.wait_for("each gang is whole or refused", settled, 120)
        except AssertionError:
            odd = {group: state for group, state in states.items() if " " in state}
            raise AssertionError(f"these are neither whole nor refused: {odd}") from None
        return [group for group, state in states.items() if state == "started"]

    def delete(self) -> None:
        api, namespace = self.gangs.api, self.gangs.namespace
        api.delete_all("pods", namespace, grace_seconds=0)
        api.delete_all(POD_GROUPS, namespace)
        api.wait_for("the batch is gone", lambda: not api.list("pods", namespace))

    def _state(self, group: str, pods: dict[str, Object]) -> str:
        bound = {
            name: "nodeName" in pods[name]["spec"]
            for name in (f"plain-{group}", *(f"{group}-{n}" for n in range(3)))
            if name in pods
        }
        plain = bound.pop(f"plain-{group}", False)
        reported = self.gangs.sentence(group, "") in message(pods[f"{group}-2"])
        if all(bound.values()) and not plain:
            return "started"
        if plain and reported and not any(bound.values()):
            return "refused"
        return f"members {bound}, plain {plain}, last message {message(pods[f'{group}-2'])!r}"

    def _pod(
        self, group: str, name: str, *, cpu: str = "1", member: bool = True, late: bool = False
    ) -> Object:
        make = self.gangs.late if late else self.gangs.pod
        return make(
            name,
            cpu=cpu,
            group=group if member else None,
            scheduler_name=self._scheduler,
            nodeSelector={"kubernetes.io/hostname": self.slots[group]},
        )

    def _await_reported(self, names: Sequence[str]) -> None:
        wanted = set(names)

        def reported() -> bool:
            return wanted <= {pod["metadata"]["name"] for pod in self._pods() if message(pod)}

        self.gangs.api.wait_for("kube-scheduler has tried them", reported)

    def _pods(self) -> list[Object]:
        return self.gangs.api.list("pods", self.gangs.namespace)


def placed(gangs: Gangs) -> dict[str, set[str]]:
    """Return the numbers of the members that ever got a node, by group."""
    found: dict[str, set[str]] = {}
    for placement in gangs.placements():
        found.setdefault(placement.group, set()).add(placement.pod.removeprefix(placement.group))
    return found


def delete_member(gangs: Gangs, group: str) -> None:
    gangs.delete([f"{group}-0"])


def delete_pod_group(gangs: Gangs, group: str) -> None:
    gangs.api.delete(POD_GROUPS, group, gangs.namespace)


@LONG
@pytest.mark.parametrize(
    ("end", "whole"),
    [(delete_member, {"-1", "-2"}), (delete_pod_group, {"-0", "-1", "-2"})],
    ids=["a waiting member is deleted", "the PodGroup is deleted"],
)
def test_a_gang_starts_as_a_whole_or_not_at_all_if_it_is_broken_up_when_its_last_member_comes(
    end: Callable[[Gangs, str], None],
    whole: set[str],
    patient_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    slots, started, played = nodes(GANGS, "3"), 0, 0
    while played < MOST_BATCHES and (played < 3 or not started):
        batch = Batch(gangs, played, slots, PATIENT)
        played += 1
        batch.create(timeout=600)
        await_held(api, patient_gang, 2 * GANGS)
        batch.add_plain_pods()

        starts = [(2.0 * n, group) for n, group in enumerate(batch.slots)]
        ends = [(at + LAGS[n % len(LAGS)] + 0.5, group) for n, (at, group) in enumerate(starts)]
        for at, group in sorted(starts + ends):
            if (at, group) in ends:
                end(gangs, group)
            else:
                batch.add_anchor(group)

        whole_ones = batch.settle()
        started += len(whole_ones)
        refused = list(batch.slots)[len(LAGS) - 1 :: len(LAGS)]
        assert not set(whole_ones) & set(refused), "it had been refused"
        api.wait_for("nothing is kept", lambda: idle(patient_gang))
        gangs.catch_up()
        batch.delete()

    print(f"{started} of {played * GANGS} gangs started")
    assert 0 < started < played * GANGS, "the moment was missed"
    parts = {group: pods for group, pods in placed(gangs).items() if not pods >= whole}
    assert parts == {}


def await_decisions(api: Api, scheduler: GangScheduler, reason: str, count: float) -> None:
    api.wait_for(f"{reason} was answered", lambda: decisions(scheduler, "bind", reason) >= count)


@LONG
@pytest.mark.parametrize("reason", ["ScheduleTimeout", "MemberUnschedulable"])
def test_a_gang_starts_as_a_whole_or_not_at_all_if_its_last_member_comes_as_it_is_refused(
    reason: str,
    gang: GangScheduler,
    patient_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    by_time = reason == "ScheduleTimeout"
    scheduler, name = (patient_gang, PATIENT) if by_time else (gang, None)
    slots, started, played = nodes(GANGS, "3"), 0, 0
    while played < MOST_BATCHES and (played < 2 or not 0 < started < played * GANGS):
        batch = Batch(gangs, played, slots, name)
        played += 1
        sent_away = decisions(scheduler, "bind", reason) + 1
        batch.create(timeout=5 if by_time else 600)
        batch.add_plain_pods()
        await_decisions(api, scheduler, reason, sent_away)
        gangs.catch_up()  # a batch may take longer than the API server remembers
        for group in batch.slots:
            batch.add_anchor(group)

        started += len(batch.settle())
        api.wait_for("nothing is kept", lambda: idle(scheduler))
        gangs.catch_up()
        batch.delete()

    print(f"{started} of {played * GANGS} gangs started")
    assert 0 < started < played * GANGS, "the moment was missed"
    parts = {group: pods for group, pods in placed(gangs).items() if len(pods) != 3}
    assert parts == {}


# --- bindings that fail -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def lossy_gang(control_plane: ControlPlane, proxy: FaultyProxy) -> Iterator[GangScheduler]:
    """A pair for pods with schedulerName `lossy`, whose extender may lose answers."""
    scheduler = GangScheduler(
        control_plane,
        name=LOSSY,
        settings={"gang": {"rejectPercentage": 100}, "kube": {"timeoutSeconds": 5}},
        api_port=proxy.port,
    )
    yield scheduler
    scheduler.stop()


@pytest.fixture
def complete(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> Iterator[Callable[[], None]]:
    """Call it to complete a gang of three that fills its node.

    Two of its members are held, and a plain pod of a member's size waits for room.
    """
    nodes(1, "3")
    gangs.hold("g", timeout=600)
    await_held(api, patient_gang, 2)
    api.create(gangs.pod("plain", cpu="1", scheduler_name=PATIENT))
    api.wait_for("no room yet", lambda: gangs.message("plain"))

    def complete() -> None:
        api.create(gangs.anchor(cpu="0", scheduler_name=PATIENT))

    yield complete
    api.wait_for("nothing is kept", lambda: idle(patient_gang))


def tries(scheduler: GangScheduler, gangs: Gangs, outcome: str) -> int:
    """Return how often the log says that a binding of g-1 was not written."""
    lines = scheduler.extender.log_path.read_text().splitlines()
    return sum(outcome in line and f"{gangs.namespace}/" in line for line in lines)


def await_all_bound_and_no_room_lost(gangs: Gangs) -> None:
    gangs.await_phases("g", Running=3, timeout=120)
    assert gangs.node_of("plain") is None
    assert sorted(placement.pod for placement in gangs.placements()) == ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize("reason", long_but_for(["Invalid", "Forbidden"], "Invalid"))
def test_a_member_whose_binding_is_refused_has_its_room_when_it_comes_again(
    reason: str,
    complete: Callable[[], None],
    patient_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
) -> None:
    failed = patient_gang.metric(FAILED)
    with faults.refused(api, gangs.namespace, "g-1", reason):
        complete()
        api.wait_for("it was tried again", lambda: patient_gang.metric(FAILED) >= failed + 2)
        api.wait_for("the others are bound", lambda: gangs.bound("g") == {"g-0", "g-2"})
        assert gangs.node_of("plain") is None
    await_all_bound_and_no_room_lost(gangs)


def trouble(kind: str, api: Api, gangs: Gangs) -> AbstractContextManager[Any]:
    if kind == "500":
        return faults.unavailable(api, gangs.namespace, "g-1")
    return faults.hanging(api, gangs.namespace, "g-1", user=EXTENDER, seconds=30, policy="Fail")


@pytest.mark.parametrize("kind", long_but_for(["500", "time-out"], "500"))
def test_passing_trouble_with_one_binding_is_waited_out(
    kind: str,
    complete: Callable[[], None],
    patient_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
) -> None:
    with trouble(kind, api, gangs):
        complete()
        api.wait_for("the others are bound", lambda: gangs.bound("g") == {"g-0", "g-2"})
        api.wait_for("it was tried", lambda: tries(patient_gang, gangs, "binding not written yet"))
        assert gangs.node_of("plain") is None
    await_all_bound_and_no_room_lost(gangs)


def test_a_member_that_another_client_binds_while_it_is_held_counts_where_it_is(
    complete: Callable[[], None],
    patient_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    [other] = nodes(1, "1", prefix="other", unschedulable=True)
    faults.bind(api, gangs.namespace, "g-1", other)
    await_held(api, patient_gang, 1)
    api.wait_for("a plain pod has its room", lambda: gangs.node_of("plain"))
    assert gangs.bound("g") == {"g-1"}

    complete()
    gangs.await_phases("g", Running=3)
    assert [p.node for p in gangs.placements() if p.pod == "g-1"] == [other]


def test_a_member_that_another_client_binds_in_the_moment_of_its_release_stays_where_it_is(
    complete: Callable[[], None],
    patient_gang: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    [other] = nodes(1, "1", prefix="other", unschedulable=True)
    with faults.hanging(
        api, gangs.namespace, "g-1", user=EXTENDER, seconds=8, policy="Ignore"
    ) as listener:
        complete()
        asked, _ = listener.accept()
        faults.bind(api, gangs.namespace, "g-1", other)
        gangs.await_phases("g", Running=3)
        api.wait_for("409", lambda: tries(patient_gang, gangs, "binding: 409"))
        asked.close()
    # kube-scheduler does not try the one that waits: the room that it forgot is not where g-1 is.
    api.create(gangs.pod("new", cpu="1", scheduler_name=PATIENT))
    api.wait_for("a plain pod has its room", lambda: gangs.node_of("new"))
    assert [p.node for p in gangs.placements() if p.pod == "g-1"] == [other]


def test_a_member_that_is_deleted_in_the_moment_of_its_release_leaves_its_room(
    complete: Callable[[], None], patient_gang: GangScheduler, api: Api, gangs: Gangs
) -> None:
    with faults.hanging(
        api, gangs.namespace, "g-1", user=EXTENDER, seconds=8, policy="Ignore"
    ) as listener:
        complete()
        asked, _ = listener.accept()
        gangs.delete(["g-1"])
        api.wait_for("404", lambda: tries(patient_gang, gangs, "binding: 404"))
        asked.close()
    gangs.await_phases("g", Running=2)
    api.wait_for("a plain pod has its room", lambda: gangs.node_of("plain"))

    gangs.delete(["plain"])
    gangs.add("g", 1, start=1, cpu="1", scheduler_name=PATIENT)
    gangs.await_phases("g", Running=3)


@contextmanager
def asking(scheduler: GangScheduler, request: Object) -> Iterator[None]:
    """Ask for a Binding, and hang up at the end without an answer."""
    body = json.dumps(request)
    head = "POST /bind HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", scheduler.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        yield


def test_a_bind_request_that_comes_twice_binds_once(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    [node] = nodes(1, "3")
    gangs.hold("g", timeout=600)
    await_held(api, patient_gang, 2)
    before = bind_requests(api)
    held = next(pod for pod in gangs.members("g") if pod["metadata"]["name"] == "g-0")
    request = {
        "PodName": "g-0",
        "PodNamespace": gangs.namespace,
        "PodUID": held["metadata"]["uid"],
        "Node": node,
    }
    ended = decisions(patient_gang, "bind", "Disconnected") + 2
    with asking(patient_gang, request):  # it takes the hold over, and then hangs up
        await_decisions(api, patient_gang, "Disconnected", ended - 1)
    await_decisions(api, patient_gang, "Disconnected", ended)
    await_held(api, patient_gang, 2)  # kube-scheduler has brought it again
    api.create(gangs.anchor(cpu="0", scheduler_name=PATIENT))
    gangs.await_phases("g", Running=3)

    answer = httpx.post(f"{patient_gang.url}/bind", json=request, timeout=120, trust_env=False)
    assert answer.json()["Error"] == ""
    elsewhere = {**request, "Node": "elsewhere"}
    answer = httpx.post(f"{patient_gang.url}/bind", json=elsewhere, timeout=120, trust_env=False)
    assert "is bound to another node already" in answer.json()["Error"]
    await_bind_requests(api, before + 4)  # the anchor's is the fourth
    assert len(gangs.placements()) == 3


def test_bindings_whose_answers_are_lost_are_looked_up_and_made_once(
    lossy_gang: GangScheduler, proxy: FaultyProxy, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    [node] = nodes(1, "3")
    gangs.hold("g", scheduler_name=LOSSY)
    await_held(api, lossy_gang, 2)
    asked = bind_requests(api)

    proxy.lose("/binding", 3)
    api.create(gangs.anchor(cpu="0", node_name=node))
    gangs.await_phases("g", Running=3)
    api.wait_for("the pods were looked up", lambda: idle(lossy_gang))
    assert (bind_requests(api), proxy.faults[Fault.LOST]) == (asked + 3, 3)
    assert tries(lossy_gang, gangs, "binding not written yet") == 0
    assert len(gangs.placements()) == 3
    assert lossy_gang.metric(FAILED) == 0
