"""Policies narrow what the roles of our two identities let them write, and match nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.kustomize import build
from tests.harness.manifests import documents

ROOT = Path(__file__).parents[2]
NAMESPACE = "gang-extender-system"
OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
POLICIES = [
    each for each in build(ROOT / "manifests") if each["kind"] == "ValidatingAdmissionPolicy"
]
NOT_NARROWED = {
    "CREATE events.k8s.io/events": "an Event harms nobody",
    "CREATE /pods/eviction": "any pod may be evicted, and budgets are kept",
    "UPDATE resource.k8s.io/resourceclaims/binding": "a right that goes with the status",
    "CREATE kueue.x-k8s.io/workloads": "our own objects",
    "UPDATE kueue.x-k8s.io/workloads": "our own objects",
    "DELETE kueue.x-k8s.io/workloads": "our own objects",
    "UPDATE kueue.x-k8s.io/workloads/status": "our own objects",
    "UPDATE kueue.x-k8s.io/clusterqueues/status": "our own status",
    "UPDATE kueue.x-k8s.io/localqueues/status": "our own status",
    "UPDATE kueue.x-k8s.io/admissionchecks/status": "our own status",
    "CREATE authentication.k8s.io/tokenreviews": "stores nothing",
    "CREATE authorization.k8s.io/subjectaccessreviews": "stores nothing",
    "CREATE coordination.k8s.io/leases": "in our own namespace",
    "UPDATE coordination.k8s.io/leases": "in our own namespace, by name",
    "CREATE /secrets": "in our own namespace",
    "UPDATE /secrets": "in our own namespace, by name",
    "UPDATE /configmaps": "in our own namespace, by name",
}
"""What a role grants and no policy narrows, and why."""
KUBE_SCHEDULERS = {"CREATE /bindings"}
"""What only the role of kube-scheduler grants, to the account of both."""


GUARDED = {
    "CREATE batch/jobs": "a part of another job, as are the others",
    **{f"CREATE kubeflow.org/{each}jobs": "" for each in ("jax", "mpi", "paddle", "pytorch", "tf")},
    "CREATE kubeflow.org/xgboostjobs": "",
    "CREATE jobset.x-k8s.io/jobsets": "",
    "CREATE ray.io/rayclusters": "",
    "CREATE ray.io/rayjobs": "",
    "CREATE trainer.kubeflow.org/trainjobs": "",
    "CREATE sparkoperator.k8s.io/sparkapplications": "",
}
"""What others may not write, and why."""


def rules(*verbs: str) -> set[str]:
    """Return what the roles of our identities let them do with objects, by verb."""
    return {
        f"{verb} {group}/{resource}"
        for name in ("extender", "reconciler")
        for role in documents(ROOT / "manifests" / "rbac" / f"{name}.yaml")
        for rule in role.get("rules", ())
        for verb in rule["verbs"]
        if verb in verbs
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def granted() -> set[str]:
    """Return the writes that the roles let pass; of finalizers alone nothing is ever written."""
    found = (each.split() for each in rules(*OPERATIONS) if not each.endswith("/finalizers"))
    return {f"{OPERATIONS[verb]} {resource}" for verb, resource in found}


def matched(policy: Any) -> set[str]:
    """Return the writes of resources that there are which a policy matches."""
    there = {each.split()[1] for each in rules("list", *OPERATIONS)} | {"/bindings"}
    return {
        f"{operation} {group}/{resource}"
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for operation in rule["operations"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if f"{group}/{resource}" in there
    }


def test_policies_match_what_the_roles_let_us_write_and_nothing_else() -> None:
    found = set().union(*map(matched, POLICIES))

    assert NOT_NARROWED.keys() <= granted()
    assert not KUBE_SCHEDULERS & granted()
    assert found == granted() - NOT_NARROWED.keys() | KUBE_SCHEDULERS | GUARDED.keys()


def test_no_write_matches_two_policies() -> None:
    assert sum(len(matched(each)) for each in POLICIES) == len(set().union(*map(matched, POLICIES)))


def patches() -> list[Any]:
    """Return the patches for other accounts that the files show."""
    found: list[Any] = []
    for file in sorted((ROOT / "manifests" / "policies").glob("*.yaml")):
        head = file.read_text().partition("apiVersion:")[0]
        lines = [line.removeprefix("#   ") for line in head.splitlines() if line[:4] == "#   "]
        found += (yaml.safe_load("\n".join(lines)) or {}).get("patches", [])
    return found


@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each["metadata"]["name"])
def test_the_patches_for_other_accounts_are_for_all_places_that_name_ours(policy: Any) -> None:
    name = policy["metadata"]["name"]
    [patch] = [x for x in patches() if re.fullmatch(x["target"]["name"], name)]
    [change] = yaml.safe_load(patch["patch"])
    spec = policy["spec"]
    named = {
        f"/spec/{part}/{number}/expression": each["expression"]
        for part in ("matchConditions", "variables", "validations")
        for number, each in enumerate(spec.get(part, ()))
        if NAMESPACE in each["expression"]
    }
    other = change["value"].replace("serviceaccount:other:", f"serviceaccount:{NAMESPACE}:")
    assert named == {change["path"]: other}


def test_what_is_narrowed_for_the_account_of_both_is_no_more_than_our_role_grants() -> None:
    """kube-scheduler's own rights to claims and conditions are not the extender's to narrow."""
    names = [
        each["metadata"]["name"] for each in POLICIES if "gang-scheduler'" in yaml.safe_dump(each)
    ]
    assert sorted(names) == ["gang-extender-bindings", "gang-pod-groups", "gang-pods"]
