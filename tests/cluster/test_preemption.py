"""Gangs that make room: whole, no more of them than needed, and for a gang that starts then."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.errors import BudgetError
from extender.kube.pod_groups import PodGroupWriter
from extender.kube.pods import PodRef
from tests.cluster.alone import pair_of, priority_class
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs, message
from tests.cluster.groups import SECONDS, Groups
from tests.cluster.queues import Queues
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler

CLASSES = "scheduling.k8s.io/v1/priorityclasses"
HOLD = "harness.example/hold"
IMPATIENT = "impatient"
RESTRAINED = "restrained"
ASKED = 'gang_extender_request_duration_seconds_count{verb="preempt"}'
COUNTED = "gang_extender_preemptions_total"
VICTIMS = 'gang_extender_preemption_victims_total{{how="{}"}}'


middle = priority_class(500)
"""One between `high` and that of other pods."""


impatient = pair_of(
    IMPATIENT,
    settings={"gang": {"preemptionBudgets": "Strict"}},
    program="tests.harness.impatient",
)
"""It gives victims two seconds."""
restrained = pair_of(RESTRAINED, scope="function", settings={"gang": {"preemption": "Off"}})


@pytest.fixture
def whole(gang: GangScheduler, reconciler: Reconciler) -> Iterator[GangScheduler]:
    """The pair of the other tests, and the reconciler, whole again after the test."""
    yield gang
    gang.revive()
    if not reconciler.process.running:
        reconciler.start()


def held(gangs: Gangs, group: str, count: int, **more: Any) -> None:
    """Make a gang whose pods stay when they are deleted, until `let_go`."""
    gangs.create_group(group, count)
    for number in range(count):
        body = gangs.pod(f"{group}-{number}", group=group, cpu="3", **more)
        body["metadata"]["finalizers"] = [HOLD]
        gangs.api.create(body)
    gangs.await_phases(group, Running=count)


def let_go(gangs: Gangs, group: str) -> None:
    """Let the pods of a gang go that are being deleted."""
    for pod in gangs.members(group):
        body = {"metadata": {"finalizers": None}}
        gangs.api.patch("pods", pod["metadata"]["name"], gangs.namespace, body=body)


def leaving(gangs: Gangs, group: str) -> dict[str, str]:
    """Return when the pods of a gang were deleted that are still there, by name."""
    return {
        pod["metadata"]["name"]: pod["metadata"]["deletionTimestamp"]
        for pod in gangs.members(group)
        if "deletionTimestamp" in pod["metadata"]
    }


def nominated(gangs: Gangs, group: str) -> list[str | None]:
    return [pod["status"].get("nominatedNodeName") for pod in gangs.members(group)]


def await_nominated(gangs: Gangs, group: str, names: list[str]) -> None:
    gangs.api.wait_for(
        f"{group} has its nominated nodes",
        lambda: sorted(nominated(gangs, group), key=str) == sorted(names),
        SECONDS,
    )


def await_given_up(gangs: Gangs, group: str, reason: str) -> None:
    """Wait until nothing is kept for a group any more, and why."""
    groups = Groups(gangs.api, gangs.namespace)

    def is_over() -> bool:
        over = groups.reported(group, "Preempting")[:2] == ("False", reason)
        return over and "preemption" not in groups.status(group)

    gangs.api.wait_for(f"{group} has ended with {reason}", is_over, SECONDS)


def vain_looks(scheduler: GangScheduler) -> float:
    return scheduler.metric(f'{COUNTED}{{reason="NoVictims"}}')


def test_one_whole_gang_makes_room_and_no_more(
    whole: GangScheduler, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    del whole
    groups = Groups(api, gangs.namespace)
    nodes(4)
    for name in ("a", "b"):
        gangs.create(name, 2, cpu="3")
        gangs.await_phases(name, Running=2)
    gangs.create("h", 2, cpu="3", priority_class=high)
    gangs.await_phases("h", Running=2)

    left = {name: gangs.phases(name) for name in ("a", "b")}
    assert sorted(left.values()) == [[], ["Running"] * 2]
    victim = next(name for name, phases in left.items() if not phases)
    await_given_up(gangs, "h", "Started")
    api.wait_for(
        "it says so", lambda: groups.reported(victim, "Preempted")[:2] == ("True", "Preempted")
    )
    message = "Preempted by PodGroup h, which has the priority 1000"
    assert groups.reported(victim, "Preempted")[2] == message
    api.wait_for("there is an Event", lambda: "Preempted" in groups.reasons(victim), SECONDS)
    assert groups.reasons("h").count("Preempting") == 1
    other = "b" if victim == "a" else "a"
    assert groups.reported(other, "Preempted") == ("", "", "")

    gangs.delete([pod["metadata"]["name"] for pod in gangs.members("h")])
    gangs.add(victim, 2, start=2, cpu="3")
    gangs.await_phases(victim, Running=2)
    api.wait_for(
        "it is preempted no more",
        lambda: groups.reported(victim, "Preempted")[:2] == ("False", "Started"),
        SECONDS,
    )


def test_room_is_kept_while_victims_leave_whatever_is_restarted(
    whole: GangScheduler,
    reconciler: Reconciler,
    high: str,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    groups = Groups(api, gangs.namespace)
    names = nodes(2)
    held(gangs, "low", 2)
    gangs.create("h", 2, cpu="3", priority_class=high)
    api.wait_for("the victims leave", lambda: len(leaving(gangs, "low")) == 2, SECONDS)
    await_nominated(gangs, "h", names)
    stored = groups.status("h")["preemption"]
    assert {each["name"] for each in stored["nodes"]} == set(names)
    assert [each["kind"] for each in stored["victims"]] == ["PodGroup"]
    for pod in gangs.members("low"):
        said = {each["type"]: each.get("reason") for each in pod["status"]["conditions"]}
        assert said["DisruptionTarget"] == "PreemptionByScheduler"

    api.wait_for("there is an Event", lambda: "Preempted" in groups.reasons("low"), SECONDS)

    whole.extender.kill()
    reconciler.process.kill()
    whole.extender.start()
    whole.wait_ready()
    reconciler.start()
    reconciler.await_looks()
    api.wait_for(
        "it preempts still", lambda: whole.metric("gang_extender_preempting_groups") == 1, SECONDS
    )
    for number in range(4):
        api.create(gangs.pod(f"plain-{number}", cpu="3"))
    let_go(gangs, "low")
    gangs.await_phases("h", Running=2)

    assert [p["spec"].get("nodeName") for p in api.list("pods", gangs.namespace)].count(None) == 4
    assert groups.reasons("low").count("Preempted") == 1
    await_given_up(gangs, "h", "Started")


@pytest.mark.usefixtures("reconciler")
def test_it_is_given_up_when_victims_stay(
    impatient: GangScheduler, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    groups = Groups(api, gangs.namespace)
    names = nodes(2)
    held(gangs, "low", 2, scheduler_name=IMPATIENT)
    gangs.create("h", 2, cpu="3", priority_class=high, scheduler_name=IMPATIENT)
    await_nominated(gangs, "h", names)
    await_given_up(gangs, "h", "VictimsStay")
    api.wait_for("nominations are gone", lambda: nominated(gangs, "h") == [None] * 2, SECONDS)
    api.wait_for("there is an Event", lambda: "VictimsStay" in groups.reasons("h"), SECONDS)
    assert impatient.metric("gang_extender_preempting_groups") == 0
    let_go(gangs, "low")
    gangs.await_phases("h", Running=2)


def test_a_job_of_a_queue_is_stopped(
    whole: GangScheduler, high: str, api: Api, gangs: Gangs, queues: Queues, nodes: NodeFactory
) -> None:
    del whole
    nodes(2)
    queues.simple(cpu=6)
    gangs.create_group("low", 2)
    queues.job("job", 2, cpu="3", group="low", run_for="1h")
    gangs.await_phases("low", Running=2)
    gangs.create("h", 2, cpu="3", priority_class=high)
    gangs.await_phases("h", Running=2)

    workload = queues.its_workload("job")
    [evicted] = workload["status"]["schedulingStats"]["evictions"]
    assert (evicted["reason"], evicted["count"]) == ("Preempted", 1)
    gangs.delete([pod["metadata"]["name"] for pod in gangs.members("h")])
    gangs.await_phases("low", Running=2)


def budget(gangs: Gangs, group: str) -> Object:
    """Return a disruption budget that allows no eviction of a gang's pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": group, "namespace": gangs.namespace},
        "spec": {
            "maxUnavailable": 0,
            "selector": {"matchLabels": {"scheduling.x-k8s.io/pod-group": group}},
        },
    }


def test_whether_a_budget_allows_an_eviction_can_be_asked(
    control_plane: ControlPlane, whole: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    del whole
    nodes(2)
    gangs.create("low", 2, cpu="3")
    gangs.await_phases("low", Running=2)
    found = gangs.members("low")[0]["metadata"]
    pod = PodRef(gangs.namespace, found["name"], found["uid"])

    async def ask() -> None:
        async with KubeClient(await keyring(control_plane.admin_kubeconfig)) as client:
            await PodGroupWriter(client).evict(pod, dry_run=True)

    asyncio.run(ask())
    assert leaving(gangs, "low") == {}
    api.create(budget(gangs, "low"))
    with pytest.raises(BudgetError):
        asyncio.run(ask())


@pytest.mark.parametrize("kept", ["a", "b"])
def test_a_budget_is_kept_where_that_is_possible(
    kept: str,
    whole: GangScheduler,
    reconciler: Reconciler,
    high: str,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    """The one that is protected stays while another gang is enough, and makes room else."""
    del whole
    nodes(4)
    before = {how: reconciler.metric(VICTIMS.format(how)) for how in ("evicted", "deleted")}
    for name in ("a", "b"):
        gangs.create(name, 2, cpu="3")
        gangs.await_phases(name, Running=2)
    api.create(budget(gangs, kept))
    gangs.await_seen()
    gangs.create("h", 2, cpu="3", priority_class=high)
    gangs.await_phases("h", Running=2)
    assert gangs.phases(kept) == ["Running"] * 2
    assert reconciler.metric(VICTIMS.format("evicted")) == before["evicted"] + 2

    gangs.create("more", 2, cpu="3", priority_class=high)
    gangs.await_phases("more", Running=2)
    assert gangs.phases(kept) == []
    assert reconciler.metric(VICTIMS.format("deleted")) == before["deleted"] + 2


@pytest.mark.usefixtures("reconciler")
def test_nothing_is_evicted_while_a_setting_says_so(
    restrained: GangScheduler, high: str, gangs: Gangs, nodes: NodeFactory
) -> None:
    def all_stay() -> bool:
        stay = (nominated(gangs, "h"), gangs.phases("low")) == ([None] * 2, ["Running"] * 2)
        return stay and leaving(gangs, "low") == {}

    there, _ = nodes(2)
    gangs.create("low", 2, cpu="3", scheduler_name=RESTRAINED)
    gangs.await_phases("low", Running=2)
    gangs.create("h", 2, cpu="3", priority_class=high, scheduler_name=RESTRAINED)
    gangs.retry(restrained, there, attempts=2)
    assert all_stay()

    restrained.restart_with({"gang": {"minRunSeconds": 3600}})
    gangs.retry(restrained, there, attempts=1)  # it acts for a kube-scheduler that asks it
    gangs.api.wait_for("victims were looked for", lambda: vain_looks(restrained), SECONDS)
    assert all_stay()

    restrained.restart_with({})
    gangs.retry(restrained, there, attempts=1)
    gangs.await_phases("h", Running=2)
    assert gangs.phases("low") == []


# -- kube-scheduler's own preemption, for a pod without a gang


def test_a_gang_that_goes_whole_is_preferred_to_a_part_of_another(
    whole: GangScheduler, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """kube-scheduler prefers the other nodes, where fewer pods go."""
    del whole
    together, *apart = nodes(3)
    gangs.create("one", 2, cpu="1500m", node_name=together)
    gangs.create_group("two", 2)
    for number, name in enumerate(apart):
        gangs.add("two", 1, start=number, cpu="3", node_name=name)
    for name in ("one", "two"):
        gangs.await_phases(name, Running=2)
    gangs.await_seen()
    api.create(gangs.pod("plain", cpu="3", priority_class=high))

    api.wait_for(
        "the pod has a node",
        lambda: gangs.node_of("plain"),
        SECONDS,
    )
    # The gang that goes whole went first. kube-scheduler may try the pod again before the extender
    # has seen that it is gone, and then proposes the others too.
    assert gangs.phases("one") == []


def test_a_gang_of_which_a_pod_is_as_important_stays_whole(
    whole: GangScheduler, high: str, middle: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    lower, higher = nodes(2)
    gangs.create_group("mixed", 2)
    gangs.add("mixed", 1, cpu="3", node_name=lower)
    gangs.add("mixed", 1, start=1, cpu="3", node_name=higher, priority_class=high)
    gangs.await_phases("mixed", Running=2)
    gangs.await_seen()
    before = whole.metric(ASKED)
    api.create(gangs.pod("plain", cpu="3", priority_class=middle))

    api.wait_for("kube-scheduler has proposed it", lambda: whole.metric(ASKED) > before, SECONDS)

    def answered() -> Object | None:
        pod = api.get("pods", "plain", gangs.namespace)
        return pod if message(pod) else None

    plain = api.wait_for("it says what came of it", answered, SECONDS)
    assert plain is not None
    assert "nominatedNodeName" not in plain["status"]
    assert gangs.phases("mixed") == ["Running"] * 2
    assert leaving(gangs, "mixed") == {}


def test_pods_of_a_tenants_daemon_set_make_room(
    whole: GangScheduler, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    del whole
    nodes(2)
    labels = {"app": "agent"}
    spec = gangs.pod("agent", cpu="3")["spec"]
    api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": gangs.namespace},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {**spec, "restartPolicy": "Always"},
                },
            },
        }
    )

    def running() -> int:
        pods = api.list("pods", gangs.namespace, labels="app=agent")
        return sum(pod["status"].get("phase") == "Running" for pod in pods)

    api.wait_for("there is one on each node", lambda: running() == 2)
    gangs.create("h", 2, cpu="3", priority_class=high)
    gangs.await_phases("h", Running=2)
    assert running() == 0
