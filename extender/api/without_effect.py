"""The fields, labels and annotations of Kueue that are accepted and have no effect here.

Every other property of the CRDs in this package is honoured, or refused with a reason, and so is
every name of `kueue.x-k8s.io` in `extender.api.wellknown`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from extender.api import wellknown

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterQueue": ("fairSharing", "admissionScope", "concurrentAdmissionPolicy"),
    "Cohort": ("fairSharing",),
    # The last two are of our own first release: no Kueue has them, and neither do today's CRDs.
    "LocalQueue": ("fairSharing", "wallTimePolicy"),
    "ResourceFlavor": ("resourceWeights",),
}
"""The fields of `spec` that have no effect, by kind."""
POD_SET_FIELDS: Final = ("podIndexLabel", "subGroupIndexLabel", "subGroupCount")
"""The fields of a pod set's `topologyRequest` that have no effect.

`podIndexLabel` has one where it names the completion index of a Job.
"""

_DOMAIN: Final = "kueue.x-k8s.io/"
_HONOURED: Final = frozenset(
    value for value in vars(wellknown).values() if isinstance(value, str) and _DOMAIN in value
)
INFORMATIVE: Final = frozenset(
    _DOMAIN + name
    for name in (
        *("auto-generated", "cluster-queue-name", "component-workload-index"),
        *("is-group-workload", "job-owner-gvk", "job-owner-name", "local-queue-name", "manager"),
        *("multikueue-origin-uid", "multikueue-worker-workload-pod"),
        *("raycluster-generation", "raycluster-podset-replica-sizes"),
    )
)
"""The names with which Kueue describes an object. They ask for nothing."""


def fields_without_effect(kind: str, spec: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of the fields of a spec that have no effect; `spec` is its properties."""
    given = frozenset(spec)
    return tuple(f"spec.{name}" for name in FIELDS.get(kind, ()) if name in given)


def names_without_effect(*names: Iterable[str]) -> tuple[str, ...]:
    """Return the labels and annotations of Kueue, of those given, that have no effect."""
    found = {name for each in names for name in each if _DOMAIN in name}
    return tuple(sorted(found - _HONOURED - INFORMATIVE)) if found else ()


def sentence(paths: Iterable[str]) -> str:
    """Return that these fields, labels or annotations have no effect, or an empty text."""
    found = list(paths)
    verb = "has" if len(found) == 1 else "have"
    return f"{', '.join(found)} {verb} no effect: see docs/queue.md" if found else ""
