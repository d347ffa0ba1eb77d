"""Choices of an administrator, each as values of the chart and as an overlay of kustomize."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.documents import blocks
from tests.harness import helm, kustomize
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.manifests import documents, parsed
from tests.harness.objects import Object

ROOT: Final = Path(__file__).parents[2]
CRD: Final = "CustomResourceDefinition"
OTHER: Final = "elsewhere"
"""A namespace that is not the manifests' own."""


def is_namespace(each: Object) -> bool:
    """Return whether an object is the Namespace, which Helm makes otherwise."""
    return bool(each["kind"] == "Namespace")


@dataclass(frozen=True, slots=True)
class Choice:
    """The same choice in both ways."""

    values: Mapping[str, Any]
    resources: tuple[str, ...] = ("manifests",)
    """what the overlay is built on"""
    patches: tuple[Object, ...] = ()
    images: tuple[Object, ...] = ()
    more: tuple[Object, ...] = ()
    """objects that are applied with it"""
    without: Callable[[Object], bool] = field(default=is_namespace)
    kubernetes: str = helm.VERSION
    namespace: str = NAMESPACE

    def rendered(self) -> list[Object]:
        """Return what Helm renders."""
        return helm.template(self.values, namespace=self.namespace, kubernetes=self.kubernetes)

    def built(self, folder: Path) -> list[Object]:
        """Return what kustomize builds, in an empty folder of a checkout for it."""
        for name in ("manifests", "overlays"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("chart"))
        if self.namespace != NAMESPACE:
            for file in (folder / "manifests").rglob("*"):
                if file.is_file():
                    file.write_text(file.read_text().replace(NAMESPACE, self.namespace))
        overlay = {
            "resources": [f"../{name}" for name in self.resources],
            "patches": [*self.patches],
            "images": [*self.images],
        }
        (folder / "mine").mkdir()
        (folder / "mine" / kustomize.FILE).write_text(yaml.safe_dump(overlay))
        found = [*kustomize.build(folder / "mine"), *self.more]
        return [each for each in found if not self.without(each)]


def _target(name: str) -> Object:
    return {"kind": "Deployment", "name": name}


def _put(name: str, path: str, value: object) -> Object:
    """Return the patch that puts one value into a Deployment."""
    change = {"op": "add", "path": path, "value": value}
    return {"target": _target(name), "patch": yaml.safe_dump([change])}


def _reads_settings(name: str, container: int = 0) -> Object:
    """Return the patch of docs/tasks/admin/settings.md that gives a process its settings."""
    [patch] = [
        patch
        for block in blocks("yaml")
        for part in block.parts
        if "patches" in part
        for patch in part["patches"]
        if "settings.yaml" in patch["patch"]
    ]
    text = patch["patch"].replace("/containers/0/", f"/containers/{container}/")
    return {"target": _target(name), "patch": text}


def _values_with(setting: str) -> Object:
    """Return the values of the chart in the documents that have a setting of gangs."""
    [found] = [
        part
        for block in blocks("yaml")
        for part in block.parts
        if isinstance(part, dict) and setting in part.get("settings", {}).get("gang", {})
    ]
    return found


def _settings(settings: Object, namespace: str = NAMESPACE) -> Object:
    meta = {"name": "gang-extender", "namespace": namespace}
    labels = {"app.kubernetes.io/name": "gang-extender"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**meta, "labels": labels},
        "data": {"settings.yaml": yaml.safe_dump(settings)},
    }


def _optional(name: str) -> tuple[Object, ...]:
    return tuple(documents(ROOT / "manifests" / "optional" / name))


def _elsewhere(name: str) -> list[Object]:
    text = (ROOT / "manifests" / "optional" / name).read_text()
    return parsed(text.replace(NAMESPACE, OTHER))


_BESIDE: Final = ("manifests/second-scheduler",)
_CONTROL_PLANE: Final = {"mode": "controlPlane"}
_POD: Final = "/spec/template/spec"
_SECRETS: Final = [{"name": "registry"}]
_PROMETHEUS: Final = "http://prometheus-operated.monitoring.svc:9090"
_NODES: Final = {"example.com/pool": "system"}
_TOLERATIONS: Final = [{"key": "example.com/pool", "operator": "Exists", "tolerationSeconds": 60}]
_LARGER: Final = {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
_SETTINGS: Final = {
    "gang": {"agingSeconds": "5m", "preemption": "Off"},
    "queue": {"requireRoom": True},
    "listen": {"maxBodyBytes": 67_108_865},
}
_OTHERS: Final = {
    "key": "kubernetes.io/metadata.name",
    "operator": "NotIn",
    "values": ["kube-system", OTHER],
}
_ELSEWHERE: Final = {
    "reconcile": {"leaseNamespace": OTHER},
    "webhooks": {"namespace": OTHER},
    "queue": {"managedJobsNamespaceSelector": {"matchExpressions": [_OTHERS]}},
}
"""What docs/tasks/admin/settings.md says of settings for another namespace."""
_PROFILE: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

CHOICES: Final = {
    "beside the cluster's scheduler": Choice({}, _BESIDE),
    "in the control plane": Choice(_CONTROL_PLANE),
    "the queue alone": Choice(
        {"mode": "queueOnly"},
        patches=(_reads_settings("gang-reconciler"),),
        more=(_settings({"queue": {"podGroups": "Off"}}),),
    ),
    "beside Kueue": Choice({**_CONTROL_PLANE, "besideKueue": True}, ("overlays/beside-kueue",)),
    "beside Kueue and the cluster's scheduler": Choice(
        {"besideKueue": True}, ("overlays/beside-kueue", "manifests/second-scheduler/scheduler")
    ),
    "before 1.30": Choice(
        {**_CONTROL_PLANE, "policies": False}, ("overlays/before-1.30",), kubernetes="v1.29.4"
    ),
    "without CRDs": Choice(
        {**_CONTROL_PLANE, "crds": {"install": False}},
        without=lambda each: is_namespace(each) or each["kind"] == CRD,
    ),
    "CRDs that go": Choice({**_CONTROL_PLANE, "crds": {"keep": False}}),
    "with the namespace": Choice({"namespace": {"create": True}}, _BESIDE, without=lambda _: False),
    "gates": Choice(
        {"optional": {"gangGatePolicy": True}}, _BESIDE, more=_optional("gang-gate-policy.yaml")
    ),
    "a cluster that grows": Choice(
        _values_with("growing"), ("overlays/growing",), more=_optional("gang-gate-policy.yaml")
    ),
    "a cluster that grows before 1.36": Choice(
        {**_CONTROL_PLANE, "settings": {"gang": {"growing": True}}},
        patches=(_reads_settings("gang-reconciler"),),
        more=(_settings({"gang": {"growing": True}}),),
        kubernetes="v1.35.2",
    ),
    "pods are sent": Choice(
        {"optional": {"secondSchedulerPolicy": True}},
        _BESIDE,
        more=_optional("second-scheduler-policy.yaml"),
    ),
    "queue policies": Choice(
        {**_CONTROL_PLANE, "optional": {"queuePolicies": True}},
        more=(*_optional("queue-policies.yaml"), *_optional("job-rules.yaml")),
    ),
    "webhooks": Choice(
        {**_CONTROL_PLANE, "optional": {"webhooks": True}},
        more=(*_optional("webhooks.yaml"), *_optional("job-rules.yaml")),
    ),
    "the page": Choice(
        {
            "page": {
                "enabled": True,
                "image": {"repository": "example.com/page"},
                "prometheus": _PROMETHEUS,
            },
            "image": {"pullSecrets": _SECRETS},
        },
        (*_BESIDE, "manifests/page"),
        patches=(
            *(
                _put(name, f"{_POD}/imagePullSecrets", _SECRETS)
                for name in ("gang-reconciler", "gang-scheduler", "gang-page")
            ),
            _put("gang-page", f"{_POD}/containers/0/args/-", f"--prometheus={_PROMETHEUS}"),
        ),
        images=({"name": "gang-extender-page", "newName": "example.com/page", "newTag": "0.1.0"},),
    ),
    "the page with settings and a Service": Choice(
        {"page": {"enabled": True, "certificate": "gang-page"}, "settings": _SETTINGS},
        (*_BESIDE, "overlays/page-service"),
        patches=(
            _reads_settings("gang-reconciler"),
            _reads_settings("gang-scheduler", 1),
            _reads_settings("gang-page"),
        ),
        more=(_settings(_SETTINGS),),
    ),
    "images": Choice(
        {
            "image": {
                "repository": "registry.example.com/gang-extender",
                "tag": "0.2.0",
                "pullPolicy": "Always",
                "pullSecrets": _SECRETS,
            },
            "scheduler": {
                "kubeScheduler": {"repository": "mirror.example.com/ks", "version": "v1.35.2"}
            },
        },
        _BESIDE,
        patches=(
            _put("gang-reconciler", f"{_POD}/imagePullSecrets", _SECRETS),
            _put("gang-reconciler", f"{_POD}/containers/0/imagePullPolicy", "Always"),
            _put("gang-scheduler", f"{_POD}/imagePullSecrets", _SECRETS),
            _put("gang-scheduler", f"{_POD}/containers/0/imagePullPolicy", "Always"),
            _put("gang-scheduler", f"{_POD}/containers/1/imagePullPolicy", "Always"),
        ),
        images=(
            {
                "name": "gang-extender",
                "newName": "registry.example.com/gang-extender",
                "newTag": "0.2.0",
            },
            {
                "name": "registry.k8s.io/kube-scheduler",
                "newName": "mirror.example.com/ks",
                "newTag": "v1.35.2",
            },
        ),
    ),
    "the version of a managed cluster": Choice(
        {},
        _BESIDE,
        images=({"name": "registry.k8s.io/kube-scheduler", "newTag": "v1.34.5"},),
        kubernetes="v1.34.5-gke.1234000",
    ),
    "replicas and where they run": Choice(
        {
            part: {
                "replicas": 3,
                "nodeSelector": _NODES,
                "tolerations": _TOLERATIONS,
                "resources": _LARGER,
            }
            for part in ("reconciler", "scheduler")
        },
        _BESIDE,
        patches=(
            *(
                _put(name, path, value)
                for name in ("gang-reconciler", "gang-scheduler")
                for path, value in (
                    ("/spec/replicas", 3),
                    (f"{_POD}/nodeSelector", _NODES),
                    (f"{_POD}/tolerations", _TOLERATIONS),
                )
            ),
            _put("gang-reconciler", f"{_POD}/containers/0/resources", _LARGER),
            _put("gang-scheduler", f"{_POD}/containers/1/resources", _LARGER),
            {  # twice as many during a rollout, and some to spare
                "target": {"kind": "ResourceQuota", "name": "gang-extender-critical-pods"},
                "patch": "[{op: replace, path: /spec/hard/pods, value: '14'}]",
            },
        ),
    ),
    "settings": Choice(
        {"settings": _SETTINGS},
        _BESIDE,
        patches=(_reads_settings("gang-reconciler"), _reads_settings("gang-scheduler", 1)),
        more=(_settings(_SETTINGS),),
    ),
    "a configuration of kube-scheduler": Choice(
        {"scheduler": {"kubeScheduler": {"configuration": _PROFILE}}},
        _BESIDE,
        patches=(
            {
                "target": {"kind": "ConfigMap", "name": "gang-scheduler"},
                "patch": yaml.safe_dump(
                    [{"op": "replace", "path": "/data/kube-scheduler.yaml", "value": _PROFILE}]
                ),
            },
        ),
    ),
    "another namespace": Choice(
        {"optional": {"queuePolicies": True, "secondSchedulerPolicy": True}},
        _BESIDE,
        patches=(_reads_settings("gang-reconciler"), _reads_settings("gang-scheduler", 1)),
        more=(
            *_elsewhere("queue-policies.yaml"),
            *_elsewhere("job-rules.yaml"),
            *_elsewhere("second-scheduler-policy.yaml"),
            _settings(_ELSEWHERE, OTHER),
        ),
        namespace=OTHER,
    ),
}
