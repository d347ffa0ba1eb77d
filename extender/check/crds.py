"""Our CRDs: whether they are there, in the version that we write, with the fields that we write."""

from collections.abc import Iterator
from typing import Final

from extender.api.crds import Object, Schema, schema_of, stored_version
from extender.api.crds import crds as shipped_crds
from extender.api.wellknown import GROUP_SIGS, POD_GROUP_GROUPS
from extender.check.facts import ClusterFacts, CrdFacts, Unknown
from extender.check.findings import Finding, failure, ok, warning

APPLY: Final = "kubectl apply -f manifests/crds"
_SHOWN: Final = 4
"""Missing fields that are named."""


def needed(*, queue: bool) -> list[Object]:
    """Return the CRDs that the processes need, those of the queue only where it is on."""
    return [each for each in shipped_crds() if queue or each["spec"]["group"] in POD_GROUP_GROUPS]


def crds(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield one finding for each CRD that is needed."""
    for definition in needed(queue=facts.queue):
        found = facts.crds.get(definition["metadata"]["name"], Unknown("it was not looked at"))
        yield _crd(definition, found)


def _id(definition: Object) -> str:
    """Return the id; both groups of PodGroups have the same plural."""
    spec = definition["spec"]
    return f"crds.{spec['names']['plural']}{'-sigs' * (spec['group'] == GROUP_SIGS)}"


def _crd(definition: Object, found: CrdFacts | Unknown) -> Finding:
    name, title = _id(definition), definition["metadata"]["name"]
    if isinstance(found, Unknown):
        mend = "use a kubeconfig that may read CRDs"
        return warning(name, f"{title} cannot be looked at: {found.why}", mend)
    version = stored_version(definition)
    if found.stored is None:
        return failure(name, f"there is no CRD {title}", APPLY)
    if version not in found.served:
        served = ", ".join(sorted(found.served)) or "nothing"
        return failure(name, f"{title} is served in {served}, and {version} is needed", APPLY)
    if isinstance(found.stored, Unknown):
        return ok(name, f"{title} {version} is served")
    return _definition(definition, found.stored)


def _definition(definition: Object, stored: Object) -> Finding:
    name, title = _id(definition), definition["metadata"]["name"]
    version = stored_version(definition)
    versions = {each["name"]: each for each in stored["spec"]["versions"]}
    if not versions.get(version, {}).get("storage"):
        [other] = [each for each, said in versions.items() if said.get("storage")] or ["none"]
        return failure(name, f"{title} is stored as {other}, not as {version}", APPLY)
    absent = missing(schema_of(definition, version), schema_of(stored, version))
    if absent:
        shown = ", ".join(absent[:_SHOWN]) + ", ..." * (len(absent) > _SHOWN)
        return failure(
            name,
            f"{title} is another CRD, or one of an older version: the API server drops {shown}",
            f"{APPLY}, or read docs/operations.md (Beside Kueue or scheduler-plugins) where "
            "another controller owns it",
        )
    return ok(name, f"{title} {version}")


def missing(ours: Schema, theirs: Schema, path: str = "") -> list[str]:
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
