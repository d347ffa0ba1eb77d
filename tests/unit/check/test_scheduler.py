"""kube-scheduler's configuration, field by field."""

from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gang_tools.check.findings import Finding, FindingLevel
from gang_tools.check.scheduler import VERBS, scheduler
from tests.documents import ROOT

OURS = (ROOT / "scheduler-config/kube-scheduler.yaml").read_text()
REMOTE_FILE = (ROOT / "scheduler-config/remote.yaml").read_text()
OPTIONAL = (ROOT / "manifests/optional/second-scheduler.yaml").read_text()
SHIPPED: dict[str, Any] = yaml.safe_load(OURS)
SECOND: dict[str, Any] = yaml.safe_load(
    next(
        each["data"]["kube-scheduler.yaml"]
        for each in yaml.safe_load_all(OPTIONAL)
        if each["kind"] == "ConfigMap"
    )
)
TLS = {
    "caFile": "/ca.crt",
    "certFile": "/tls.crt",
    "keyFile": "/tls.key",
    "serverName": "extender.example.com",
}
REMOTE = {"urlPrefix": "https://10.0.0.5:8888", "enableHTTPS": True, "tlsConfig": TLS}
ONLY = [{"name": "example.com/plan", "ignoredByScheduler": True}]
Fields = dict[str, Any] | None
COSCHEDULING = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
FAILURE, WARNING = FindingLevel.FAILURE, FindingLevel.WARNING


def judged(document: object, longest: float = 900.0) -> list[Finding]:
    return [*scheduler("kube-scheduler.yaml", document, longest)]


def wrong(document: object, longest: float = 900.0) -> list[tuple[FindingLevel, str]]:
    """Return what is not ok, as level and id, in order and each once."""
    found = [each for each in judged(document, longest) if each.level is not FindingLevel.OK]
    assert all(each.mend for each in found)
    return sorted({(each.level, each.id) for each in found})


def changed(plan: Fields = None, permit: Fields = None, **top: Any) -> Any:
    """Return the shipped file with other fields; None takes a field away."""
    document = deepcopy(SHIPPED) | top
    for entry, fields in zip(document["extenders"], (plan, permit), strict=True):
        entry.update(fields or {})
        for name in [name for name, value in entry.items() if value is None]:
            del entry[name]
    return document


@pytest.mark.parametrize(
    "document",
    [SHIPPED, SECOND, yaml.safe_load(REMOTE_FILE)],
    ids=["shipped", "second scheduler", "over the network"],
)
def test_the_files_that_are_shipped_are_right(document: dict[str, Any]) -> None:
    assert wrong(document) == []


FAULTS: dict[str, tuple[object, list[tuple[FindingLevel, str]]]] = {
    "nothing": (None, [(FAILURE, "scheduler.file")]),
    "another kind": (SHIPPED | {"kind": "Pod"}, [(FAILURE, "scheduler.file")]),
    "a list for a text": (changed({"urlPrefix": ["a"]}), [(FAILURE, "scheduler.file")]),
    "no entries": (SHIPPED | {"extenders": []}, [(FAILURE, "scheduler.entries")]),
    "the plan alone": (
        SHIPPED | {"extenders": SHIPPED["extenders"][:1]},
        [(FAILURE, "scheduler.entries"), (WARNING, "scheduler.together")],
    ),
    "no preemptVerb": (changed({"preemptVerb": None}), [(WARNING, "scheduler.entries")]),
    "a verb at another path": (
        changed({"filterVerb": "predicates"}),
        [(FAILURE, "scheduler.verbs")],
    ),
    "two that bind": (
        changed({"bindVerb": "bind"}),
        [
            (FAILURE, "scheduler.entries"),
            (FAILURE, "scheduler.timeouts"),
            (WARNING, "scheduler.entries"),
        ],
    ),
    "one entry for all": (
        SHIPPED
        | {"extenders": [SHIPPED["extenders"][0] | {"bindVerb": "bind", "httpTimeout": "910s"}]},
        [(WARNING, "scheduler.entries")],
    ),
    "no weight": (changed({"weight": None}), [(FAILURE, "scheduler.weight")]),
    "ignorable plan": (changed({"ignorable": True}), [(WARNING, "scheduler.ignorable")]),
    "ignorable permit": (
        changed(None, {"ignorable": True}),
        [(FAILURE, "scheduler.ignorable")],
    ),
    "whole nodes": (changed({"nodeCacheCapable": None}), [(FAILURE, "scheduler.names")]),
    "misspelt": (changed({"enableHttps": True}), [(FAILURE, "scheduler.fields")]),
    "unknown at the top": (changed(extender=[]), [(FAILURE, "scheduler.fields")]),
    "no time-out": (changed(None, {"httpTimeout": None}), [(FAILURE, "scheduler.timeouts")]),
    "a second too short": (
        changed(None, {"httpTimeout": "909s"}),
        [(FAILURE, "scheduler.timeouts")],
    ),
    "without a unit": (
        changed(None, {"httpTimeout": "910"}),
        [(FAILURE, "scheduler.timeouts")],
    ),
    "a number": (changed(None, {"httpTimeout": 910}), [(FAILURE, "scheduler.timeouts")]),
    "minutes": (changed(None, {"httpTimeout": "15m10s"}), []),
    "a plan that may hang": (
        changed({"httpTimeout": "910s"}),
        [(WARNING, "scheduler.timeouts")],
    ),
    "all nodes": (changed(percentageOfNodesToScore=100), [(WARNING, "scheduler.sampling")]),
    "all nodes of a profile": (
        changed(profiles=[{"percentageOfNodesToScore": 100}]),
        [(WARNING, "scheduler.sampling")],
    ),
    "another machine in plain text": (
        changed({"urlPrefix": "http://10.0.0.5:1"}, {"urlPrefix": "http://10.0.0.5:1"}),
        [(FAILURE, "scheduler.tls")],
    ),
    "TLS": (changed(REMOTE, REMOTE), []),
    "TLS without an authority": (
        changed(REMOTE, REMOTE | {"tlsConfig": TLS | {"caFile": ""}}),
        [(FAILURE, "scheduler.tls")],
    ),
    "TLS without verification": (
        changed(REMOTE, REMOTE | {"tlsConfig": TLS | {"insecure": True}}),
        [(FAILURE, "scheduler.tls")],
    ),
    "TLS without a client certificate": (
        changed(REMOTE | {"tlsConfig": {"caData": "aaaa"}}, REMOTE),
        [(FAILURE, "scheduler.tls")],
    ),
    "one entry with managedResources": (
        changed({"managedResources": ONLY}),
        [(FAILURE, "scheduler.managed"), (WARNING, "scheduler.together")],
    ),
    "the same ones in both": (
        changed({"managedResources": ONLY}, {"managedResources": ONLY}),
        [(FAILURE, "scheduler.managed"), (WARNING, "scheduler.together")],
    ),
    "some pods only": (
        changed(
            {"managedResources": ONLY},
            {"managedResources": [{"name": "example.com/permit", "ignoredByScheduler": True}]},
        ),
        [(WARNING, "scheduler.managed"), (WARNING, "scheduler.together")],
    ),
    "the coscheduling plugin": (
        changed(profiles=[{"plugins": COSCHEDULING}]),
        [(FAILURE, "scheduler.plugins"), (WARNING, "scheduler.together")],
    ),
    "gangs of kube-scheduler's own": (
        changed(profiles=[{"plugins": {"permit": {"enabled": [{"name": "GangScheduling"}]}}}]),
        [(WARNING, "scheduler.plugins")],
    ),
}


@pytest.mark.parametrize(("document", "want"), FAULTS.values(), ids=FAULTS)
def test_a_fault_has_its_id(document: object, want: list[tuple[FindingLevel, str]]) -> None:
    assert wrong(document) == want


def test_the_time_out_is_compared_with_the_longest_wait_of_the_settings() -> None:
    assert wrong(SHIPPED, longest=1800.0) == [(FAILURE, "scheduler.timeouts")]
    assert wrong(changed(None, {"httpTimeout": "70s"}), longest=60.0) == []


def test_a_misspelt_field_is_named_as_it_is_spelt() -> None:
    [finding] = [each for each in judged(changed({"enableHttps": True})) if each.mend]
    assert "extenders[0].enableHttps" in finding.found
    assert finding.mend == "it is spelt enableHTTPS"


def test_the_file_for_the_network_differs_by_the_address_and_tls_alone() -> None:
    there = yaml.safe_load(REMOTE_FILE)
    for entry, local in zip(there["extenders"], SHIPPED["extenders"], strict=True):
        del entry["tlsConfig"], entry["enableHTTPS"]
        entry["urlPrefix"] = local["urlPrefix"]
    assert there == SHIPPED


ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ODD |= st.sampled_from(["http://[", "https://a", "1s", "910s", "bind", "filter", "x" * 5000])
VALUE = st.recursive(
    ODD,
    lambda each: (
        st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=4), each, max_size=2)
    ),
    max_leaves=4,
)


def some(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return mappings of some of the names, and of others, to anything."""
    return st.dictionaries(st.sampled_from(names) | st.text(max_size=4), VALUE, max_size=6)


FIELDS = ("urlPrefix", "weight", "httpTimeout", "ignorable", "tlsConfig", "managedResources")
ENTRY = st.builds(
    lambda said, tls: said | {"tlsConfig": tls},
    some(*FIELDS, "enableHTTPS", "nodeCacheCapable", *(f"{verb}Verb" for verb in VERBS)),
    some("caFile", "certFile", "insecure") | VALUE,
)
PROFILE = some("schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore")
DOCUMENT = st.builds(
    lambda top, entries, profiles: (
        top
        | {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": entries,
            "profiles": profiles,
        }
    ),
    some("percentageOfNodesToScore"),
    st.lists(ENTRY, max_size=2) | VALUE,
    st.lists(PROFILE, max_size=2) | VALUE,
)


@given(DOCUMENT | VALUE)
def test_an_odd_file_is_judged(document: object) -> None:
    assert judged(document)
