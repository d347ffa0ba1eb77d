"""Answers of the decisions about gangs that take steps, however many these are."""

from collections.abc import Sequence
from typing import Any

from extender.gang import aging, gates
from extender.gang.fit import Fit, fitting
from extender.gang.verdicts import Refuse
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.reservations import Claim
from extender.steps import FairShare, at_once
from tests.makers import cluster_of


def fit(pods: Sequence[PodInfo], wanted: int, **asked: Any) -> Fit:
    """Return the answer of `fitting`, and with it what the nodes lack."""
    return at_once(at_once(fitting(pods, wanted, **asked)).explained())


def fitted(members: Sequence[PodInfo], *facts: Any, wanted: int = 0, **asked: Any) -> Fit:
    """Return where the members of a gang go beside these facts; all are wanted, or so many."""
    view, group = cluster_of(facts, members).view(), members[0].group or ""
    return fit(members, wanted or len(members), group=group, view=view, **asked)


def make_plan(pod: PodInfo, pod_group: PodGroupInfo, **asked: Any) -> Fit | Refuse:
    """Return the plan of a pod's group, or why there is none."""
    return at_once(gates.plan_gang(pod, pod_group, **asked))


def due_claims(**asked: Any) -> Sequence[Claim]:
    """Return all claims that are due, chosen anew."""
    return at_once(aging.deciding(FairShare(aging.MOST), **asked))
