"""Every kind that the extender brings along, as its CRD is made from."""

from typing import Final

from extender.api import scheduling_sigs_v1alpha1 as former
from extender.api import scheduling_x_v1alpha1 as current
from extender.api.crds import Column, Definition, Version
from extender.api.kueue.definitions import DEFINITIONS as QUEUE

_POD_GROUP_COLUMNS: Final = (
    Column("Phase", ".status.phase", description="Where the group is in its life."),
    Column("MinMember", ".spec.minMember", "integer", "How many pods must run together."),
    Column("Scheduled", ".status.scheduled", "integer", "How many pods have a node."),
    Column("Running", ".status.running", "integer", "How many pods are running."),
    Column("Succeeded", ".status.succeeded", "integer", "How many pods have succeeded."),
    Column("Failed", ".status.failed", "integer", "How many pods have failed."),
    Column(
        "Reason",
        '.status.conditions[?(@.type=="Scheduled")].reason',
        description="Why the group is, or is not, scheduled.",
    ),
    Column(
        "Message",
        '.status.conditions[?(@.type=="Scheduled")].message',
        description="The reason with the numbers behind it.",
        wide=True,
    ),
    Column("Age", ".metadata.creationTimestamp", "date"),
)

DEFINITIONS: Final = (
    Definition(
        current.GROUP,
        "podgroups",
        (Version(current.VERSION, current.PodGroup, _POD_GROUP_COLUMNS),),
        short_names=("pg", "pgs"),
        categories=("gang",),
    ),
    # No short names: `sigs` comes before `x-k8s`, so kubectl would resolve `pg` to this group, and
    # warn about the other. `kubectl get gang` lists both.
    Definition(
        former.GROUP,
        "podgroups",
        (Version(former.VERSION, former.PodGroup, _POD_GROUP_COLUMNS),),
        categories=("gang",),
    ),
    *QUEUE,
)
"""Every kind that the extender brings along."""
