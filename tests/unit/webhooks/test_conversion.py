"""Objects of the queue in both versions."""

import copy
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.webhooks.conversion import (
    LARGEST_FIELD,
    LOOKED_INTO,
    NEWER,
    OLDER,
    ConversionError,
    Review,
    convert,
    convert_json,
)
from gang_tools.manifests import faults, schema_for

Object = dict[str, Any]
NOW = "2026-11-21T08:54:00Z"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}]}}


def of(kind: str, version: str, **parts: Any) -> Object:
    """Return an object as the API server has it."""
    metadata = {"name": "one", "uid": "1-2", "labels": {"team": "a"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def workload(version: str, spec: Object, **status: Any) -> Object:
    spec = {"podSets": [{"name": "main", "count": 2, "template": TEMPLATE}], **spec}
    return of("Workload", version, spec=spec, status=status)


SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}


def of_class(name: str, source: str) -> Object:
    """Return the fields of the older version that name a priority class."""
    return {"priorityClassName": name, "priorityClassSource": source}


def class_ref(name: str, source: str) -> Object:
    group, kind = SOURCES[source]
    return {"group": group, "kind": kind, "name": name}


def in_both(kind: str, **parts: Any) -> tuple[Object, Object]:
    """Return an object of the older version and of the newer one that differ in nothing else."""
    return of(kind, OLDER, **parts), of(kind, NEWER, **parts)


CHECK = "provisioning"
USAGE = [{"name": "spot", "resources": [{"name": "cpu", "total": "4"}]}]
WANT: dict[str, tuple[Object, Object]] = {
    "the cohort": (
        of("ClusterQueue", OLDER, spec={"cohort": "team", "queueingStrategy": "StrictFIFO"}),
        of("ClusterQueue", NEWER, spec={"cohortName": "team", "queueingStrategy": "StrictFIFO"}),
    ),
    "checks for all flavors": (
        of("ClusterQueue", OLDER, spec={"admissionChecks": [CHECK, "other"]}),
        of(
            "ClusterQueue",
            NEWER,
            spec={
                "admissionChecksStrategy": {
                    "admissionChecks": [
                        {"name": CHECK, "onFlavors": []},
                        {"name": "other", "onFlavors": []},
                    ]
                }
            },
        ),
    ),
    "checks by flavor": in_both(
        "ClusterQueue",
        spec={
            "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK, "onFlavors": ["spot"]}]}
        },
    ),
    "a strategy without flavors": in_both(
        "ClusterQueue",
        spec={"admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]}},
    ),
    "the flavor is taken": (
        of(
            "ClusterQueue",
            OLDER,
            spec={"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},
        ),
        of(
            "ClusterQueue",
            NEWER,
            spec={
                "flavorFungibility": {
                    "whenCanBorrow": "MayStopSearch",
                    "whenCanPreempt": "MayStopSearch",
                }
            },
        ),
    ),
    "the next flavor is tried": in_both(
        "ClusterQueue",
        spec={
            "flavorFungibility": {
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
                "preference": "PreemptionOverBorrowing",
            }
        },
    ),
    "what a local queue uses": (
        of("LocalQueue", OLDER, spec={"clusterQueue": "a"}, status={"flavorUsage": USAGE}),
        of("LocalQueue", NEWER, spec={"clusterQueue": "a"}, status={"flavorsUsage": USAGE}),
    ),
    **{
        f"a {kind}": (
            workload(OLDER, {"priority": 7, **of_class("high", source)}),
            workload(NEWER, {"priority": 7, "priorityClassRef": class_ref("high", source)}),
        )
        for source, (_, kind) in SOURCES.items()
    },
    "the time that it ran": (
        workload(OLDER, {}, accumulatedPastExexcutionTimeSeconds=5),
        workload(NEWER, {}, accumulatedPastExecutionTimeSeconds=5),
    ),
    "a flavor": in_both("ResourceFlavor", spec={"nodeLabels": {"a": "b"}}),
    "a cohort": in_both("Cohort", spec={"parentName": "all"}),
    "a priority": in_both("WorkloadPriorityClass", value=-3),
    "an object without a spec": (of("ClusterQueue", OLDER), of("ClusterQueue", NEWER)),
}


@pytest.mark.parametrize(("older", "newer"), WANT.values(), ids=WANT)
def test_both_versions_say_the_same(older: Object, newer: Object) -> None:
    for each, other in ((older, newer), (newer, older)):
        version = other["apiVersion"]
        assert convert(each, version) == other
        assert json.loads(convert_json(json.dumps(each).encode(), version)) == other
        assert convert(each, each["apiVersion"]) == each
        schema = schema_for(each["apiVersion"], each["kind"])
        assert schema is not None
        assert [*faults(each, schema)] == []


WANT_LOST: dict[str, tuple[Object, Object]] = {
    "which workloads wait first": (
        of("ClusterQueue", OLDER, status={"pendingWorkloadsStatus": {"lastChangeTime": NOW}}),
        of("ClusterQueue", NEWER, status={}),
    ),
    "the flavors of a local queue": (
        of("LocalQueue", OLDER, status={"flavors": [{"name": "spot"}], "pendingWorkloads": 1}),
        of("LocalQueue", NEWER, status={"pendingWorkloads": 1}),
    ),
    "a priority class of no kind": (
        workload(OLDER, {"priorityClassName": "high", "priorityClassSource": ""}),
        workload(NEWER, {}),
    ),
    "a kind of no priority class": (
        workload(OLDER, {"priorityClassSource": "scheduling.k8s.io/priorityclass"}),
        workload(NEWER, {}),
    ),
}


@pytest.mark.parametrize(("older", "newer"), WANT_LOST.values(), ids=WANT_LOST)
def test_what_the_newer_version_cannot_say_is_lost(older: Object, newer: Object) -> None:
    assert convert(older, NEWER) == newer


def test_parts_of_objects_are_taken_as_they_are() -> None:
    """The API server converts what one writer owns, which may be any part of an object."""
    nameless: Object = {"admissionChecksStrategy": {"admissionChecks": [{"onFlavors": []}]}}

    assert convert(of("ClusterQueue", NEWER, spec=nameless), OLDER)["spec"] == nameless
    assert convert(of("ClusterQueue", NEWER, spec=None), OLDER)["spec"] is None
    ref = {"kind": "PriorityClass"}
    assert convert(of("Workload", NEWER, spec={"priorityClassRef": ref}), OLDER)["spec"] == {}


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """Return objects with any of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


names = st.sampled_from(["a", "b", "spot", "on-demand"])
usages = st.lists(
    st.fixed_dictionaries({
        "name": names,
        "resources": st.just([{"name": "cpu", "total": "1", "borrowed": 0}]),
    }),
    max_size=2,
)  # fmt: skip
common_spec = {
    "queueingStrategy": st.sampled_from(["StrictFIFO", "BestEffortFIFO"]),
    "namespaceSelector": st.just({"matchLabels": {"a": "b"}}),
    "stopPolicy": st.sampled_from(["None", "Hold", "HoldAndDrain"]),
    "preemption": maybe(
        reclaimWithinCohort=st.just("Any"),
        borrowWithinCohort=maybe(policy=st.just("LowerPriority")),
    ),
    "concurrentAdmissionPolicy": st.just({"any": 1}),
}
strategy = st.fixed_dictionaries({
    "admissionChecks": st.lists(
        st.fixed_dictionaries({"name": names}, optional={"onFlavors": st.lists(names, max_size=2)}),
        min_size=1,
        max_size=3,
    )
})  # fmt: skip
counts = {"pendingWorkloads": st.integers(0, 9), "admittedWorkloads": st.integers(0, 9)}
workload_spec = {
    "queueName": names,
    "active": st.booleans(),
    "preemptionGates": st.just([{"name": "a"}]),
}
workload_status = {
    "reclaimablePods": st.just([{"name": "main", "count": 1}]),
    "requeueState": maybe(count=st.integers(0, 3)),
    "preemptionGates": st.just([{"name": "a", "position": "Open"}]),
}


def kinds(version: str, parts: dict[str, dict[str, st.SearchStrategy[Any]]]) -> Any:
    """Return objects of that version, with any of their parts."""

    def with_parts(kind: str, some: Object) -> Object:
        return of(kind, version, **some)

    return st.one_of(
        *(maybe(**fields).map(partial(with_parts, kind)) for kind, fields in parts.items())
    )


def fungibility(borrow: str, preempt: str) -> st.SearchStrategy[Object]:
    return maybe(
        whenCanBorrow=st.sampled_from([borrow, "TryNextFlavor"]),
        whenCanPreempt=st.sampled_from([preempt, "TryNextFlavor"]),
    )


newer_objects = kinds(
    NEWER,
    {
        "ClusterQueue": {
            "spec": maybe(
                cohortName=names,
                flavorFungibility=fungibility("MayStopSearch", "MayStopSearch"),
                admissionChecksStrategy=strategy,
                **common_spec,
            ),
            "status": maybe(flavorsUsage=usages, flavorsReservation=usages, **counts),
        },
        "LocalQueue": {
            "spec": maybe(clusterQueue=names),
            "status": maybe(flavorsUsage=usages, flavorsReservation=usages, **counts),
        },
        "Workload": {
            "spec": maybe(
                priorityClassRef=st.builds(class_ref, names, st.sampled_from([*SOURCES])),
                **workload_spec,
            ),
            "status": maybe(
                accumulatedPastExecutionTimeSeconds=st.integers(0, 9), **workload_status
            ),
        },
        "Cohort": {"spec": maybe(parentName=names)},
    },
)
classes = st.builds(of_class, names, st.sampled_from([*SOURCES]))
older_objects = kinds(
    OLDER,
    {
        "ClusterQueue": {
            "spec": st.one_of(
                maybe(
                    cohort=names,
                    flavorFungibility=fungibility("Borrow", "Preempt"),
                    admissionChecks=st.lists(names, min_size=1, max_size=3),
                    **common_spec,
                ),
                # A strategy in which every check has an empty list is how the newer version says
                # `admissionChecks`, and so is not said in this one.
                maybe(
                    admissionChecksStrategy=strategy.filter(
                        lambda s: any(rule.get("onFlavors") != [] for rule in s["admissionChecks"])
                    )
                ),
            ),
            "status": maybe(flavorsUsage=usages, **counts),
        },
        "LocalQueue": {
            "spec": maybe(clusterQueue=names),
            "status": maybe(flavorUsage=usages, **counts),
        },
        "Workload": {
            "spec": st.builds(
                lambda more, priority: {**more, **priority},
                maybe(**workload_spec),
                st.one_of(st.just({}), classes),
            ),
            "status": maybe(
                accumulatedPastExexcutionTimeSeconds=st.integers(0, 9), **workload_status
            ),
        },
    },
)


@pytest.mark.parametrize(
    ("objects", "there", "back"), [(newer_objects, OLDER, NEWER), (older_objects, NEWER, OLDER)]
)
@given(st.data())
def test_in_the_other_version_and_back_nothing_is_lost(
    objects: st.SearchStrategy[Object], there: str, back: str, data: st.DataObject
) -> None:
    each = data.draw(objects)
    given_ = copy.deepcopy(each)

    assert convert(convert(each, there), back) == given_
    assert each == given_


@given(st.one_of(newer_objects, older_objects))
def test_the_metadata_is_never_touched(each: Object) -> None:
    for version in (OLDER, NEWER):
        converted = convert(each, version)
        assert converted["metadata"] == each["metadata"]
        assert (converted["apiVersion"], converted["kind"]) == (version, each["kind"])


WANT_REFUSED: dict[str, tuple[Object, str]] = {
    "another kind": (of("MultiKueueCluster", OLDER), NEWER),
    "another group": (of("ClusterQueue", "example.com/v1"), NEWER),
    "another version": (of("ClusterQueue", NEWER), "kueue.x-k8s.io/v1"),
    "a version that is not named": (of("ClusterQueue", NEWER), ""),
}


@pytest.mark.parametrize(("each", "version"), WANT_REFUSED.values(), ids=WANT_REFUSED)
def test_what_is_not_ours_is_refused_by_name(each: Object, version: str) -> None:
    with pytest.raises(ConversionError, match="'one'"):
        convert(each, version)


def asked(version: str, *objects: Object) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "705ab4f5", "desiredAPIVersion": version, "objects": [*objects]},
    }


def answered(review: Object) -> Any:
    read = Review(json.dumps(review).encode())
    for _ in read.steps():
        pass
    return json.loads(read.answer())


def test_a_review_gives_all_objects_in_their_order() -> None:
    pairs = [
        WANT["the cohort"],
        WANT["a flavor"],
        WANT["a PriorityClass"],
    ]

    assert answered(asked(NEWER, *(older for older, _ in pairs))) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": {
            "uid": "705ab4f5",
            "convertedObjects": [newer for _, newer in pairs],
            "result": {"status": "Success"},
        },
    }


def test_one_object_that_cannot_be_converted_fails_the_review() -> None:
    answer = answered(asked(NEWER, of("ClusterQueue", OLDER), of("MultiKueueCluster", OLDER)))[
        "response"
    ]

    assert (answer["uid"], answer["convertedObjects"]) == ("705ab4f5", [])
    assert answer["result"]["status"] == "Failed"
    assert "MultiKueueCluster 'one'" in answer["result"]["message"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"kind": "ConversionReview"}', b"\xff"])
def test_what_is_no_review_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Review(body)


def test_what_both_versions_have_is_copied_and_not_read() -> None:
    template = b'{"b":1,"a":[1.50,{"x":"\\u00e9"}]}'
    spec = b'{"podSets":[%s],"priorityClassName":"p"}' % template
    given = b'{"kind":"Workload","apiVersion":"%s","spec":%s}' % (OLDER.encode(), spec)

    assert template in convert_json(given, NEWER)


@pytest.mark.parametrize("field", ["admissionChecks", "flavorFungibility"])
def test_a_field_that_is_absurdly_large_is_refused(field: str) -> None:
    spec = {field: ["x" * LARGEST_FIELD]}

    with pytest.raises(ConversionError, match="bytes"):
        convert_json(json.dumps(of("ClusterQueue", OLDER, spec=spec)).encode(), NEWER)


_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda part: (
        st.lists(part, max_size=2) | st.dictionaries(st.text(max_size=3), part, max_size=2)
    ),
    max_leaves=4,
)
_FIELDS = st.sampled_from(sorted(LOOKED_INTO | {"cohort", "cohortName", "flavors"}))
_PART = st.dictionaries(_FIELDS, _ANY_JSON, max_size=4) | _ANY_JSON


@given(
    st.sampled_from(["ClusterQueue", "LocalQueue", "Workload", "Cohort", "Other"]) | _ANY_JSON,
    st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), _PART),
    st.permutations([OLDER, NEWER]),
)
def test_whatever_an_object_holds_it_is_converted_or_refused(
    kind: Any, parts: Object, versions: list[str]
) -> None:
    given_, wanted = versions
    each = {"kind": kind, "apiVersion": given_, **parts}
    try:
        converted = json.loads(convert_json(json.dumps(each).encode(), wanted))
    except ConversionError:
        return
    assert converted["apiVersion"] == wanted
    assert converted.get("metadata") == each.get("metadata")
