"""Takes away what a test leaves behind, so that nothing of it has quota or room in the next one."""

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Final

import httpx

from tests.harness.client import Api, ApiError, Object

_JOBS: Final = (
    "batch/v1/jobs",
    "jobset.x-k8s.io/v1alpha2/jobsets",
    "kubeflow.org/v1/jaxjobs",
    "kubeflow.org/v1/paddlejobs",
    "kubeflow.org/v1/pytorchjobs",
    "kubeflow.org/v1/tfjobs",
    "kubeflow.org/v1/xgboostjobs",
    "kubeflow.org/v2beta1/mpijobs",
    "ray.io/v1/rayjobs",
    "ray.io/v1/rayservices",
    "ray.io/v1/rayclusters",
)
_GROUPS: Final = (
    "scheduling.x-k8s.io/v1alpha1/podgroups",
    "scheduling.sigs.k8s.io/v1alpha1/podgroups",
)
_PATIENCE: Final = 120.0
"""Seconds for each kind: a thousand pods take a slow machine long."""
_IN_ORDER: Final = (*_JOBS, "kueue.x-k8s.io/v1beta2/workloads", *_GROUPS, "pods")
"""Jobs first: their controllers would make the others anew."""


def sweep(api: Api, namespace: str) -> None:
    """Delete a namespace, and return when no job, workload, PodGroup or pod is left in it.

    The namespace controller waits for five seconds before it begins, and then for the last pod.
    """
    api.delete("namespaces", namespace)  # from here on nothing can be created in it

    def none_left(resource: str) -> bool:
        return gone(api, resource, left(api, resource, namespace))

    for resource in _IN_ORDER:
        what = f"no {resource} are left in {namespace}"
        api.wait_for(what, partial(none_left, resource), _PATIENCE)


def left(api: Api, resource: str, namespace: str | None = None) -> list[Object]:
    """Return the objects that are there; none of a kind that the API server does not know."""
    try:
        return api.list(resource, namespace)
    except ApiError as error:
        if error.status != httpx.codes.NOT_FOUND:
            raise
        return []


def gone(api: Api, resource: str, objects: Collection[Object]) -> bool:
    """Delete objects, whatever finalizers they have; return whether there were none."""
    for meta in (each["metadata"] for each in objects):
        name, namespace = meta["name"], meta["namespace"]
        api.delete(resource, name, namespace, grace_seconds=0)
        if meta.get("finalizers"):
            with suppress(ApiError):
                body = {"metadata": {"finalizers": None}}
                api.patch(resource, name, namespace, body=body)
    return not objects
