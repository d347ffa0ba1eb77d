"""Our CRDs: whether they are there, in the version that we write, with the fields that we write."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender.api.crds import Definition, crd
from extender.api.definitions import DEFINITIONS
from extender.api.wellknown import GROUP_SIGS, POD_GROUP_GROUPS
from extender.check.facts import ClusterFacts, CrdFacts, Object, Unknown
from extender.check.findings import Finding, failure, ok, warning

APPLY: Final = "kubectl apply -f manifests/crds"
_SHOWN: Final = 4
"""Missing fields that are named."""


def needed(*, queue: bool) -> list[Definition]:
    """Return the kinds that the processes need; those of the queue only where it is on."""
    return [each for each in DEFINITIONS if queue or each.group in POD_GROUP_GROUPS]


def crds(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield one finding for each CRD that is needed."""
    for definition in needed(queue=facts.queue):
        found = facts.crds.get(definition.name, Unknown("it was not looked at"))
        yield _crd(definition, found)


def _id(definition: Definition) -> str:
    """Return the id; both groups of PodGroups have the same plural."""
    return f"crds.{definition.plural}{'-sigs' * (definition.group == GROUP_SIGS)}"


def _crd(definition: Definition, found: CrdFacts | Unknown) -> Finding:
    name, title = _id(definition), definition.name
    if isinstance(found, Unknown):
        mend = "use a kubeconfig that may read CRDs"
        return warning(name, f"{title} cannot be looked at: {found.why}", mend)
    version = definition.versions[0].name
    if found.stored is None:
        return failure(name, f"there is no CRD {title}", APPLY)
    if version not in found.served:
        served = ", ".join(sorted(found.served)) or "nothing"
        return failure(name, f"{title} is served in {served}, and {version} is needed", APPLY)
    if isinstance(found.stored, Unknown):
        return ok(name, f"{title} {version} is served")
    return _definition(definition, found.stored)


def _definition(definition: Definition, stored: Object) -> Finding:
    name, title, version = _id(definition), definition.name, definition.versions[0].name
    versions = {each["name"]: each for each in stored["spec"]["versions"]}
    if not versions.get(version, {}).get("storage"):
        [other] = [each for each, said in versions.items() if said.get("storage")] or ["none"]
        return failure(name, f"{title} is stored as {other}, not as {version}", APPLY)
    absent = missing(_schema(crd(definition), version), _schema(stored, version))
    if absent:
        shown = ", ".join(absent[:_SHOWN]) + ", ..." * (len(absent) > _SHOWN)
        return failure(
            name,
            f"{title} is another CRD, or one of an older version: the API server drops {shown}",
            f"{APPLY}, or read docs/operations.md (Beside Kueue or scheduler-plugins) where "
            "another controller owns it",
        )
    return ok(name, f"{title} {version}")


def _schema(definition: Object, version: str) -> Mapping[str, Any]:
    versions = definition["spec"]["versions"]
    [found] = [each for each in versions if each["name"] == version]
    schema: Mapping[str, Any] = found.get("schema", {}).get("openAPIV3Schema", {})
    return schema


def missing(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the paths of fields that a schema has and another one drops."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return []
    absent = []
    there = theirs.get("properties", {})
    for name, schema in ours.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        if name in there:
            absent += missing(schema, there[name], where)
        else:
            absent.append(where)
    for inside in ("items", "additionalProperties"):
        mine, other = ours.get(inside), theirs.get(inside)
        if isinstance(mine, dict) and isinstance(other, dict):
            absent += missing(mine, other, f"{path}[]")
    return absent
