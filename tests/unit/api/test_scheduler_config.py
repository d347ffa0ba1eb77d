"""What is read of kube-scheduler's own configuration."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.api.scheduler_config import (
    SchedulerConfigError,
    gangs_itself,
    ignored_resources,
    speaks_against_together,
)
from extender.resources.ignored import IGNORE_NOTHING, IgnoredResources, ResourceNames

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SHIPPED = Path(__file__).parents[3] / "scheduler-config" / "kube-scheduler.yaml"


def managed(*names: str, ignored: bool = True) -> dict[str, Any]:
    return {"managedResources": [{"name": n, "ignoredByScheduler": ignored} for n in names]}


def profile(name: str | None = None, **args: Any) -> dict[str, Any]:
    given = {"schedulerName": name} if name else {}
    return {**given, "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


def names(*those: str, groups: tuple[str, ...] = ()) -> ResourceNames:
    return ResourceNames(frozenset(those), frozenset(groups))


WANT: dict[str, tuple[dict[str, Any], IgnoredResources]] = {
    "nothing": ({}, IGNORE_NOTHING),
    "null everywhere": ({"extenders": None, "profiles": None}, IGNORE_NOTHING),
    "of both entries": (
        {"extenders": [managed("a/plan"), managed("a/permit"), {}]},
        IgnoredResources(names("a/plan", "a/permit")),
    ),
    "managed, and looked for all the same": (
        {"extenders": [managed("a/gpu", ignored=False)]},
        IGNORE_NOTHING,
    ),
    "by profile": (
        {
            "profiles": [
                profile(ignoredResources=["a/b"]),
                profile("other", ignoredResourceGroups=["c"]),
            ]
        },
        IgnoredResources(
            names(), {"default-scheduler": names("a/b"), "other": names(groups=("c",))}
        ),
    ),
    "those of extenders replace those of profiles, and not their groups": (
        {
            "extenders": [managed("a/plan")],
            "profiles": [profile(ignoredResources=["a/b"], ignoredResourceGroups=["c"])],
        },
        IgnoredResources(names("a/plan"), {"default-scheduler": names(groups=("c",))}),
    ),
}


@pytest.mark.parametrize(("document", "want"), WANT.values(), ids=WANT)
def test_a_configuration_says_which_resources_are_ignored(
    document: dict[str, Any], want: IgnoredResources
) -> None:
    assert ignored_resources({**HEAD, **document}) == want


def test_the_shipped_configuration_ignores_nothing() -> None:
    assert ignored_resources(yaml.safe_load(SHIPPED.read_text())) == IGNORE_NOTHING


WRONG: dict[str, tuple[Any, str]] = {
    "a list": ([], "Expected `object`, got `array`"),
    "nothing": ({}, "is nothing, not kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration"),
    "an older version": (
        {**HEAD, "apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
        "is kubescheduler.config.k8s.io/v1beta3 KubeSchedulerConfiguration, not",
    ),
    "a name that is none": (
        {**HEAD, "extenders": [{"managedResources": [{"name": 3}]}]},
        "Expected `str`, got `int` - at `$.extenders[0].managedResources[0].name`",
    ),
    "arguments that are none": (
        {**HEAD, "profiles": [profile(ignoredResources="a/b")]},
        "pluginConfig NodeResourcesFit: Expected `array | null`, got `str`",
    ),
}


@pytest.mark.parametrize(("document", "want"), WRONG.values(), ids=WRONG)
def test_what_is_no_configuration_is_an_error(document: Any, want: str) -> None:
    with pytest.raises(SchedulerConfigError, match=re.escape(want)):
        ignored_resources(document)


OURS: list[dict[str, Any]] = [
    {"urlPrefix": "http://127.0.0.1:8888", "filterVerb": "filter"},
    {"urlPrefix": "http://127.0.0.1:8888/", "bindVerb": "bind"},
]
OTHER = {"urlPrefix": "https://other", "filterVerb": "filter"}
SCORES = {"urlPrefix": "https://other", "prioritizeVerb": "prioritize"}


def spread(how: str) -> dict[str, Any]:
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": how}
    args = {"defaultConstraints": [constraint], "defaultingType": "List"}
    return {"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}


def enabled(point: str, name: str) -> dict[str, Any]:
    return {"plugins": {point: {"enabled": [{"name": name}], "disabled": [{"name": "*"}]}}}


DIFFERENT: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "filters after ours": ([*OURS, OTHER], [], "the extender https://other filters"),
    "ours is not there": ([OTHER], [], "no extender with a filterVerb"),
    "ours does not filter": ([OTHER, OURS[1]], [], "no extender with a filterVerb"),
    "a plugin of another": (OURS, [{}, enabled("filter", "Coscheduling")], "the plugin Cosch"),
    "configured": (OURS, [{"pluginConfig": [{"name": "Mine"}]}], "the plugin Mine"),
    "not all pods": ([{**OURS[0], **managed("a.com/b")}, OURS[1]], [], "http://127.0.0.1:8888 is"),
    "constraints": (OURS, [{}, spread("DoNotSchedule")], "PodTopologySpread has default"),
}


@pytest.mark.parametrize(("extenders", "profiles", "why"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_speaks_against_binding_equal_members_together_is_named(
    extenders: list[dict[str, Any]], profiles: list[dict[str, Any]], why: str
) -> None:
    found = speaks_against_together({**HEAD, "extenders": extenders, "profiles": profiles})
    assert found is not None
    assert found.startswith(why)


@pytest.mark.parametrize(
    ("extenders", "profiles"),
    [
        (OURS, None),
        ([*OURS, SCORES], [spread("ScheduleAnyway")]),
        (OURS, [enabled("multiPoint", "NodeResourcesFit"), enabled("score", "*")]),
    ],
)
def test_the_stock_kube_scheduler_judges_equal_pods_alike(
    extenders: list[dict[str, Any]], profiles: list[dict[str, Any]] | None
) -> None:
    config = {**HEAD, "extenders": extenders, "profiles": profiles}
    assert speaks_against_together(config) is None


def test_the_shipped_file_lets_equal_members_be_bound_together() -> None:
    assert speaks_against_together(yaml.safe_load(SHIPPED.read_text())) is None


def disabled(point: str, name: str) -> dict[str, Any]:
    return {"plugins": {point: {"disabled": [{"name": name}]}}}


@pytest.mark.parametrize(
    ("profiles", "want"),
    [
        (None, None),
        ([enabled("score", "*"), disabled("score", "*")], None),
        ([enabled("multiPoint", "GangScheduling")], True),
        ([disabled("multiPoint", "GangScheduling"), enabled("permit", "GangScheduling")], True),
        ([disabled("permit", "GangScheduling")], False),
        ([disabled("multiPoint", "*")], False),
        ([disabled("multiPoint", "*"), disabled("permit", "GangScheduling")], False),
        ([{"schedulerName": "default-scheduler"}, disabled("multiPoint", "*")], None),
        ([disabled("permit", "*"), enabled("score", "*")], None),
        ([disabled("permit", "*"), enabled("permit", "GangScheduling")], True),
    ],
)
def test_a_profile_may_say_who_schedules_native_gangs(
    profiles: list[dict[str, Any]] | None, want: bool | None
) -> None:
    assert gangs_itself({**HEAD, "profiles": profiles}) is want
