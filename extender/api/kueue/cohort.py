"""Cohort: ClusterQueues that lend each other what they do not use, in a tree."""

from typing import Literal

from pydantic import Field

from extender.api.kueue.fields import ruled
from extender.api.kueue.quotas import (
    GROUP_RULES,
    FairSharing,
    FairSharingStatus,
    ResourceGroups,
    limits_need,
)
from extender.api.meta_v1 import DnsName, ObjectMeta, Read, Written


class CohortSpec(Written):
    """The place of the cohort in the tree, and what its members share."""

    model_config = ruled(limits_need("parentName"))

    parent_name: DnsName | None = None
    """The cohort above this one. Unset: this is the root of its tree. While there is a circle
    nothing in it is admitted."""
    resource_groups: ResourceGroups | None = Field(default=None, json_schema_extra=GROUP_RULES)
    """Quotas beyond those of the members, for all of them to borrow. Limits are for what crosses to
    the parent."""
    fair_sharing: FairSharing | None = None
    """The weight in fair sharing. Not honoured."""


class CohortStatus(Read):
    """What was last seen of the cohort."""

    fair_sharing: FairSharingStatus | None = None
    """The share in what is borrowed. Not written."""


class Cohort(Read):
    """ClusterQueues, and cohorts of them, that lend each other what they do not use.

    Members name it; one without an object of its own has no quota, no limits and no parent.
    """

    api_version: Literal["kueue.x-k8s.io/v1beta2"]
    kind: Literal["Cohort"]
    metadata: ObjectMeta
    spec: CohortSpec | None = None
    """The place of the cohort in the tree, and what its members share."""
    status: CohortStatus | None = None
    """What was last seen of the cohort."""
