"""Quotas by flavor and resource, which ClusterQueues and Cohorts have alike."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from extender.api.kueue.fields import ATOMIC, ResourceName, by, ruled, rules
from extender.api.meta_v1 import DnsName, Int64, Quantity, Read, Written

_LIMITS: Final = "self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, {})))"


class ResourceQuota(Written):
    """How much of one resource there is in one flavor."""

    # Of whole numbers only: the API server bounds the cost of a rule by the longest amount that
    # could be written as text, a request of megabytes, and there may be 65,536 of these. What is
    # lent beyond nominalQuota is nothing: the rule is for the writer, nothing relies on it.
    model_config = ruled({
        "lendingLimit is at most nominalQuota": (
            "!has(self.lendingLimit) || type(self.lendingLimit) != int "
            "|| type(self.nominalQuota) != int "
            "|| int(self.lendingLimit) <= int(self.nominalQuota)"
        )
    })  # fmt: skip

    name: ResourceName
    """The resource, such as cpu or nvidia.com/gpu."""
    nominal_quota: Quantity
    """How much the owner of this quota has while nothing is borrowed."""
    borrowing_limit: Quantity | None = None
    """How much may be used beyond nominalQuota, of what others in the cohort do not use. Unset: no
    limit. Only within a cohort."""
    lending_limit: Quantity | None = None
    """How much of nominalQuota others in the cohort may borrow. Unset: all of it. Only within a
    cohort, and not more than nominalQuota."""


class FlavorQuotas(Written):
    """The quotas of one flavor."""

    name: DnsName
    """The name of a ResourceFlavor."""
    resources: Annotated[list[ResourceQuota], Field(min_length=1, max_length=64)] = Field(
        json_schema_extra=by("name")
    )
    """One quota for each covered resource, in the order of coveredResources."""


class ResourceGroup(Written):
    """Resources that come from one flavor together, and the flavors that have them."""

    model_config = ruled({
        "each flavor lists the resources of coveredResources, in the same order": (
            "self.flavors.all(f, f.resources.map(r, r.name) == self.coveredResources)"
        ),
        "a group has at most 512 quotas": (
            "size(self.flavors) * size(self.coveredResources) <= 512"
        ),
    })  # fmt: skip

    covered_resources: Annotated[list[ResourceName], Field(min_length=1, max_length=64)] = Field(
        json_schema_extra=ATOMIC
    )
    """The resources of this group. A pod set gets all of them from one flavor."""
    flavors: Annotated[list[FlavorQuotas], Field(min_length=1, max_length=64)] = Field(
        json_schema_extra=by("name")
    )
    """The flavors with their quotas, in the order in which they are tried."""


ResourceGroups = Annotated[list[ResourceGroup], Field(max_length=16)]

GROUP_RULES: Final[dict[str, Any]] = {
    **ATOMIC,
    **rules({
        "a resource is in one resource group only": (
            "self.all(a, self.exists_one(b, "
            "sets.intersects(a.coveredResources, b.coveredResources)))"
        ),
        "a flavor is in one resource group only": (
            "self.all(a, self.exists_one(b, "
            "sets.intersects(a.flavors.map(f, f.name), b.flavors.map(f, f.name))))"
        ),
        "there are at most 256 flavors in all groups together": (
            "self.map(g, size(g.flavors)).sum() <= 256"
        ),
        "there are at most 256 resources in all groups together": (
            "self.map(g, size(g.coveredResources)).sum() <= 256"
        ),
    }),
}  # fmt: skip
"""The rules of a list of resource groups."""


def limits_need(parent: str) -> dict[str, str]:
    """Return the rules of a spec: a limit needs a cohort or a parent."""
    alone = f"has(self.{parent}) && self.{parent} != '' || !has(self.resourceGroups)"
    return {
        f"borrowingLimit is only for those with {parent}": (
            f"{alone} || {_LIMITS.format('!has(r.borrowingLimit)')}"
        ),
        f"lendingLimit is only for those with {parent}": (
            f"{alone} || {_LIMITS.format('!has(r.lendingLimit)')}"
        ),
    }


class FairSharing(Written):
    """How strongly it competes for unused quota. Not honoured."""

    weight: Quantity | None = Field(
        default=None,
        json_schema_extra={
            "default": 1,
            **rules(
                {
                    "the weight is 0 or more than 1e-9": (
                        "quantity(string(self)).compareTo(quantity('0')) == 0 "
                        "|| quantity(string(self)).isGreaterThan(quantity('1n'))"
                    )
                }
            ),
        },
    )
    """The share is divided by this: 0, or more than a thousand-millionth."""  # fmt: skip


class AdmissionFairSharingStatus(Read):
    """What was used over time, with older use counting less. Not written."""

    consumed_resources: dict[str, Quantity]
    """What was used, by resource."""
    last_update: datetime
    """When this was written."""


class FairSharingStatus(Read):
    """The share in what is borrowed. Not written."""

    weighted_share: Int64
    """The largest ratio of what is borrowed of a resource to what could be, in thousandths, by
    weight."""
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None
    """What was used over time."""
