"""Rights are those of the shipped roles, and what is missing is named."""

from extender.api.manifests import shipped_objects
from extender.check.cluster import check
from extender.check.facts import ClusterFacts, ServerFacts
from extender.check.findings import Finding, FindingLevel
from extender.check.survey import needed_rights, subjects
from extender.kube.reviews import Access

EXTENDER, RECONCILER = (
    shipped_objects("rbac/extender.yaml"),
    shipped_objects("rbac/reconciler.yaml"),
)
USER = "system:serviceaccount:gang-extender-system:gang-extender"
SERVER = ServerFacts("v1.36.3", (1, 36))
Having = tuple[str, dict[Access, bool]]


def judged(*users: Having) -> list[Finding]:
    found = check(ClusterFacts(0.0, SERVER, rights={"extender": dict(users)}))
    return [each for each in found if each.group == "rights"]


def having(user: str, *lacking: Access) -> Having:
    return user, {each: each not in lacking for each in needed_rights(EXTENDER, {})}


def test_what_is_needed_is_what_the_roles_grant() -> None:
    found = needed_rights(EXTENDER, {})

    assert Access("", "pods/binding", verb="create") in found
    assert Access("scheduling.sigs.k8s.io", "podgroups/status", verb="patch") in found
    assert len(found) == len(set(found)) > 15


def test_no_right_is_needed_on_a_resource_that_its_group_has_not() -> None:
    finalizers = {
        (x.group, x.resource) for x in needed_rights(RECONCILER, {}) if "/final" in x.resource
    }

    assert len(finalizers) == 8
    assert {("", "pods/finalizers"), ("ray.io", "rayjobs/finalizers")} <= finalizers


def test_names_and_namespaces_are_those_of_the_settings() -> None:
    found = needed_rights(RECONCILER, {"gang-extender-system": "other", "gang-queue": "mine"})

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

    assert account.name == "system:serviceaccount:other:gang-extender"
    assert "system:serviceaccounts:other" in account.groups
    assert user.name == "gang-extender"


def test_one_user_with_all_rights_is_enough() -> None:
    bind = Access("", "pods/binding", verb="create")

    assert [each.level for each in judged(having(USER, bind), having("gang-extender"))] == ["ok"]


def test_missing_rights_are_named_by_resource() -> None:
    verbs = [Access("batch", "jobs", verb=verb) for verb in ("list", "watch")]
    event = Access("events.k8s.io", "events", verb="create")
    found = judged(having(USER, *verbs, event))

    assert {each.id: each.found for each in found} == {
        "rights.extender.jobs.batch": f"{USER} may not list, watch jobs.batch",
        "rights.extender.events.events.k8s.io": f"{USER} may not create events.events.k8s.io",
    }
    assert {each.level for each in found} == {FindingLevel.FAILURE}
    assert {each.mend for each in found} == {"kubectl apply -f manifests/rbac/extender.yaml"}


def test_no_right_at_all_is_one_line() -> None:
    [finding] = judged(having(USER, *needed_rights(EXTENDER, {})))

    assert (finding.id, finding.level) == ("rights.extender", FindingLevel.FAILURE)


def test_policies_are_not_looked_for_where_there_are_none_yet() -> None:
    absent = {"gang-extender": False}
    old = ClusterFacts(0.0, ServerFacts("v1.29.1", (1, 29)), policies=absent)
    new = ClusterFacts(0.0, SERVER, policies=absent)

    assert [each for each in check(old) if each.group == "policies"] == []
    [finding] = [each for each in check(new) if each.group == "policies"]
    assert finding.level is FindingLevel.WARNING
