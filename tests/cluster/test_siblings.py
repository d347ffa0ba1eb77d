"""Members that kube-scheduler itself can place only beside siblings which have a node."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api
from tests.harness.objects import Object

ZONE = "topology.kubernetes.io/zone"


def near(role: str) -> Object:
    """Return required affinity to the zone of pods of a role."""
    term = {"labelSelector": {"matchLabels": {"role": role}}, "topologyKey": ZONE}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(**options: Any) -> list[Object]:
    """Return a constraint that spreads the pods of the app `gang` over zones."""
    selector = {"matchLabels": {"app": "gang"}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": selector, **options}]


def member(gangs: Gangs, name: str, role: str, **options: Any) -> Object:
    labels = {"role": role, "app": "gang"}
    return gangs.pod(name, group="g", labels=labels, **{"cpu": "1", **options})


def leader(gangs: Gangs) -> Object:
    return member(gangs, "leader", "leader")


def workers(gangs: Gangs, count: int) -> Sequence[Object]:
    return [
        member(gangs, f"w{number}", "worker", affinity=near("leader")) for number in range(count)
    ]


def await_refused_by_kube_scheduler(api: Api, gangs: Gangs, *names: str) -> None:
    """Wait until kube-scheduler's own filters have refused pods."""

    def refused() -> bool:
        said = [gangs.message(name) for name in names]
        return all(each and "gang " not in each for each in said)

    api.wait_for(f"kube-scheduler refuses {names}", refused)


@pytest.fixture
def zones(nodes: NodeFactory) -> Mapping[str, Sequence[str]]:
    """The nodes of two zones, with room for a whole gang in each."""
    return {zone: nodes(2, prefix=f"zone-{zone}", labels={ZONE: zone}) for zone in "ab"}


@pytest.mark.parametrize("order", ["workers first", "leader first", "at once", "after a refusal"])
@pytest.mark.usefixtures("zones", "gang")
def test_workers_start_beside_the_leader_that_they_have_to_be_near(
    order: str, api: Api, gangs: Gangs
) -> None:
    gangs.create_group("g", 4)
    rest = workers(gangs, 3)
    match order:
        case "workers first":
            api.create(*rest)
            await_refused_by_kube_scheduler(api, gangs, "w0", "w1", "w2")
            api.create(leader(gangs))
        case "leader first":
            api.create(leader(gangs))
            gangs.await_refused("g", "1 of the 4 pods that it needs exist")
            api.create(*rest)
        case "at once":
            api.create(*rest, leader(gangs))
        case _:
            api.create(*rest[:2])
            gangs.await_seen()  # or the leader is refused for want of them, and is not tried again
            api.create(leader(gangs))
            gangs.await_refused("g", "3 of the 4 pods that it needs exist")
            api.create(rest[2])
    gangs.await_phases("g", Running=4)


@pytest.mark.parametrize("others", ["none", "one that runs"])
@pytest.mark.usefixtures("gang")
def test_members_that_have_to_be_spread_start_when_others_are_in_the_other_zone(
    others: str, high: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, prefix="large", cpu="8", labels={ZONE: "b"})
    nodes(1, prefix="small", cpu="1", labels={ZONE: "a"})
    runs = others == "one that runs"
    if runs:
        api.create(gangs.pod("runs", labels={"app": "gang"}, cpu="2"))
        api.wait_for("it runs", lambda: gangs.node_of("runs") is not None)
    names = ["l0"] if runs else ["l0", "l1"]
    gangs.create_group("g", len(names) + 1)
    options = {"cpu": "2", "priority_class": high, "topologySpreadConstraints": spread()}
    large = [member(gangs, name, "large", **options) for name in names]
    api.create(*large, member(gangs, "small", "small"))
    gangs.await_phases("g", Running=len(names) + 1)
