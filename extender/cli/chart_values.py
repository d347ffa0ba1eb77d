"""The values of the Helm chart: one model, of which `values.yaml` and its schema are made."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from extender.config import Settings
from extender.config.sections import Section

Schema = dict[str, Any]

_DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h)?)+$"
_TIMES: Final = ("timeout", "recoveryTimeout")
"""Times without a unit in their names, which are Kueue's."""

Labels = dict[str, str]
Amounts = dict[str, str | int | float]


class ChartResources(Section):
    """Requests and limits of a container."""

    requests: Amounts = Field(default_factory=dict)
    limits: Amounts = Field(default_factory=dict)


class ChartSecret(Section):
    """A Secret of the release's namespace."""

    name: str = Field(min_length=1)


class ChartToleration(Section):
    """A toleration of pods, as in a pod's `spec.tolerations`."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: int | None = None  # noqa: N815 - not a setting: no duration is read here


class ChartImage(Section):
    """The image of gang-extender, from your registry: there is no public one."""

    repository: str = Field(default="gang-extender", min_length=1)
    """name with the registry, such as registry.example.com/gang-extender"""
    tag: str = ""
    """empty: the chart's appVersion"""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """when the kubelet pulls; that of kube-scheduler's image too"""
    pull_secrets: list[ChartSecret] = Field(default_factory=list)
    """such as [{name: registry}], Secrets of the release's namespace"""


class ChartReconciler(Section):
    """The Deployment gang-reconciler."""

    replicas: int = Field(default=2, ge=0)
    """one leads, the others wait"""
    node_selector: Labels = Field(default_factory=dict)
    tolerations: list[ChartToleration] = Field(default_factory=list)
    resources: ChartResources = ChartResources(
        requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "1Gi"}
    )


class ChartKubeScheduler(Section):
    """The stock kube-scheduler in the pods of gang-scheduler."""

    repository: str = Field(default="registry.k8s.io/kube-scheduler", min_length=1)
    """name it at a mirror where nodes cannot pull from there"""
    version: str = Field(default="", pattern=r"^(v[0-9]+\.[0-9]+\.[0-9]+.*)?$")
    """tag of the image, such as v1.36.3; empty: the version of the cluster. It must not be newer
    than the API server. `helm template` knows no cluster: give it --kube-version"""
    configuration: str = ""
    """its whole KubeSchedulerConfiguration, in place of ours"""
    resources: ChartResources = ChartResources(requests={"cpu": "100m", "memory": "128Mi"})


class ChartScheduler(Section):
    """The Deployment gang-scheduler, which the mode beside has."""

    replicas: int = Field(default=2, ge=0)
    """one leads, the others wait"""
    node_selector: Labels = Field(default_factory=dict)
    tolerations: list[ChartToleration] = Field(default_factory=list)
    resources: ChartResources = ChartResources(
        requests={"cpu": "200m", "memory": "256Mi"}, limits={"memory": "1Gi"}
    )
    """those of the extender; a CPU limit would throttle the scheduler beside it"""
    kube_scheduler: ChartKubeScheduler = ChartKubeScheduler()


class ChartCrds(Section):
    """CustomResourceDefinitions: of PodGroups, and of the queue."""

    install: bool = True
    """false where something else installs them: manifests/crds"""
    keep: bool = True
    """whether they, and every object of theirs, stay when the release is uninstalled"""


class ChartOptional(Section):
    """Optional policies, as in manifests/optional."""

    gang_gate_policy: bool = False
    """gates members until their group is complete; needs Kubernetes 1.36 and the extender"""
    second_scheduler_policy: bool = False
    """sends pods of groups and of admitted jobs to gang-scheduler; needs Kubernetes 1.36 and the
    mode beside"""
    queue_policies: bool = False
    """holds jobs of a queue from their creation; needs Kubernetes 1.36"""
    webhooks: bool = False
    """the same by webhooks, for older clusters; not both"""


class ChartNamespace(Section):
    """The Namespace object."""

    create: bool = False
    """whether it is among the objects; for `helm template`. `helm install --create-namespace`
    makes a namespace before the objects, and does not take another one"""


class ChartAccount(Section):
    """A service account."""

    name: str = ""
    namespace: str = ""


class ChartServiceMonitor(Section):
    """A Service and a ServiceMonitor for the Prometheus operator, which scrapes the reconciler."""

    enabled: bool = False
    labels: Labels = Field(default_factory=dict)
    """labels by which Prometheus chooses it"""
    account: ChartAccount = ChartAccount()
    """Prometheus' service account, which gets the ClusterRole gang-metrics-reader"""


class ChartMetrics(Section):
    """What scrapes metrics."""

    service_monitor: ChartServiceMonitor = ChartServiceMonitor()


class ChartValues(Section):
    """Values of the chart."""

    mode: Literal["beside", "controlPlane", "queueOnly"] = "beside"
    """where gangs are scheduled. beside: by a second kube-scheduler with the extender beside it,
    on any cluster. controlPlane: by the cluster's own, which you configure; the extender is a
    static pod (manifests/static-pod). queueOnly: nowhere, jobs are admitted by quota alone"""
    beside_kueue: bool = False
    """whether Kueue queues the jobs: no queue, and none of Kueue's CRDs"""
    image: ChartImage = ChartImage()
    """the image of gang-extender, from your registry: there is no public one"""
    settings: Settings = Settings()
    """settings of both processes, as in docs/configuration.md; pods start again when they change"""
    reconciler: ChartReconciler = ChartReconciler()
    """the Deployment gang-reconciler"""
    scheduler: ChartScheduler = ChartScheduler()
    """the Deployment gang-scheduler, which the mode beside has"""
    crds: ChartCrds = ChartCrds()
    """the CustomResourceDefinitions of PodGroups and of the queue"""
    policies: bool = True
    """ValidatingAdmissionPolicies, which confine both identities to the fields that they write;
    false before Kubernetes 1.30"""
    optional: ChartOptional = ChartOptional()
    """policies that change how pods and jobs of others are admitted"""
    namespace: ChartNamespace = ChartNamespace()
    """the Namespace object"""
    metrics: ChartMetrics = ChartMetrics()
    """what scrapes metrics"""


def values_yaml() -> str:
    """Return all values with their defaults, each below what it means."""
    return "".join(_lines(ChartValues(), ""))


def _lines(model: BaseModel, indent: str) -> Iterator[str]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        key = field.alias or name
        if not indent:
            yield "\n"
        if field.description:
            text = " ".join(field.description.split())
            first = text if text.startswith("false ") else text[0].upper() + text[1:]
            for line in textwrap.wrap(f"{first.rstrip('.')}.", 96 - len(indent)):
                yield f"{indent}# {line}\n"
        if isinstance(value, BaseModel) and not isinstance(value, Settings | ChartResources):
            yield f"{indent}{key}:\n"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{key}: {_flow(value)}\n"


def _flow(value: object) -> str:
    """Return a value on one line; of settings and amounts, what is set."""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_defaults=True, by_alias=True)
    if isinstance(value, dict) and value:
        inner = ", ".join(f"{key}: {_flow(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    return value if isinstance(value, str) and value else json.dumps(value)


def values_schema() -> str:
    """Return the JSON schema of the values."""
    schema = _tidy(ChartValues.model_json_schema())
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Generated by gang-extender render chart. Do not edit.",
    }
    return json.dumps({**head, **schema}, indent=1) + "\n"


def _tidy(schema: Schema) -> Schema:
    """Return a schema as Helm reads values: also durations, and `Off` without quotes."""
    named = ("properties", "$defs")  # by what the user calls it
    left_out = ("title", "default", *named)
    kept: Schema = {key: _tidied(value) for key, value in schema.items() if key not in left_out}
    for part in named:
        if part in schema:
            found = schema[part].items()
            kept[part] = {
                name: _timed(_tidy(each)) if _is_time(name) else _tidy(each) for name, each in found
            }
    if "Off" in kept.get("enum", ()):
        del kept["type"]
        kept["enum"] = [*kept["enum"], False]
    if "description" in kept:
        kept["description"] = " ".join(kept["description"].split())
    return kept


def _tidied(value: object) -> object:
    if isinstance(value, dict):
        return _tidy(value)
    return [_tidied(each) for each in value] if isinstance(value, list) else value


def _is_time(name: str) -> bool:
    return name != "tolerationSeconds" and (name.endswith("Seconds") or name in _TIMES)


def _timed(field: Schema) -> Schema:
    """Return the schema of a number of seconds, or a duration."""
    said = {"description": field.pop("description")} if "description" in field else {}
    options = field.pop("anyOf", None) or [field]
    return {**said, "anyOf": [*options, {"type": "string", "pattern": _DURATION}]}
