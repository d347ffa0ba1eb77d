"""Every kind that the extender brings along, as its CRD is made from."""

from typing import Final

from extender.api import scheduling_sigs_v1alpha1, scheduling_x_v1alpha1
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
        group=scheduling_x_v1alpha1.GROUP,
        plural="podgroups",
        versions=(
            Version(
                scheduling_x_v1alpha1.VERSION,
                scheduling_x_v1alpha1.PodGroup,
                columns=_POD_GROUP_COLUMNS,
            ),
        ),
        short_names=("pg", "pgs"),
        categories=("gang",),
    ),
    Definition(
        group=scheduling_sigs_v1alpha1.GROUP,
        plural="podgroups",
        versions=(
            Version(
                scheduling_sigs_v1alpha1.VERSION,
                scheduling_sigs_v1alpha1.PodGroup,
                columns=_POD_GROUP_COLUMNS,
            ),
        ),
        # No short names: `sigs` comes before `x-k8s`, so kubectl would take `pg` for this group and
        # warn about the other. `kubectl get gang` lists both.
        categories=("gang",),
    ),
    *QUEUE,
)
"""Every kind that the extender brings along."""
