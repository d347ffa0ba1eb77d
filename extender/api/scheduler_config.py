"""What is read of a KubeSchedulerConfiguration: the resources that kube-scheduler ignores.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
"""

from typing import Any, Final

import msgspec

from extender.resources.ignored import NO_NAMES, IgnoredResources, ResourceNames

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
FIT: Final = "NodeResourcesFit"
DEFAULT_SCHEDULER: Final = "default-scheduler"


class SchedulerConfigError(ValueError):
    """A document is no KubeSchedulerConfiguration; the text names the field."""


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """One object of the configuration; fields that are not read are let through."""


class _ManagedResource(_Wire, frozen=True):
    name: str
    ignored_by_scheduler: bool = False


class _Extender(_Wire, frozen=True):
    managed_resources: list[_ManagedResource] | None = None


class _PluginConfig(_Wire, frozen=True):
    name: str
    args: Any = None


class _FitArgs(_Wire, frozen=True):
    ignored_resources: list[str] | None = None
    ignored_resource_groups: list[str] | None = None


class _Profile(_Wire, frozen=True):
    scheduler_name: str | None = None
    plugin_config: list[_PluginConfig] | None = None


class _Configuration(_Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    extenders: list[_Extender] | None = None
    profiles: list[_Profile] | None = None


def ignored_resources(document: object) -> IgnoredResources:
    """Return what a kube-scheduler with this configuration ignores, by profile.

    Resources that an extender entry manages and has ignored replace `ignoredResources` of every
    profile, as kube-scheduler has it. Raises SchedulerConfigError.
    """
    try:
        found = msgspec.convert(document, _Configuration)
    except msgspec.ValidationError as error:
        raise SchedulerConfigError(str(error)) from error
    if (found.api_version, found.kind) != (API_VERSION, KIND):
        given = f"{found.api_version} {found.kind}"
        raise SchedulerConfigError(f"is {given.strip() or 'nothing'}, not {API_VERSION} {KIND}")
    managed = frozenset(
        resource.name
        for extender in found.extenders or ()
        for resource in extender.managed_resources or ()
        if resource.ignored_by_scheduler
    )
    by_scheduler = {
        profile.scheduler_name or DEFAULT_SCHEDULER: _of_profile(profile, managed)
        for profile in found.profiles or ()
    }
    return IgnoredResources(ResourceNames(managed), by_scheduler)


def _of_profile(profile: _Profile, managed: frozenset[str]) -> ResourceNames:
    for plugin in profile.plugin_config or ():
        if plugin.name == FIT:
            try:
                args = msgspec.convert(plugin.args or {}, _FitArgs)
            except msgspec.ValidationError as error:
                raise SchedulerConfigError(f"pluginConfig {FIT}: {error}") from error
            names = () if managed else args.ignored_resources or ()
            return ResourceNames(frozenset(names), frozenset(args.ignored_resource_groups or ()))
    return NO_NAMES
