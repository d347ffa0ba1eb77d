"""The fields of a KubeSchedulerConfiguration that matter to the extender.

They say which resources kube-scheduler ignores, whether equal members can be bound together, and
whether it schedules native gangs itself.

Source: https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from extender.resources.ignored import NO_NAMES, IgnoredResources, ResourceNames

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
FIT: Final = "NodeResourcesFit"
SPREAD: Final = "PodTopologySpread"
KNOWN_PLUGINS: Final = frozenset(
    (
        "DefaultBinder",
        "DefaultPreemption",
        "DynamicResources",
        "GangScheduling",
        "ImageLocality",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeDeclaredFeatures",
        "NodeName",
        "NodePorts",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "NodeVolumeLimits",
        "PodGroupPodsCount",
        "PodTopologySpread",
        "PrioritySort",
        "SchedulingGates",
        "TaintToleration",
        "TopologyPlacementGenerator",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    )
)
"""The plugins of the stock kube-scheduler, 1.36."""
GANG_SCHEDULING: Final = "GangScheduling"
_OF_GANGS: Final = ("multiPoint", "permit")
"""The extension points at which that plugin is enabled or disabled."""
DEFAULT_SCHEDULER: Final = "default-scheduler"


class SchedulerConfigError(ValueError):
    """A document is not a KubeSchedulerConfiguration. The text names the field."""


class _ConfigurationWire(msgspec.Struct, frozen=True, rename="camel"):
    """One object of the configuration. Other fields are ignored."""


class _ManagedResource(_ConfigurationWire, frozen=True):
    name: str
    ignored_by_scheduler: bool = False


class _Extender(_ConfigurationWire, frozen=True):
    url_prefix: str = ""
    filter_verb: str = ""
    bind_verb: str = ""
    managed_resources: list[_ManagedResource] | None = None


class _PluginConfig(_ConfigurationWire, frozen=True):
    name: str
    args: Any = None


class _FitArgs(_ConfigurationWire, frozen=True):
    ignored_resources: list[str] | None = None
    ignored_resource_groups: list[str] | None = None


_Args = TypeVar("_Args", bound=_ConfigurationWire)


class _Constraint(_ConfigurationWire, frozen=True):
    when_unsatisfiable: str = ""


class _SpreadArgs(_ConfigurationWire, frozen=True):
    default_constraints: list[_Constraint] | None = None


class _Plugin(_ConfigurationWire, frozen=True):
    name: str


class _PluginSet(_ConfigurationWire, frozen=True):
    enabled: list[_Plugin] | None = None
    disabled: list[_Plugin] | None = None


class _Profile(_ConfigurationWire, frozen=True):
    scheduler_name: str | None = None
    plugins: dict[str, _PluginSet] | None = None
    """The plugins, by extension point."""
    plugin_config: list[_PluginConfig] | None = None


class _SchedulerConfiguration(_ConfigurationWire, frozen=True):
    api_version: str = ""
    kind: str = ""
    extenders: list[_Extender] | None = None
    profiles: list[_Profile] | None = None


def ignored_resources(document: object) -> IgnoredResources:
    """Return the resources that a kube-scheduler with this configuration ignores, by profile.

    As in kube-scheduler, the managed resources of extenders that have them ignored replace
    `ignoredResources` of every profile. Raises SchedulerConfigError.
    """
    found = _read(document)
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
            args = _args(plugin, _FitArgs)
            names = () if managed else args.ignored_resources or ()
            return ResourceNames(frozenset(names), frozenset(args.ignored_resource_groups or ()))
    return NO_NAMES


def speaks_against_together(document: object) -> str | None:
    """Return why equal members cannot be bound together with this kube-scheduler, or None.

    A plugin that the stock kube-scheduler does not have, default constraints that must hold, or
    another extender that filters nodes may treat equal members differently. And if
    `managedResources` keep pods from this extender, it does not know what they take.
    Raises SchedulerConfigError.
    """
    found = _read(document)
    for profile in found.profiles or ():
        points = (profile.plugins or {}).values()
        plugins = [each.name for point in points for each in point.enabled or ()]
        plugins += [each.name for each in profile.plugin_config or ()]
        for name in plugins:
            if name not in KNOWN_PLUGINS and name != "*":
                return f"the plugin {name} is not one of the stock kube-scheduler"
        for plugin in profile.plugin_config or ():
            args = _args(plugin, _SpreadArgs) if plugin.name == SPREAD else _SpreadArgs()
            said = {each.when_unsatisfiable for each in args.default_constraints or ()}
            if "DoNotSchedule" in said:
                return f"{SPREAD} has defaultConstraints that say DoNotSchedule"
    return _of_extenders(found.extenders or ())


def gangs_itself(document: object) -> bool | None:
    """Return whether this kube-scheduler schedules native gangs. None: its profiles do not say.

    The file does not have the feature gates. If a profile enables the plugin, the gates are on:
    kube-scheduler would not start without them. If every profile disables it, it schedules none.
    Raises SchedulerConfigError.
    """
    profiles = _read(document).profiles or ()
    all_disable = bool(profiles)
    for profile in profiles:
        sets = [point for name, point in (profile.plugins or {}).items() if name in _OF_GANGS]
        if any(each.name == GANG_SCHEDULING for point in sets for each in point.enabled or ()):
            return True
        disabled = {each.name for point in sets for each in point.disabled or ()}
        all_disable = all_disable and not disabled.isdisjoint(("*", GANG_SCHEDULING))
    return False if all_disable else None


def _of_extenders(extenders: Sequence[_Extender]) -> str | None:
    """Return why the extenders rule it out, or None. Ours is the service that binds."""
    ours = {_address(each) for each in extenders if each.bind_verb}
    for each in extenders:
        if _address(each) in ours and each.managed_resources:
            return f"{each.url_prefix} is asked only about pods that request its managedResources"
    filters = [each for each in extenders if each.filter_verb]
    if all(_address(each) not in ours for each in filters):
        return "no extender with a filterVerb has the urlPrefix of a bindVerb"
    for each in filters:
        if _address(each) not in ours:  # it may answer differently for the next equal pod
            return f"the extender {each.url_prefix} filters nodes too"
    return None


def _address(extender: _Extender) -> str:
    return extender.url_prefix.rstrip("/")


def _args(plugin: _PluginConfig, kind: type[_Args]) -> _Args:
    try:
        return msgspec.convert(plugin.args or {}, kind)
    except msgspec.ValidationError as error:
        raise SchedulerConfigError(f"pluginConfig {plugin.name}: {error}") from error


def _read(document: object) -> _SchedulerConfiguration:
    try:
        found = msgspec.convert(document, _SchedulerConfiguration)
    except msgspec.ValidationError as error:
        raise SchedulerConfigError(str(error)) from error
    if (found.api_version, found.kind) != (API_VERSION, KIND):
        given = f"{found.api_version} {found.kind}"
        raise SchedulerConfigError(f"is {given.strip() or 'nothing'}, not {API_VERSION} {KIND}")
    return found
