"""Makers of Kubernetes objects: what a test does not say has a plain default."""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

POD_GROUP_V1ALPHA1 = "scheduling.x-k8s.io/v1alpha1"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
RUN_FOR = "harness/run-for"  # how long KWOK lets a pod run, e.g. "2s"
EXIT_CODE = "harness/exit-code"  # how it ends then

_IMAGE = "example.invalid/nothing"  # never pulled: the kubelets are simulated


def node(
    name: str,
    cpu: str | int = "4",
    memory: str = "16Gi",
    *,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    extended: Mapping[str, str | int] | None = None,
) -> Object:
    """Return a node whose capacity is all allocatable; `extended` are resources like GPUs."""
    resources = {"cpu": cpu, "memory": memory, "pods": pods, **(extended or {})}
    capacity = {resource: str(amount) for resource, amount in resources.items()}
    spec: Object = {}
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }


def pod(
    name: str,
    cpu: str | int = "100m",
    memory: str = "64Mi",
    *,
    namespace: str = "default",
    group: str | None = None,
    label: str = POD_GROUP_LABEL,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    run_for: str | None = None,
    priority: int | None = None,
    priority_class: str | None = None,
    gates: Sequence[str] = (),
    node_name: str | None = None,
    scheduler_name: str | None = None,
    extended: Mapping[str, str | int] | None = None,
    **spec: Any,
) -> Object:
    """Return a pod of one container; `group` is put under `label`, `spec` is taken as it is."""
    metadata: Object = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **_pod_template(
            cpu,
            memory,
            metadata=metadata,
            labels={**({label: group} if group else {}), **(labels or {})},
            annotations={**({RUN_FOR: run_for} if run_for else {}), **(annotations or {})},
            extended=extended,
            spec=_present(
                priority=priority,
                priorityClassName=priority_class,
                schedulingGates=[{"name": gate} for gate in gates],
                nodeName=node_name,
                schedulerName=scheduler_name,
                **spec,
            ),
        ),
    }


def deployment(
    name: str,
    replicas: int = 1,
    *,
    namespace: str = "default",
    cpu: str | int = "100m",
    memory: str = "64Mi",
    group: str | None = None,
    label: str = POD_GROUP_LABEL,
    labels: Mapping[str, str] | None = None,
    pod_spec: Mapping[str, Any] | None = None,
) -> Object:
    """Return a Deployment; `group` and `labels` are those of its pods."""
    selector = {"app": name}
    pod_labels = {**selector, **({label: group} if group else {}), **(labels or {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector},
            "template": _pod_template(cpu, memory, labels=pod_labels, spec=pod_spec),
        },
    }


def job(
    name: str,
    parallelism: int = 1,
    completions: int | None = None,
    *,
    namespace: str = "default",
    cpu: str | int = "100m",
    memory: str = "64Mi",
    indexed: bool = False,
    suspend: bool = False,
    queue: str | None = None,
    group: str | None = None,
    label: str = POD_GROUP_LABEL,
    labels: Mapping[str, str] | None = None,
    run_for: str | None = None,
    annotations: Mapping[str, str] | None = None,
    pod_spec: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """Return a Job; `labels` are its own, `group` and `annotations` those of its pods.

    Without `completions` it has as many as it has parallel pods.
    """
    job_labels = {**({"kueue.x-k8s.io/queue-name": queue} if queue else {}), **(labels or {})}
    template = _pod_template(
        cpu,
        memory,
        labels={label: group} if group else {},
        annotations={**({RUN_FOR: run_for} if run_for else {}), **(annotations or {})},
        spec={"restartPolicy": "Never", **(pod_spec or {})},
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _present(name=name, namespace=namespace, labels=job_labels),
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism if completions is None else completions,
            "template": template,
            **_present(completionMode="Indexed" if indexed else None, suspend=suspend or None),
            **spec,
        },
    }


def pod_group(
    name: str,
    min_member: int,
    *,
    namespace: str = "default",
    timeout: int | None = None,
    api_version: str = POD_GROUP_V1ALPHA1,
    min_resources: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """Return a PodGroup; `timeout` is scheduleTimeoutSeconds."""
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": _present(name=name, namespace=namespace, annotations=annotations),
        "spec": {
            "minMember": min_member,
            **_present(scheduleTimeoutSeconds=timeout, minResources=min_resources),
        },
    }


def owner(found: Object, **more: Any) -> Object:
    """Return the reference by which a stored object is the controller of another."""
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    same = {key: found[key] for key in ("apiVersion", "kind")}
    return {**same, "name": name, "uid": uid, "controller": True, **more}


def binding(name: str, role: str, *subjects: Object, namespace: str | None = None) -> Object:
    """Return what gives a ClusterRole to subjects, of which a name alone is a user's."""
    of = {"apiGroup": "rbac.authorization.k8s.io"}
    return {
        "apiVersion": f"{of['apiGroup']}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": _present(name=name, namespace=namespace),
        "roleRef": {**of, "kind": "ClusterRole", "name": role},
        "subjects": [
            each if "kind" in each else {**of, "kind": "User", **each} for each in subjects
        ],
    }


def condition(kind: str, status: str = "True", reason: str = "Said", message: str = "") -> Object:
    """Return a condition of any object."""
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": "2026-11-21T08:54:00Z"}


def _pod_template(
    cpu: str | int,
    memory: str,
    *,
    metadata: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    extended: Mapping[str, str | int] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    requests = {"cpu": str(cpu), "memory": memory}
    whole = {resource: str(amount) for resource, amount in (extended or {}).items()}
    resources = _present(requests={**requests, **whole}, limits=whole)  # extended: both or none
    return {
        "metadata": {**(metadata or {}), **_present(labels=labels, annotations=annotations)},
        "spec": {
            "containers": [{"name": "main", "image": _IMAGE, "resources": resources}],
            **(spec or {}),
        },
    }


def _present(**fields: Any) -> Object:
    return {name: value for name, value in fields.items() if value not in (None, {}, [], ())}
