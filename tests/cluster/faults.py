"""Real failures of the API server when it is asked to bind one pod."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.harness.client import Api, ApiError
from tests.harness.objects import Object

_ADMISSION = "admissionregistration.k8s.io/v1"
_PROBE = "probe"  # no such pod: admission is asked before anybody looks for it
_BINDINGS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods/binding"],
}


def bind(api: Api, namespace: str, pod: str, node: str, *, dry_run: bool = False) -> None:
    """Put a pod on a node, as any other scheduler might."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/binding"
    api.request("POST", path, body=binding, params={"dryRun": "All"} if dry_run else None)


@contextmanager
def refused(api: Api, namespace: str, pod: str, reason: str) -> Iterator[None]:
    """Have Bindings of pods refused by a policy: Invalid is a 422, Forbidden a 403.

    The names of these pods begin with `pod`.
    """
    name = f"{namespace}-{pod}"
    policy = {
        "matchConstraints": {"resourceRules": [_BINDINGS], "namespaceSelector": _only(namespace)},
        "validations": [
            {
                "expression": f"!request.name.startsWith('{pod}') && request.name != '{_PROBE}'",
                "reason": reason,
                "message": "not now",
            }
        ],
    }
    use = {"policyName": name, "validationActions": ["Deny"]}
    with _created(
        api,
        _object("ValidatingAdmissionPolicy", name, spec=policy),
        _object("ValidatingAdmissionPolicyBinding", name, spec=use),
    ):
        _await_active(api, namespace)
        yield


def _await_active(api: Api, namespace: str) -> None:
    def active() -> bool:
        try:
            bind(api, namespace, _PROBE, "nowhere", dry_run=True)
        except ApiError as error:
            return error.status != 404
        return False

    api.wait_for("admission knows of it", active)


@contextmanager
def _created(api: Api, *objects: Object) -> Iterator[None]:
    api.create(*objects)
    try:
        yield
    finally:
        for each in objects:
            plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
                each["kind"], f"{each['kind'].lower()}s"
            )
            api.delete(f"{_ADMISSION}/{plural}", each["metadata"]["name"])


def _object(kind: str, name: str, **fields: Object | Sequence[Object]) -> Object:
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}, **fields}


def _only(namespace: str) -> Object:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
