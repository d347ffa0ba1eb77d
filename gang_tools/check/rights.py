"""The rights that the shipped roles grant, the users who have them, and what is missing."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from extender.kube.reviews import Access, User
from gang_tools.check.findings import Finding, failure, ok


def needed_rights(
    manifests: Sequence[Mapping[str, Any]], rename: Mapping[str, str]
) -> list[Access]:
    """Return the rights that the shipped roles grant, each once: there is no second list.

    `rename` has the names that the settings change, by their name in the shipped files.
    """
    granted: list[Access] = []
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace", "")
        where = rename.get(namespace, namespace)
        for rule in manifest["rules"] if manifest["kind"] in {"ClusterRole", "Role"} else ():
            for group, resource, verb, name in product(
                *(rule["apiGroups"], rule["resources"], rule["verbs"]),
                rule.get("resourceNames", [""]),
            ):
                granted.append(Access(group, resource, rename.get(name, name), where, verb=verb))
    # A rule with several groups grants each resource in each group, also where there is none.
    whole = {(each.group, each.resource) for each in granted if "/" not in each.resource}
    plurals = {resource for _, resource in whole}

    def exists(right: Access) -> bool:
        plural, _, subresource = right.resource.partition("/")
        return not subresource or plural not in plurals or (right.group, plural) in whole

    return list(dict.fromkeys(filter(exists, granted)))


def subjects(manifests: Sequence[Mapping[str, Any]], namespace: str) -> list[User]:
    """Return the users of the shipped bindings, where everything lives in that namespace."""
    found = []
    for manifest in manifests:
        for said in manifest.get("subjects", ()):
            name, groups = said["name"], ["system:authenticated"]
            if said["kind"] == "ServiceAccount":
                name = f"system:serviceaccount:{namespace}:{name}"
                of = "system:serviceaccounts"
                groups = [of, f"{of}:{namespace}", *groups]
            found.append(User(name, groups=tuple(groups)))
    return list(dict.fromkeys(found))


def rights(process: str, users: Mapping[str, Mapping[Access, bool]]) -> Iterator[Finding]:
    """Yield what a process may not do, as the user with the most rights of those it may be."""
    name = f"rights.{process}"
    absent = {
        user: [right for right, allowed in rights.items() if not allowed]
        for user, rights in users.items()
    }
    user = min(absent, key=lambda each: len(absent[each]))
    count, mend = len(users[user]), f"kubectl apply -f manifests/rbac/{process}.yaml"
    if not absent[user]:
        yield ok(name, f"{user} has all {count} rights")
    elif len(absent[user]) == count:
        yield failure(name, f"{' and '.join(users)}: none of the {count} rights", mend)
    else:
        verbs: dict[str, list[str]] = {}
        for right in absent[user]:
            plural, _, subresource = right.resource.partition("/")
            title = ".".join(part for part in (plural, right.group) if part)
            title += f"/{subresource}" * bool(subresource)
            title += f" {right.name}" * bool(right.name)
            title += f" in {right.namespace}" * bool(right.namespace)
            verbs.setdefault(title, []).append(right.verb)
        for title, missed in verbs.items():
            found = f"{user} may not {', '.join(missed)} {title}"
            yield failure(f"{name}.{title.partition(' ')[0]}", found, mend)
