"""Rights are those of the shipped roles, and what is missing is named."""

from extender.api.shipped import manifests
from extender.check.facts import ClusterFacts, IdentityFacts, NeededRight, RightsFacts, Unknown
from extender.check.findings import Finding, FindingLevel
from extender.check.rights import needed, policies, rights, subjects

EXTENDER, RECONCILER = manifests("rbac/extender.yaml"), manifests("rbac/reconciler.yaml")
USER = "system:serviceaccount:gang-extender-system:gang-extender"


def judged(*users: RightsFacts) -> list[Finding]:
    identity = IdentityFacts("extender", users)
    return [*rights(ClusterFacts(0.0, Unknown("not asked"), identities=[identity]))]


def having(user: str, *lacking: NeededRight) -> RightsFacts:
    return RightsFacts(user, {each: each not in lacking for each in needed(EXTENDER, {})})


def test_what_is_needed_is_what_the_roles_grant() -> None:
    found = needed(EXTENDER, {})

    assert NeededRight("create", "", "pods/binding") in found
    assert NeededRight("patch", "scheduling.sigs.k8s.io", "podgroups/status") in found
    assert len(found) == len(set(found)) > 15


def test_no_right_is_needed_on_a_resource_that_its_group_has_not() -> None:
    finalizers = {(x.group, x.resource) for x in needed(RECONCILER, {}) if "/final" in x.resource}

    assert len(finalizers) == 8
    assert {("", "pods/finalizers"), ("ray.io", "rayjobs/finalizers")} <= finalizers


def test_names_and_namespaces_are_those_of_the_settings() -> None:
    found = needed(RECONCILER, {"gang-extender-system": "other", "gang-queue": "mine"})

    leases = [each for each in found if each.resource == "leases"]
    assert {(each.verb, each.name, each.namespace) for each in leases} == {
        ("create", "", "other"),
        ("get", "gang-extender-reconciler", "other"),
        ("update", "gang-extender-reconciler", "other"),
    }
    webhooks = [each for each in found if each.resource.endswith("webhookconfigurations")]
    assert {each.name for each in webhooks} == {"mine"}


def test_the_users_are_those_of_the_bindings() -> None:
    account, user = subjects(EXTENDER, "other")

    assert account.user == "system:serviceaccount:other:gang-extender"
    assert "system:serviceaccounts:other" in account.groups
    assert user.user == "gang-extender"


def test_one_user_with_all_rights_is_enough() -> None:
    bind = NeededRight("create", "", "pods/binding")

    assert [each.level for each in judged(having(USER, bind), having("gang-extender"))] == ["ok"]


def test_missing_rights_are_named_by_resource() -> None:
    verbs = [NeededRight(verb, "batch", "jobs") for verb in ("list", "watch")]
    event = NeededRight("create", "events.k8s.io", "events")
    found = judged(having(USER, *verbs, event))

    assert {each.id: each.found for each in found} == {
        "rights.extender.jobs.batch": f"{USER} may not list, watch jobs.batch",
        "rights.extender.events.events.k8s.io": f"{USER} may not create events.events.k8s.io",
    }
    assert {each.level for each in found} == {FindingLevel.FAILURE}
    assert {each.mend for each in found} == {"kubectl apply -f manifests/rbac/extender.yaml"}


def test_no_right_at_all_is_one_line() -> None:
    [finding] = judged(having(USER, *needed(EXTENDER, {})))

    assert (finding.id, finding.level) == ("rights.extender", FindingLevel.FAILURE)


def test_policies_are_not_looked_for_where_there_are_none_yet() -> None:
    from extender.check.facts import ServerFacts

    absent = {"gang-extender": False}
    old = ClusterFacts(0.0, ServerFacts("v1.29.1", (1, 29)), policies=absent)
    new = ClusterFacts(0.0, ServerFacts("v1.31.1", (1, 31)), policies=absent)

    assert [*policies(old)] == []
    assert [each.level for each in policies(new)] == [FindingLevel.WARNING]
