"""Two kube-schedulers on the same nodes: ours, and one that asks no extender.

Neither sees what the other has not bound yet, so nodes get more than they have, and the kubelet
refuses the pod that comes later.
"""

import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from tests.cluster import faults
from tests.cluster.alone import pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import PATIENT, Gangs, await_held, decisions
from tests.cluster.groups import Groups
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.objects import Object
from tests.harness.process import Component
from tests.harness.strict_kubelet import STRICT, StrictKubelet
from tests.tiers import LONG, long_but_for

pytestmark = [
    pytest.mark.usefixtures("ours", "reconciler"),
    pytest.mark.overcommits("two schedulers bind to the same nodes, and the kubelet refuses"),
]

OURS, STOCK = "gang-scheduler", "stock"
SECONDS = 180


ours = pair_of(OURS)
"""As in manifests/second-scheduler."""


@pytest.fixture(scope="module")
def stock(control_plane: ControlPlane) -> Iterator[Component]:
    """A kube-scheduler as it comes, for pods that name it."""
    profiles = {"profiles": [{"schedulerName": STOCK}]}
    with control_plane.scheduler(profiles, name=STOCK) as scheduler:
        yield scheduler


def make(api: Api, gangs: Gangs, name: str, pods: int, kind: str = "Deployment") -> None:
    """Make a gang whose failed pods are replaced: at once, or for a Job later and later."""
    gangs.create_group(name, pods, timeout=1)
    options: Object = {"namespace": gangs.namespace, "cpu": "1", "group": name}
    options["pod_spec"] = {"schedulerName": OURS}
    if kind == "Job":
        body = objects.job(name, pods, run_for="900s", backoffLimit=1000, **options)
    else:
        body = objects.deployment(name, pods, **options)
    body["spec"]["template"]["metadata"].setdefault("annotations", {}).update(STRICT)
    api.create(body)


def placed(gangs: Gangs, name: str) -> list[Object]:
    """Return the pods of a gang that have a node and have not ended."""
    over = ("Failed", "Succeeded")
    found = (pod for pod in gangs.members(name) if pod["status"]["phase"] not in over)
    return [pod for pod in found if pod["spec"].get("nodeName")]


def runs(gangs: Gangs, name: str, pods: int) -> bool:
    return [pod["status"]["phase"] for pod in placed(gangs, name)] == ["Running"] * pods


@pytest.mark.parametrize("kind", long_but_for(["Deployment", "Job"], "Deployment"))
def test_a_gang_of_which_a_node_refused_a_pod_starts_again_as_a_whole(
    kind: str, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """A pod of another scheduler comes to a node that the gang has filled by then."""
    kubelet = StrictKubelet(api, nodes(2, cpu=2))
    make(api, gangs, "g", 4, kind)
    api.wait_for("it has its nodes", lambda: len(placed(gangs, "g")) == 4, SECONDS)
    full = placed(gangs, "g")[0]["spec"]["nodeName"]
    api.create(gangs.pod("plain", cpu=1, annotations=STRICT, scheduler_name="nobody"))
    faults.bind(api, gangs.namespace, "plain", full)

    kubelet.look(first={"plain"})
    assert len(kubelet.refused) == 1
    assert kubelet.refused[0].startswith("g-")
    api.wait_for("it gives its room back", lambda: not placed(gangs, "g"), SECONDS)
    groups = Groups(api, gangs.namespace)
    api.wait_for("an Event says so", lambda: "PartialGang" in groups.reasons(), SECONDS)
    groups.await_reason("NotEnoughResources")

    api.delete("pods", "plain", gangs.namespace)

    def whole() -> bool:
        kubelet.look()
        return runs(gangs, "g", 4)

    api.wait_for("it starts", whole, SECONDS)
    assert len(kubelet.refused) == 1


@LONG
def test_gangs_that_fight_another_scheduler_for_full_nodes_are_whole_or_hold_nothing(
    ours: GangScheduler,
    stock: Component,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    """Ten gangs of eight and 100 pods of the other scheduler, for 120 places, all at once."""
    kubelet = StrictKubelet(api, nodes(30, cpu=4))
    names = [f"g{number}" for number in range(10)]
    plain = [
        gangs.pod(f"plain-{number}", cpu=1, annotations=STRICT, scheduler_name=STOCK)
        for number in range(100)
    ]
    both = [ours.scheduler.pid, stock.pid]
    for pid in both:
        os.kill(pid, signal.SIGSTOP)
    try:
        api.create(*plain)
        for name in names:
            make(api, gangs, name, 8)
        made = partial(there, gangs, names, 8)
        api.wait_for("all are there", made, SECONDS)
    finally:
        for pid in both:
            os.kill(pid, signal.SIGCONT)

    def settled() -> bool:
        kubelet.look()
        given = len(api.list("pods", gangs.namespace, fields="spec.nodeName!="))
        done = all(not placed(gangs, name) or runs(gangs, name, 8) for name in names)
        return done and given >= len(plain)

    api.wait_for("each is whole or holds nothing", settled, SECONDS)
    gangs.delete([pod["metadata"]["name"] for pod in plain])

    def all_run() -> bool:
        kubelet.look()
        return all(runs(gangs, name, 8) for name in names)

    api.wait_for("all run", all_run, SECONDS)


def there(gangs: Gangs, names: list[str], pods: int) -> bool:
    return all(len(gangs.members(name)) == pods for name in names)


def test_a_gang_whose_room_another_scheduler_takes_while_it_waits_is_not_bound(
    patient_gang: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """No kubelet has to refuse anything: the extender looks once more before it binds."""
    names = nodes(2, cpu=1)
    kubelet = StrictKubelet(api, names)
    pod: Object = {"scheduler_name": PATIENT, "annotations": STRICT}
    gangs.create_group("g", 2, timeout=600)
    gangs.add("g", 1, cpu="1", **pod)
    api.create(gangs.late("g-1", group="g", cpu="0", **pod))
    await_held(api, patient_gang, 1)
    plain = [gangs.pod(f"plain-{n}", cpu=1, scheduler_name="nobody") for n in range(2)]
    api.create(*plain)
    for each, name in zip(plain, names, strict=True):
        faults.bind(api, gangs.namespace, each["metadata"]["name"], name)
    gangs.await_seen(PATIENT)
    before = decisions(patient_gang, "bind", "RoomTaken")
    api.create(gangs.anchor(cpu="0", node_name=names[0]))

    api.wait_for(
        "the gang is refused",
        lambda: decisions(patient_gang, "bind", "RoomTaken") > before,
        SECONDS,
    )
    assert not gangs.bound("g")
    gangs.delete([each["metadata"]["name"] for each in plain])

    def whole() -> bool:
        kubelet.look()
        return runs(gangs, "g", 2)

    api.wait_for("it starts", whole, SECONDS)
    assert kubelet.refused == []
