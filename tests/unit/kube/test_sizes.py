"""What tenants write takes a bounded amount of memory, whatever they write and however often."""

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from extender.kube.decode import DecodeError, Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.shapes import Patterns
from extender.kube.sizes import JOBS, MOST_ENTRIES, MOST_NAMES, PODS
from extender.kube.stored import read_assignments
from extender.state.cluster.index import NodeOrder
from extender.state.cluster.records import EVERY_PORT

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MIB = 1024 * 1024


def spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **more}


def pod(number: int = 0, node: str = "", /, **more: Any) -> bytes:
    metadata = {"name": f"p-{number}", "namespace": "ns", "uid": f"u-{number}"}
    labels, owners = more.pop("labels", {}), more.pop("owners", [])
    body = {
        "metadata": {**metadata, "labels": labels, "ownerReferences": owners},
        "spec": {**spec(**more), **({"nodeName": node} if node else {})},
    }
    return json.dumps(body).encode()


def repelling(terms: int, number: int = 0) -> dict[str, Any]:
    """Return anti-affinity of many terms, as no other number has it."""
    found = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {f"k{number}": f"v{each}"}}}
        for each in range(terms)
    ]
    return {"podAntiAffinity": {REQUIRED: found}}


def choosy(terms: int) -> dict[str, Any]:
    found = [
        {"matchExpressions": [{"key": f"k{each}", "operator": "Exists"}]} for each in range(terms)
    ]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": found}}}


def asking(names: int) -> list[dict[str, Any]]:
    amounts = {f"example.com/r{number}": "1" for number in range(names)}
    return [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi", **amounts}}}]


def listening(ports: int) -> list[dict[str, Any]]:
    said = [{"containerPort": 1 + number, "hostPort": 1 + number} for number in range(ports)]
    return [{"name": "c", "ports": said, "resources": {"requests": {"cpu": "2"}}}]


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o"}
OVERSIZED: dict[str, tuple[dict[str, Any], str]] = {
    "terms of anti-affinity": ({"affinity": repelling(9000)}, "spec.affinity"),
    "terms of node affinity": ({"affinity": choosy(16_000)}, "spec.affinity"),
    "short terms": ({"affinity": choosy(600)}, "spec.affinity"),
    "labels": ({"labels": {f"{n}": "" for n in range(100_000)}}, "metadata.labels"),
    "long labels": ({"labels": {"k" * 300 + f"{n}": "" for n in range(400)}}, "metadata.labels"),
    "extended resources": ({"containers": asking(12_000)}, "resources of a container"),
    "resources in many containers": (
        {"containers": [c for n in (50, 100) for c in asking(n)]},
        "requests",
    ),
    "host ports": ({"containers": listening(12_000)}, "host ports"),
    "tolerations": ({"tolerations": [{"key": f"{n}"} for n in range(5000)]}, "spec.tolerations"),
    "a node selector": ({"nodeSelector": {f"{n}": "" for n in range(5000)}}, "spec.nodeSelector"),
    "spread": (
        {"topologySpreadConstraints": [{"topologyKey": f"{n}"} for n in range(5000)]},
        "spec.topologySpreadConstraints",
    ),
    "owners": ({"owners": [OWNER] * 5000}, "metadata.ownerReferences"),
    "claims": (
        {"resourceClaims": [{"name": f"{n}", "resourceClaimName": "c"} for n in range(5000)]},
        "spec.resourceClaims",
    ),
    "volumes": ({"volumes": [{"name": f"{n}"} for n in range(5000)]}, "spec.volumes"),
    "gates": ({"schedulingGates": [{"name": f"{n}"} for n in range(5000)]}, "schedulingGates"),
    "a scheduler's name": ({"schedulerName": "s" * 100_000}, "spec.schedulerName"),
}


@pytest.mark.parametrize(("more", "field"), OVERSIZED.values(), ids=OVERSIZED)
def test_a_pod_that_is_too_large_waits_and_on_a_node_takes_what_it_asks_for(
    more: dict[str, Any], field: str
) -> None:
    with pytest.raises(DecodeError, match=field):
        Decoder().pod(pod(**more))
    found = Decoder().pod(pod(0, "n", **more))

    assert field in found.unreadable
    assert found.node == "n"
    cpu = 4000 if field == "requests" else 2000 if "containers" in more else 1000
    assert found.shape.requests["cpu"] == cpu
    assert len(found.shape.requests) <= MOST_NAMES
    assert "memory" in found.shape.requests or "resources" not in field


def test_on_a_node_it_keeps_away_whom_it_may_keep_away() -> None:
    decoder = Decoder()
    repels = decoder.pod(pod(0, "n", affinity=repelling(9000))).shape
    listens = decoder.pod(pod(1, "n", containers=listening(12_000))).shape
    neither = decoder.pod(pod(2, "n", labels={f"{n}": "" for n in range(5000)})).shape

    assert [term.covers("other", own="ns") for term in repels.shuns] == [True]
    assert listens.host_ports == {EVERY_PORT}
    assert not neither.shuns
    assert not neither.host_ports


def test_one_that_has_not_changed_is_the_same_each_time() -> None:
    decoder, raw = Decoder(), pod(0, "n", affinity=repelling(9000))

    assert decoder.pod(raw) == decoder.pod(raw)


@pytest.mark.parametrize(
    "more",
    [
        {"affinity": choosy(60)},
        {"affinity": repelling(60)},
        {"containers": asking(MOST_NAMES - 3)},
        {"containers": listening(MOST_ENTRIES)},
        {"labels": {f"l{n}": "x" * 60 for n in range(100)}},
    ],
)
def test_what_people_write_is_read_as_before(more: dict[str, Any]) -> None:
    found = Decoder().pod(pod(**more))

    assert not found.unreadable
    assert found.labels == more.get("labels", {})


def in_memory(made: Callable[[], object]) -> int:
    """Return how many bytes are kept by what is made."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = made()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del kept
    return size


def read(decoder: Decoder, raws: Iterable[bytes]) -> tuple[list[Any], int]:
    """Return the pods that could be read, and how many could not."""
    found, aside = [], 0
    for raw in raws:
        try:
            found.append(decoder.pod(raw))
        except DecodeError:
            aside += 1
    return found, aside


EVER_NEW: dict[str, Callable[[int], dict[str, Any]]] = {
    "anti-affinity": lambda number: {"affinity": repelling(60, number)},
    "labels": lambda number: {"labels": {f"{number}-{n}": "x" * 60 for n in range(250)}},
    "resources": lambda number: {
        "containers": asking(MOST_NAMES - 3),
        "nodeSelector": {"n": f"{number}"},
    },
    "node selectors": lambda number: {
        "nodeSelector": {f"{number}-{n}": "x" * 60 for n in range(250)}
    },
}
"""Pods just below the limits, as there is no other of any number."""


@pytest.mark.parametrize("kind", EVER_NEW)
def test_many_pods_just_below_the_limit_take_a_bounded_amount(kind: str) -> None:
    """What is kept of a pod beyond a little is bounded by namespace."""
    decoder = Decoder(patterns=Patterns())
    raws = [pod(number, **EVER_NEW[kind](number)) for number in range(250)]

    assert in_memory(lambda: read(decoder, raws)) < 15 * PODS


@pytest.mark.parametrize("kind", EVER_NEW)
def test_pods_that_have_gone_leave_nothing_behind(kind: str) -> None:
    """So the bytes of a namespace are free for others again."""
    decoder = Decoder(patterns=Patterns())
    raws = [pod(number, **EVER_NEW[kind](number)) for number in range(100)]

    def come_and_go() -> None:
        for raw in raws:
            assert not decoder.pod(raw).unreadable

    assert in_memory(come_and_go) < MIB


def test_another_namespace_is_not_concerned() -> None:
    decoder = Decoder()
    there, aside = read(decoder, (pod(n, affinity=repelling(60, n)) for n in range(1500)))
    other = pod(0, affinity=repelling(60, 5)).replace(b'"ns"', b'"other"')

    assert there
    assert aside
    with pytest.raises(DecodeError, match="namespace ns has objects"):
        decoder.pod(pod(7, affinity=repelling(60, 10_000)))
    assert not decoder.pod(other).unreadable
    assert decoder.pod(pod(8, "n", affinity=repelling(60, 10_001))).unreadable
    there.clear()
    assert not decoder.pod(pod(9, affinity=repelling(60, 10_002))).unreadable


def test_pods_of_one_template_count_once() -> None:
    more = {"affinity": repelling(60), "labels": {f"l{n}": "x" * 60 for n in range(100)}}
    found, aside = read(Decoder(), (pod(n, **more) for n in range(3000)))

    assert (len(found), aside) == (3000, 0)


def job(number: int, size: int) -> bytes:
    metadata = {"name": f"j-{number}", "namespace": "ns", "uid": f"u-{number}"}
    containers = [{"name": "c", "args": ["x" * size, f"{number}"]}]
    body = {"spec": {"template": {"metadata": {}, "spec": {"containers": containers}}}}
    return json.dumps({"metadata": metadata, **body}).encode()


def workload(number: int, size: int) -> bytes:
    template = json.loads(job(number, size))["spec"]["template"]
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    metadata = {"name": f"w-{number}", "namespace": "ns", "uid": f"w-{number}"}
    return json.dumps({"metadata": metadata, "spec": {"podSets": pod_sets}}).encode()


def test_jobs_of_a_namespace_take_a_bounded_amount() -> None:
    decoder, aside = QueueDecoder(Decoder()), list[str]()

    def made() -> object:
        jobs = []
        for number in range(40):
            try:
                jobs.append(decoder.job(job(number, MIB), kind="batch/job"))
            except DecodeError as error:
                aside.append(str(error))
        return jobs

    assert in_memory(made) < 2 * JOBS
    assert "namespace ns has objects" in aside[0]
    decoder.job(job(0, MIB), kind="batch/job")  # the others are gone


def test_templates_of_workloads_that_have_gone_are_not_kept() -> None:
    decoder = QueueDecoder(Decoder())

    def come_and_go() -> None:
        for number in range(40):
            assert not decoder.workload(workload(number, MIB)).unreadable

    assert in_memory(come_and_go) < 20 * MIB


def group(annotations: dict[str, str] | None = None, /, **asked: str) -> bytes:
    metadata = {"name": "g", "namespace": "ns", "uid": "u", "annotations": annotations}
    body = {"metadata": metadata, "spec": {"minMember": 1, "minResources": asked}}
    return json.dumps(body).encode()


def test_an_annotation_is_not_multiplied() -> None:
    """A prefix that all domains share is written once, and was in memory once for each."""
    said = {"prefix": "p" * 50_000, "roots": [f"{n}" for n in range(10_000)]}
    level = {"individual": said}
    slices = [{"domainCount": 10_000, "valuesPerLevel": [level], "podCounts": {"universal": 1}}]
    text = json.dumps({"main": {"levels": ["host"], "slices": slices}})

    assert in_memory(lambda: read_assignments(text)) < 10 * len(text)


def test_the_domains_of_a_namespace_are_bounded() -> None:
    level = {"individual": {"roots": [f"{n}" for n in range(20_000)]}}
    slices = [{"domainCount": 20_000, "valuesPerLevel": [level], "podCounts": {"universal": 1}}]
    name, decoder, kept = "scheduling.x-k8s.io/topology-assignment", Decoder(), list[object]()

    def made() -> None:
        for number in range(40):
            text = json.dumps({f"main-{number}": {"levels": ["host"], "slices": slices}})
            kept.append(decoder.pod_group(group({name: text}), api_group="a"))

    with pytest.raises(DecodeError, match="namespace ns has objects"):
        made()
    assert 1 < len(kept) < 20


def test_what_pod_groups_of_a_namespace_ask_for_is_bounded() -> None:
    decoder, kept = Decoder(), list[object]()
    raw = group(**{f"example.com/{number}": "1" for number in range(5000)})

    def made() -> None:
        while len(kept) < 100:
            kept.append(decoder.pod_group(raw, api_group="a"))

    with pytest.raises(DecodeError, match="namespace ns has objects"):
        made()
    assert len(kept) > 10


def test_a_quantity_of_thousands_of_digits_is_none() -> None:
    with pytest.raises(DecodeError, match="characters"):
        Decoder().pod_group(group(cpu="0" * 1000 + "1"), api_group="a")


def test_a_disruption_budget_that_is_too_large_is_set_aside() -> None:
    labels = {f"{n}": "" for n in range(1000)}
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": labels}}}

    with pytest.raises(DecodeError, match=r"spec\.selector"):
        Decoder().budget(json.dumps(body).encode())


def test_nodes_are_not_ordered_by_names_that_none_has() -> None:
    amounts = {f"n{number}": {"cpu": number} for number in range(800)}
    order = NodeOrder(amounts.get)
    order.note(*amounts)
    first = order.by("cpu")

    def asked() -> object:
        return [(order.by(f"e.com/{n}"), order.most(f"e.com/{n}")) for n in range(10_000)]

    assert in_memory(asked) < 4 * MIB
    assert order.by("e.com/0") is order.by("e.com/1")
    assert [name for _, name in order.by("e.com/0")] == sorted(amounts)
    amounts["n0"] = {"cpu": 0, "e.com/0": 3}
    order.note("n0")
    assert order.by("e.com/0")[-1] == (3, "n0")
    assert order.most("e.com/0") == 3
    amounts["n0"] = {"cpu": 0}
    order.note("n0")
    assert order.most("e.com/0") == 0
    assert order.by("cpu") == first
