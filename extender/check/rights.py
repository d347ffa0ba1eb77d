"""The rights of both processes, and the policies that narrow them.

What is needed is what the shipped roles grant: there is no second list.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from extender.check.facts import ClusterFacts, IdentityFacts, NeededRight, RightsFacts, Unknown
from extender.check.findings import Finding, failure, ok, warning

Rename = Mapping[str, str]
"""Names that the settings change, by their name in the shipped files."""
POLICIES_SINCE: Final = (1, 30)
_ROLES: Final = frozenset(("ClusterRole", "Role"))
_BINDINGS: Final = frozenset(("ClusterRoleBinding", "RoleBinding"))


@dataclass(frozen=True, slots=True)
class Subject:
    """A user that a shipped binding gives the rights to."""

    user: str
    groups: tuple[str, ...] = ()


def subjects(manifests: Sequence[Mapping[str, Any]], namespace: str) -> list[Subject]:
    """Return the users of the shipped bindings, where everything lives in that namespace."""
    found = (
        _subject(each, namespace)
        for manifest in manifests
        if manifest["kind"] in _BINDINGS
        for each in manifest["subjects"]
    )
    return list(dict.fromkeys(found))


def _subject(said: Mapping[str, Any], namespace: str) -> Subject:
    if said["kind"] != "ServiceAccount":
        return Subject(said["name"], ("system:authenticated",))
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    user = f"system:serviceaccount:{namespace}:{said['name']}"
    return Subject(user, (*groups, "system:authenticated"))


def needed(manifests: Sequence[Mapping[str, Any]], rename: Rename) -> list[NeededRight]:
    """Return the rights that the shipped roles grant, each once."""
    granted = [right for each in manifests for right in _granted(each, rename)]
    # A rule with several groups grants each resource in each group, also where there is none.
    whole = {(each.group, each.resource) for each in granted if "/" not in each.resource}
    plurals = {resource for _, resource in whole}

    def exists(right: NeededRight) -> bool:
        plural, _, subresource = right.resource.partition("/")
        return not subresource or plural not in plurals or (right.group, plural) in whole

    return list(dict.fromkeys(filter(exists, granted)))


def _granted(manifest: Mapping[str, Any], rename: Rename) -> Iterator[NeededRight]:
    if manifest["kind"] not in _ROLES:
        return
    namespace = manifest["metadata"].get("namespace", "")
    where = rename.get(namespace, namespace)
    for rule in manifest["rules"]:
        names = rule.get("resourceNames", [""])
        for group, resource, verb, name in product(
            rule["apiGroups"], rule["resources"], rule["verbs"], names
        ):
            yield NeededRight(verb, group, resource, rename.get(name, name), where)


def rights(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield what each process may not do, or that it may do all."""
    for identity in facts.identities:
        yield from _of_identity(identity)


def _of_identity(identity: IdentityFacts) -> Iterator[Finding]:
    name = f"rights.{identity.name}"
    if isinstance(identity.users, Unknown):
        yield warning(
            name,
            f"the rights of the {identity.name} cannot be looked at: {identity.users.why}",
            "use a kubeconfig that may create SubjectAccessReviews, or the process's own",
        )
        return
    best = min(identity.users, key=lambda each: len(_lacking(each)))
    lacking = _lacking(best)
    if not lacking:
        yield ok(name, f"{best.user} has all {len(best.allowed)} rights")
        return
    mend = f"kubectl apply -f manifests/rbac/{identity.name}.yaml"
    if len(lacking) == len(best.allowed):
        users = " and ".join(each.user for each in identity.users)
        yield failure(name, f"{users}: none of the {len(lacking)} rights", mend)
        return
    for resource, verbs in _by_resource(lacking).items():
        found = f"{best.user} may not {', '.join(verbs)} {resource}"
        yield failure(f"{name}.{resource.partition(' ')[0]}", found, mend)


def _lacking(of: RightsFacts) -> list[NeededRight]:
    return [right for right, allowed in of.allowed.items() if not allowed]


def _by_resource(lacking: Sequence[NeededRight]) -> dict[str, list[str]]:
    """Return the verbs that are missing, by the resource as kubectl names it."""
    found: dict[str, list[str]] = {}
    for each in lacking:
        plural, _, subresource = each.resource.partition("/")
        title = ".".join(part for part in (plural, each.group) if part)
        title += f"/{subresource}" * bool(subresource)
        title += f" {each.name}" * bool(each.name)
        title += f" in {each.namespace}" * bool(each.namespace)
        found.setdefault(title, []).append(each.verb)
    return found


def policies(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield whether the policies are there that narrow these rights to single fields."""
    server, found = facts.server, facts.policies
    minor = None if isinstance(server, Unknown) else server.minor
    if minor is not None and minor < POLICIES_SINCE:
        return
    if isinstance(found, Unknown):
        why = f"the policies cannot be looked at: {found.why}"
        mend = "use a kubeconfig that may read ValidatingAdmissionPolicies"
        yield warning("policies.bound", why, mend)
        return
    absent = sorted(name for name, there in found.items() if not there)
    if absent:
        yield warning(
            "policies.bound",
            f"{', '.join(absent)}: not there, or without a binding; the right to patch pods is as "
            "strong as the right to replace their images then",
            "kubectl apply -f manifests/policies",
        )
    elif found:
        yield ok("policies.bound", f"all {len(found)} policies are there, and bound")
