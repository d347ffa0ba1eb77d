"""What is read of kube-scheduler's own configuration."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.api.scheduler_config import SchedulerConfigError, ignored_resources
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
def test_what_a_configuration_ignores(document: dict[str, Any], want: IgnoredResources) -> None:
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
def test_what_is_no_configuration(document: Any, want: str) -> None:
    with pytest.raises(SchedulerConfigError, match=re.escape(want)):
        ignored_resources(document)
