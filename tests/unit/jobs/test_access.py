"""What the reconciler may do with a kind that an administrator adds: the parts that need no CEL."""

from dataclasses import replace
from typing import ClassVar

import pytest

from extender.jobs.access import Account, manifests
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.registry import Integration, IntegrationError, described


class Film(BatchJob):
    """A kind with templates in a list and in a map."""

    integration = "example.com/film"
    kind = "Film"
    group = "example.com"
    version = "v1"
    plural = "films"
    template_paths: ClassVar[tuple[str, ...]] = ("spec.scenes[].template", "spec.crews.*.template")


@pytest.fixture
def film() -> Integration:
    return described(Film)


def test_it_says_what_a_start_changes(film: Integration) -> None:
    assert film.templates == Film.template_paths
    assert film.changes == ("spec.suspend",)


def test_the_role_and_the_policy_are_for_one_account_and_one_kind(film: Integration) -> None:
    role, binding, policy, bound = manifests(film, Account("other", "queue"))
    assert role["rules"] == [
        {
            "apiGroups": ["example.com"],
            "resources": ["films"],
            "verbs": ["get", "list", "watch", "patch"],
        },
        {"apiGroups": ["example.com"], "resources": ["films/finalizers"], "verbs": ["update"]},
    ]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "queue", "namespace": "other"}
    ]
    (condition,) = policy["spec"]["matchConditions"]
    assert "'system:serviceaccount:other:queue'" in condition["expression"]
    assert bound["spec"]["policyName"] == policy["metadata"]["name"]


def test_status_may_be_written_only_where_a_start_changes_it(film: Integration) -> None:
    more = replace(film, changes=(*film.changes, "status.startTime"))
    role, _, policy, _ = manifests(more, Account())
    assert ["films/status"] in [rule["resources"] for rule in role["rules"]]
    said = [each["message"] for each in policy["spec"]["validations"]]
    assert any(each.startswith("status: ") for each in said)


@pytest.mark.parametrize(
    ("templates", "problem"),
    [
        ((), "template_paths"),
        (("data.template",), "'data' is no field of spec or status"),
        (("spec.it's",), "is no path of fields"),
        (("spec..template",), "is no path of fields"),
    ],
)
def test_a_kind_that_cannot_be_confined_is_an_error(
    film: Integration, templates: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(IntegrationError, match=problem):
        manifests(replace(film, templates=templates), Account())


def test_paths_are_a_sequence_of_strings() -> None:
    class Odd(Film):
        template_paths = "spec.template"  # type: ignore[assignment]

    with pytest.raises(IntegrationError, match="template_paths is not a sequence"):
        described(Odd)
