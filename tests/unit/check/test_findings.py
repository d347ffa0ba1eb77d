"""Findings in lines, their exit code, and checks of the API server and of CRDs."""

from copy import deepcopy
from typing import Any

import pytest

from extender.check.cluster import check, missing
from extender.check.facts import ClusterFacts, CrdFacts, ServerFacts
from extender.check.findings import (
    HEADS,
    FindingLevel,
    Unknown,
    exit_code,
    failure,
    ok,
    text,
    warning,
)
from extender.check.survey import shipped_crds

SERVER = ServerFacts("v1.36.3", (1, 36), 0.0)
FOUND = [
    ok("server.version", "Kubernetes v1.36.3"),
    failure("crds.podgroups", "there is no CRD " + "podgroups " * 12, "kubectl apply"),
]


def test_lines_are_grouped_aligned_and_counted() -> None:
    lines = text(FOUND, 80).splitlines()

    assert lines[0] == "API server"
    assert lines[3] == "CRDs"
    columns = {line.index(word) for line, word in ((lines[1], "Kubernetes"), (lines[4], "there"))}
    assert len(columns) == 1
    [mend] = [line for line in lines if "-> kubectl apply" in line]
    assert mend.index("->") in columns
    assert lines[-1] == "1 failure, 0 warnings, 1 ok"
    assert max(map(len, lines)) <= 80


def test_a_warning_is_no_failure() -> None:
    assert exit_code(FOUND) == 1
    assert exit_code([FOUND[0], warning("server.clock", "late", "mend it")]) == 0


@pytest.mark.parametrize(
    ("facts", "levels"),
    [
        (SERVER, ["ok", "ok"]),
        (ServerFacts("v1.32.0", (1, 32)), ["warning"]),
        (ServerFacts("v1.31.0", (1, 31)), ["warning"]),
        (ServerFacts("v1.30.9", (1, 30)), ["failure"]),
        (ServerFacts("nonsense", None), ["warning"]),
        (ServerFacts("v1.37.0", (1, 37), 6.0), ["ok", "warning"]),
        (ServerFacts("v1.37.0", (1, 37), -6.0), ["ok", "warning"]),
        (Unknown("connection refused"), ["failure"]),
    ],
)
def test_the_api_server(facts: ServerFacts | Unknown, levels: list[str]) -> None:
    found = check(ClusterFacts(0.0, facts))
    assert [each.level for each in found if each.group == "server"] == levels


def test_of_a_cluster_that_does_not_answer_nothing_else_is_said() -> None:
    assert {each.id for each in check(ClusterFacts(0.0, Unknown("away")))} == {
        "server.version",
        "scheduler.file",
        "extender.ready",
    }


def stored() -> dict[str, Any]:
    return {each["metadata"]["name"]: deepcopy(dict(each)) for each in shipped_crds(queue=True)}


def of_crds(stored: dict[str, Any], *, queue: bool = True) -> dict[str, FindingLevel]:
    facts = [
        CrdFacts(
            each,
            frozenset({each["spec"]["versions"][0]["name"]}),
            stored.get(each["metadata"]["name"]),
        )
        for each in shipped_crds(queue=queue)
    ]
    found = check(ClusterFacts(0.0, SERVER, crds=facts))
    assert all(each.group in HEADS for each in found)
    return {each.id: each.level for each in found if each.group == "crds"}


def test_our_own_crds_are_right_and_each_has_a_line() -> None:
    found = of_crds(stored())

    assert len(found) == len(shipped_crds(queue=True)) == 9
    assert {*found.values()} == {"ok"}


def test_without_the_queue_its_crds_are_not_needed() -> None:
    assert of_crds({}, queue=False) == dict.fromkeys(
        ("crds.podgroups", "crds.podgroups-sigs"), "failure"
    )


def test_a_version_that_is_not_stored_is_a_failure() -> None:
    found = stored()
    versions = found["workloads.kueue.x-k8s.io"]["spec"]["versions"]
    versions[0]["storage"], versions[1]["storage"] = False, True

    assert of_crds(found)["crds.workloads"] == "failure"


def test_a_field_that_is_dropped_is_a_failure() -> None:
    found = stored()
    schema = found["podgroups.scheduling.x-k8s.io"]["spec"]["versions"][0]["schema"]
    del schema["openAPIV3Schema"]["properties"]["spec"]["properties"]["minMember"]

    assert of_crds(found)["crds.podgroups"] == "failure"


def test_a_version_that_is_not_served_is_a_failure() -> None:
    [shipped] = [
        each
        for each in shipped_crds(queue=False)
        if each["metadata"]["name"] == "podgroups.scheduling.x-k8s.io"
    ]
    crd = CrdFacts(shipped, frozenset({"v1"}), Unknown("403"))
    [finding] = [
        each for each in check(ClusterFacts(0.0, SERVER, crds=[crd])) if each.id == "crds.podgroups"
    ]
    assert finding.level is FindingLevel.FAILURE
    assert "served in v1, and v1alpha1" in finding.found


def test_fields_that_are_dropped_are_found_at_any_depth() -> None:
    ours: dict[str, Any] = {
        "properties": {"a": {"items": {"properties": {"b": {}, "c": {}}}}, "d": {}}
    }
    theirs: dict[str, Any] = {"properties": {"a": {"items": {"properties": {"b": {}}}}}}

    assert missing(ours, theirs) == ["a[].c", "d"]
    assert missing(ours, ours) == []
    assert missing(ours, {"x-kubernetes-preserve-unknown-fields": True}) == []
