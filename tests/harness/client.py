"""A small synchronous Kubernetes client for tests, on plain dictionaries.

A resource is addressed as the API server does: `pods`, `batch/v1/jobs`,
`scheduling.x-k8s.io/v1alpha1/podgroups`. What is created or applied says for itself what it is.
"""

import builtins
import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

import httpx
from typing_extensions import override

from tests.harness import kubeconfig as kubeconfigs
from tests.harness.manifests import documents

Object = dict[str, Any]
PatchType = Literal["merge", "strategic", "json"]
T = TypeVar("T")

FIELD_MANAGER = "gang-extender-tests"
_POLL_SECONDS, _MOST_POLL_SECONDS, _POLL_GROWTH = 0.03, 0.12, 1.15
PATIENCE_SECONDS: Final = 120.0
"""How long is waited for what must come, on a machine that has much else to do."""
_TIMEOUT_SECONDS: Final = 60.0
_COLLECTION_TIMEOUT_SECONDS: Final = 150.0
"""A thousand pods are deleted one after the other before there is an answer."""
_PATCH = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_STORAGE_IS_PREPARED: Final = "storage is (re)initializing"
_CRDS: Final = "apiextensions.k8s.io/v1/customresourcedefinitions"
_crds: Final[dict[str, tuple[int, str]]] = {}
"""What was applied last of CRDs, by UID: the generation that came of it, and the object."""


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        try:
            answer = response.json()
        except ValueError:
            answer = {"message": response.text}
        self.reason: str = answer.get("reason", "")
        request = response.request
        super().__init__(
            f"{request.method} {request.url.path}: {self.status} {answer.get('message')}"
        )


class Patient(httpx.BaseTransport):
    """Calls again while the API server prepares the storage of a kind whose CRD has just changed.

    It carries out nothing by then, and asks to be called again; other answers with 429 are the
    caller's.
    """

    def __init__(self, transport: httpx.BaseTransport) -> None:
        """Call through another transport."""
        self._transport = transport

    @override
    def close(self) -> None:
        self._transport.close()

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            response = self._transport.handle_request(request)
            if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
                return response
            response.read()
            if _STORAGE_IS_PREPARED not in response.text or time.monotonic() > deadline:
                return response
            time.sleep(_POLL_SECONDS)


class Api:
    """The API server, seen with the rights of one kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        config = kubeconfigs.read(kubeconfig)
        context = ssl.create_default_context(cafile=config.ca)
        if config.certificate:
            context.load_cert_chain(config.certificate.certificate, config.certificate.key)
        headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}
        self._http = httpx.Client(
            base_url=config.server,
            transport=Patient(httpx.HTTPTransport(verify=context, trust_env=False)),
            headers=headers,
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
        )
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float = _TIMEOUT_SECONDS,
    ) -> httpx.Response:
        """Return the answer to any request; ApiError when it is not a success."""
        response = self._http.request(
            method,
            path,
            content=None if body is None else json.dumps(body),
            params=params,
            headers={"Content-Type": content_type},
            timeout=timeout,
        )
        if not response.is_success:
            raise ApiError(response)
        return response

    def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        """Return one object."""
        return self._send("GET", path_of(resource, namespace, name))

    def find(self, resource: str, name: str, namespace: str | None = None) -> Object | None:
        """Return one object, or None when there is none of that name."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            return None

    def list(
        self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> builtins.list[Object]:
        """Return the objects of a namespace, or of all, that match the selectors."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        params = {name: text for name, text in selectors.items() if text}
        found = self._send("GET", path_of(resource, namespace), params=params)
        items: builtins.list[Object] = found["items"]
        return items

    def notes(self, namespace: str, reason: str, **about: str) -> builtins.list[str]:
        """Return what Events of a namespace say for a reason, about objects such as `name=...`."""
        found = self.list("events.k8s.io/v1/events", namespace, fields=f"reason={reason}")
        return [e.get("note", "") for e in found if about.items() <= e["regarding"].items()]

    def table(self, resource: str, namespace: str | None = None) -> builtins.list[tuple[str, ...]]:
        """Return what `kubectl get` shows of the objects, the head first."""
        response = self._http.get(
            path_of(resource, namespace),
            headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
        )
        if not response.is_success:
            raise ApiError(response)
        table = response.json()
        shown = [not column["priority"] for column in table["columnDefinitions"]]
        heads = [column["name"].upper() for column in table["columnDefinitions"]]
        rows = [heads, *(row["cells"] for row in table["rows"])]
        return [
            tuple("" if cell is None else str(cell) for cell in compress(row, shown))
            for row in rows
        ]

    def watch(
        self, resource: str, namespace: str | None, version: str, *, seconds: int
    ) -> Iterator[Object]:
        """Yield what happens after a version, as the API server sends it, for so many seconds.

        Raises httpx.TransportError when the connection breaks.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        with self._http.stream("GET", path_of(resource, namespace), params=params) as response:
            if not response.is_success:
                response.read()
                raise ApiError(response)
            for line in response.iter_lines():
                yield json.loads(line)

    def versions(self, resource: str, last: Object, since: int = 0) -> Iterator[Object]:
        """Yield the versions of an object that are newer than `since`, the newest first.

        The API server reads old versions from etcd. ApiError (410) from the first one on that has
        been compacted.
        """
        path = path_of(resource, last["metadata"]["namespace"])
        found = [last]
        while found and version_of(found[0]) > since:
            yield found[0]
            before = {
                "resourceVersion": str(version_of(found[0]) - 1),
                "resourceVersionMatch": "Exact",
                "fieldSelector": f"metadata.name={last['metadata']['name']}",
            }
            found = self.request("GET", path, params=before).json()["items"]

    def create(self, *objects: Object) -> Object:
        """Create the objects in order and return the last one as it was stored."""
        created: Object = {}
        for each in objects:
            created = self._send("POST", self._path_of(each), body=each)
        return created

    def token(self, namespace: str, account: str, **spec: Any) -> str:
        """Return a token of a service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token: str = self._send("POST", path, body=body)["status"]["token"]
        return token

    def tried(self, each: Object, *, apply: bool = False) -> Object:
        """Return an object as it would be stored, which it is not, if all its fields are known.

        ApiError where it is refused. With `apply` it may be there already.
        """
        params = {"dryRun": "All", "fieldValidation": "Strict"}
        path = self._path_of(each)
        if not apply:
            return self._send("POST", path, body=each, params=params)
        params |= {"fieldManager": "strict", "force": "true"}
        path = f"{path}/{each['metadata']['name']}"
        return self._send("PATCH", path, body=each, params=params, content="apply")

    def apply(self, source: Path | Object | Iterable[Object]) -> builtins.list[Object]:
        """Apply (server side, by force) objects, a YAML file or the YAML files of a folder.

        A CRD is usable when this returns. One whose spec is as this process applied it is left as
        it is: the API server would take a tenth of a second to find that out.
        """
        applied = []
        for each in _objects(source):
            if each["kind"] == "CustomResourceDefinition":
                applied.append(self._crd_as_applied(each) or self._apply_crd(each))
            else:
                applied.append(self._apply(each))
        return applied

    def _apply(self, each: Object) -> Object:
        path = f"{self._path_of(each)}/{each['metadata']['name']}"
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._send("PATCH", path, body=each, params=params, content="apply")

    def _apply_crd(self, each: Object) -> Object:
        applied = self._apply(each)
        self._await_crd(each["metadata"]["name"])
        _crds[applied["metadata"]["uid"]] = applied["metadata"]["generation"], json.dumps(each)
        return applied

    def _crd_as_applied(self, each: Object) -> Object | None:
        """Return a CRD whose spec is as it was applied; None where it is not."""
        found = self.find(_CRDS, each["metadata"]["name"])
        if found is None:
            return None
        known = _crds.get(found["metadata"]["uid"])
        return found if known == (found["metadata"]["generation"], json.dumps(each)) else None

    def patch(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        body: object,
        how: PatchType = "merge",
        subresource: str = "",
    ) -> Object:
        """Patch one object, or a subresource such as `status`, and return the result."""
        path = path_of(resource, namespace, name, subresource)
        return self._send("PATCH", path, body=body, content=how)

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete one object; nothing happens when it is not there."""
        try:
            self._send(
                "DELETE",
                path_of(resource, namespace, name),
                body=_delete_options(grace_seconds, propagation),
            )
        except ApiError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise

    def delete_all(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete the matching objects of a namespace, or of a cluster-scoped resource."""
        self.request(
            "DELETE",
            path_of(resource, namespace),
            body=_delete_options(grace_seconds, propagation),
            params={"labelSelector": labels} if labels else None,
            timeout=_COLLECTION_TIMEOUT_SECONDS,
        )

    def wait_for(
        self, what: str, predicate: Callable[[], T | None], timeout: float = PATIENCE_SECONDS
    ) -> T:
        """Return the first truthy value of `predicate`, asked less and less often.

        Raises AssertionError that says `what` did not happen and what was seen last. An API
        server that is down or overloaded counts as "not yet".
        """
        deadline = time.monotonic() + timeout
        pause = pauses()
        while True:
            seen: object
            try:
                value = predicate()
            except (httpx.TransportError, ApiError) as error:
                if isinstance(error, ApiError) and not _passing(error):
                    raise
                seen = error
            else:
                if value:
                    return value
                seen = value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:g} s: {what}; last seen: {seen!r}")
            time.sleep(next(pause))

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content: str = "",
    ) -> Object:
        content_type = _PATCH.get(content, "application/json")
        response = self.request(method, path, body=body, params=params, content_type=content_type)
        answer: Object = response.json()
        return answer

    def _path_of(self, each: Object) -> str:
        api_version, kind = each["apiVersion"], each["kind"]
        plural, namespaced = self.wait_for(
            f"{kind} is among the kinds of {api_version}", lambda: self._kind(api_version, kind)
        )
        namespace = each["metadata"].get("namespace", "default") if namespaced else None
        return path_of(f"{api_version}/{plural}", namespace)

    def _kind(self, api_version: str, kind: str) -> tuple[str, bool] | None:
        """Return the plural name and whether it is namespaced; None if it is not known yet.

        A CRD is served a moment before it is among the kinds.
        """
        if (api_version, kind) not in self._kinds:
            try:
                self._discover(api_version)
            except ApiError as error:
                if error.status != httpx.codes.NOT_FOUND:
                    raise
        return self._kinds.get((api_version, kind))

    def _discover(self, api_version: str) -> None:
        root = "api" if api_version == "v1" else "apis"
        for resource in self._send("GET", f"/{root}/{api_version}")["resources"]:
            if "/" not in resource["name"]:  # subresources have the kind of what they change
                key = api_version, resource["kind"]
                self._kinds[key] = resource["name"], resource["namespaced"]

    def _await_crd(self, name: str) -> None:
        def served() -> bool:
            crd = self.get(_CRDS, name)
            if not condition(crd, "Established"):
                return False
            group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
            # Established is said a moment before it is served, and all versions are served at once;
            # to list another one than that which is stored may need a webhook.
            [version] = [each["name"] for each in crd["spec"]["versions"] if each["storage"]]
            try:
                self.list(f"{group}/{version}/{plural}")
            except ApiError as error:
                if error.status == httpx.codes.NOT_FOUND:
                    return False
                raise
            return True

        self.wait_for(f"{name} is served", served)


def pauses() -> Iterator[float]:
    """Yield the seconds between two looks, without end: a look costs the CPU that others need.

    What takes longer is looked at less often.
    """
    pause = _POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * _POLL_GROWTH, _MOST_POLL_SECONDS)


def version_of(found: Object) -> int:
    """Return the version of an object, which says what was stored before what."""
    return int(found["metadata"]["resourceVersion"])


def condition(each: Object | None, kind: str) -> bool:
    """Return whether the condition of that type is True."""
    conditions = ((each or {}).get("status") or {}).get("conditions") or []
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def _passing(error: ApiError) -> bool:
    return error.status >= 500 or error.status == httpx.codes.TOO_MANY_REQUESTS


def path_of(resource: str, namespace: str | None, name: str = "", subresource: str = "") -> str:
    """Return the path of a collection, of one object, or of a part of it."""
    *group_version, plural = resource.split("/")
    api_version = "/".join(group_version) or "v1"
    root = f"/api/{api_version}" if api_version == "v1" else f"/apis/{api_version}"
    scope = f"/namespaces/{namespace}" if namespace else ""
    tail = "".join(f"/{part}" for part in (name, subresource) if part)
    return f"{root}{scope}/{plural}{tail}"


def _delete_options(grace_seconds: int | None, propagation: str) -> Object:
    options: Object = {"propagationPolicy": propagation}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


def _objects(source: Path | Object | Iterable[Object]) -> Iterable[Object]:
    if isinstance(source, dict):
        return [source]
    if not isinstance(source, Path):
        return source
    files = sorted(source.glob("*.yaml")) if source.is_dir() else [source]
    found = (each for file in files for each in documents(file))
    return [each for each in found if each.get("kind") != "Kustomization"]
