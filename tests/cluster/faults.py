"""Real failures of the API server when it is asked to bind one pod."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.harness.client import Api, ApiError
from tests.harness.objects import Object
from tests.harness.process import free_port

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


@contextmanager
def unavailable(api: Api, namespace: str, pod: str) -> Iterator[None]:
    """Have Bindings of a pod fail with a 500: the webhook that must be asked is not there."""
    with _webhooks(api, namespace, _webhook(namespace, pod, free_port())):
        yield


@contextmanager
def hanging(
    api: Api, namespace: str, pod: str, *, user: str, seconds: int, policy: str
) -> Iterator[socket.socket]:
    """Have Bindings of a pod by a user wait for a webhook that never answers.

    After so many seconds they fail (policy Fail) or go on (Ignore). Yields the webhook's listener:
    what it accepts is such a Binding.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(120)
        port = listener.getsockname()[1]
        webhook = _webhook(namespace, pod, port, user=user, seconds=seconds, policy=policy)
        with _webhooks(api, namespace, webhook):
            yield listener


@contextmanager
def _webhooks(api: Api, namespace: str, webhook: Object) -> Iterator[None]:
    # One that fails at once beside it shows when both have become active.
    probe = _webhook(namespace, _PROBE, free_port())
    config = _object("ValidatingWebhookConfiguration", namespace, webhooks=[probe, webhook])
    with _created(api, config):
        _await_active(api, namespace)
        yield


def _webhook(
    namespace: str, pod: str, port: int, *, user: str = "", seconds: int = 5, policy: str = "Fail"
) -> Object:
    expression = f"request.name == '{pod}'"
    if user:
        expression += f" && request.userInfo.username == '{user}'"
    return {
        "name": f"{pod}.example.com",
        "rules": [_BINDINGS],
        "namespaceSelector": _only(namespace),
        "matchConditions": [{"name": "one-pod", "expression": expression}],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "failurePolicy": policy,
        "timeoutSeconds": seconds,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


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
