"""What the reconciler's identity needs and may do for a kind that an administrator adds.

The shipped roles and admission policies name the kinds that are built in. For another kind these
are made from what its class says of itself: where its objects are, and which fields a start or a
stop changes. Paths name fields with dots; `*` stands for each value of a map, and `[]` behind a
name for each item of a list: `spec.replicaSpecs.*.template`, `spec.groups[].template`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender.jobs.registry import Integration, IntegrationError

Object = dict[str, Any]
Pair = tuple[str, str]
"""CEL for a value as it is to be stored, and as it is stored."""
Tree = dict[str, "Tree"]
"""Fields that may change, by name; one that is empty may become anything."""

_ANYTHING: Final[Tree] = {}
_EACH, _ITEMS = "*", "[]"
_POLICIES: Final = "admissionregistration.k8s.io/v1"
_RBAC: Final = "rbac.authorization.k8s.io"
_BOOKKEEPING: Final[Tree] = dict.fromkeys(
    ("managedFields", "resourceVersion", "generation"), _ANYTHING
)
"""What the API server keeps itself."""
_DIRECTIVES: Final[Tree] = {
    "metadata": {"labels": _ANYTHING, "annotations": _ANYTHING},
    "spec": {"nodeSelector": _ANYTHING, "tolerations": _ANYTHING, "schedulingGates": _ANYTHING},
}
"""What may change of a pod template (KEP-2926)."""


@dataclass(frozen=True, slots=True)
class Account:
    """The service account of the reconciler."""

    namespace: str = "gang-extender-system"
    name: str = "gang-reconciler"

    @property
    def user(self) -> str:
        """Its name in the API server."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def manifests(of: Integration, account: Account) -> list[Object]:
    """Return a role, a policy and their bindings for a kind.

    IntegrationError where the kind does not say what a start changes.
    """
    if not of.templates:
        raise IntegrationError(
            f"{of.name} does not say where its pod templates are: give its class template_paths, "
            "such as ('spec.template',)"
        )
    return [*_rights(of, account), *_policy(of, account)]


# -- rights


def _rights(of: Integration, account: Account) -> Iterator[Object]:
    name, version = f"gang-reconciler-{of.plural}.{of.group}", f"{_RBAC}/v1"
    rules = [
        _rule(of, "", "get", "list", "watch", "patch"),
        # Where the admission plugin OwnerReferencesPermissionEnforcement is on.
        _rule(of, "/finalizers", "update"),
        *([_rule(of, "/status", "patch")] if "status" in _tree(of) else ()),
    ]
    yield {"apiVersion": version, "kind": "ClusterRole", **_meta(name), "rules": rules}
    yield {
        "apiVersion": version,
        "kind": "ClusterRoleBinding",
        **_meta(name),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
        ],
    }


def _rule(of: Integration, subresource: str, *verbs: str) -> Object:
    resource = f"{of.plural}{subresource}"
    return {"apiGroups": [of.group], "resources": [resource], "verbs": list(verbs)}


def _meta(name: str) -> Object:
    labels = {"name": "gang-extender", "component": "reconciler"}
    said = {f"app.kubernetes.io/{key}": value for key, value in labels.items()}
    return {"metadata": {"name": name, "labels": said}}


# -- the policy


def _policy(of: Integration, account: Account) -> Iterator[Object]:
    name = f"gang-reconciler-{of.plural}.{of.group}"
    spec = {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [of.group],
                    "apiVersions": ["*"],
                    "operations": ["*"],
                    "resources": [of.plural, f"{of.plural}/*"],
                }
            ]
        },
        "matchConditions": [
            {
                "name": "is-the-reconciler",
                "expression": f"request.userInfo.username == {_text(account.user)}",
            }
        ],
        "failurePolicy": "Fail",
        "variables": list(_variables()),
        "validations": list(_validations(of)),
    }
    yield {
        "apiVersion": _POLICIES,
        "kind": "ValidatingAdmissionPolicy",
        **_meta(name),
        "spec": spec,
    }
    yield {
        "apiVersion": _POLICIES,
        "kind": "ValidatingAdmissionPolicyBinding",
        **_meta(name),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }


def _variables() -> Iterator[Object]:
    part = "request.?subResource.orValue('')"
    yield _named("job", f"request.operation == 'UPDATE' && {part} == ''")
    yield _named("status", f"request.operation == 'UPDATE' && {part} == 'status'")
    for what in ("labels", "annotations"):
        for prefix, where in (("", "object"), ("old", "oldObject")):
            name = f"{prefix}{what.capitalize()}" if prefix else what
            found = f"{where} == null ? {{}} : {where}.metadata.?{what}.orValue({{}})"
            yield _named(name, found)


def _named(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}


def _validations(of: Integration) -> Iterator[Object]:
    tree, kind = _tree(of), of.kind
    says_status = "status" in tree
    verbs = "variables.job || variables.status" if says_status else "variables.job"
    yield _refusal(verbs, f"the reconciler only updates a {kind}: this verb is not its own")
    metadata = {**_BOOKKEEPING, "labels": _ANYTHING, "annotations": _ANYTHING}
    yield _refusal(
        _where("job", _part("metadata", metadata)),
        f"metadata: of the metadata of a {kind} the reconciler only changes labels and annotations",
    )
    keys = " && ".join(_our_keys(what) for what in ("labels", "annotations"))
    yield _refusal(
        _where("job", keys),
        "metadata.labels, metadata.annotations: the reconciler only changes those of "
        "kueue.x-k8s.io and scheduling.x-k8s.io",
    )
    fields = ", ".join((*of.changes, *of.templates))
    spec = tree.get("spec", {})
    yield _refusal(
        _where("job", _part("spec", spec) if spec else "object.?spec == oldObject.?spec"),
        f"spec: of a {kind} the reconciler only changes {fields}, and of pod templates labels, "
        "annotations, nodeSelector, tolerations and schedulingGates",
    )
    if says_status:
        rule = " && ".join((_part("metadata", _BOOKKEEPING), _part("status", tree["status"])))
        yield _refusal(
            _where("status", rule), f"status: of a {kind} the reconciler only changes {fields}"
        )


def _refusal(expression: str, message: str) -> Object:
    return {"expression": expression, "message": message, "reason": "Forbidden"}


def _where(what: str, expression: str) -> str:
    return f"!variables.{what} || ({expression})"


def _our_keys(what: str) -> str:
    new, old = f"variables.{what}", f"variables.old{what.capitalize()}"
    ours = "key.startsWith('kueue.x-k8s.io/') || key.startsWith('scheduling.x-k8s.io/')"
    return (
        f"{new}.all(key, {ours} || (key in {old} && {new}[key] == {old}[key])) && "
        f"{old}.all(key, {ours} || key in {new})"
    )


def _part(name: str, tree: Tree) -> str:
    return _same((f"object.?{name}.orValue({{}})", f"oldObject.?{name}.orValue({{}})"), tree)


def _same(pair: Pair, tree: Tree, depth: int = 0) -> str:
    """Return CEL that holds where two values differ in nothing but the fields of a tree."""
    if not tree:
        return "true"
    if _EACH in tree:
        return _same_values(pair, tree[_EACH], depth)
    if _ITEMS in tree:
        return _same_items(pair, tree[_ITEMS], depth)
    return " && ".join((_same_others(pair, tree, depth), *_parts(pair, tree, depth)))


def _same_values(pair: Pair, tree: Tree, depth: int) -> str:
    (new, old), key = pair, f"k{depth}"
    inside = _same((f"{new}[{key}]", f"{old}[{key}]"), tree, depth + 1)
    return f"{new}.all({key}, {key} in {old} && {inside}) && {old}.all({key}, {key} in {new})"


def _same_items(pair: Pair, tree: Tree, depth: int) -> str:
    (new, old), (one, other) = pair, _names(depth)
    inside = _same((one, other), tree, depth + 1)
    return (
        f"{new}.size() == {old}.size() && {new}.all({one}, {old}.exists({other}, {inside})) && "
        f"{old}.all({other}, {new}.exists({one}, {inside}))"
    )


def _same_others(pair: Pair, tree: Tree, depth: int) -> str:
    (new, old), key = pair, f"k{depth}"
    names = ", ".join(map(_text, tree))
    return (
        f"{new}.all({key}, {key} in [{names}] || "
        f"({key} in {old} && {new}[{key}] == {old}[{key}])) && "
        f"{old}.all({key}, {key} in [{names}] || {key} in {new})"
    )


def _parts(pair: Pair, tree: Tree, depth: int) -> Iterator[str]:
    """Yield what holds for the fields of which only parts may change."""
    one, other = _names(depth)
    for name, inside in tree.items():
        if inside:
            # Without dyn the checker takes what is in an empty literal for a list.
            none = "dyn([])" if _ITEMS in inside else "dyn({})"
            new, old = (f"[{where}[?{_text(name)}].orValue({none})]" for where in pair)
            same = _same((one, other), inside, depth + 1)
            yield f"{new}.all({one}, {old}.all({other}, {same}))"


def _names(depth: int) -> Pair:
    return f"n{depth}", f"o{depth}"


def _text(text: str) -> str:
    return f"'{text}'"


# -- paths


def _tree(of: Integration) -> Tree:
    found: Tree = {}
    for path in of.changes:
        _add(found, path, _ANYTHING)
    for path in of.templates:
        _add(found, path, _DIRECTIVES)
    unknown = sorted(found.keys() - {"spec", "status"})
    if unknown:
        raise IntegrationError(f"{of.name}: {unknown[0]!r} is no field of spec or status")
    return found


def _add(tree: Tree, path: str, leaf: Mapping[str, Tree]) -> None:
    *steps, last = _steps(path)
    for step in steps:
        tree = tree.setdefault(step, {})
    tree[last] = dict(leaf)


def _steps(path: str) -> Sequence[str]:
    steps: list[str] = []
    for part in path.split("."):
        name = part.removesuffix(_ITEMS)
        if name != _EACH and not name.replace("-", "").isalnum():
            raise IntegrationError(f"{path!r} is no path of fields: use one like 'spec.template'")
        steps += [name, _ITEMS] if part.endswith(_ITEMS) else [name]
    return steps
