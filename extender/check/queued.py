"""Findings about queues and jobs with settings that have no effect here."""

from collections.abc import Iterator
from typing import Final

from extender.api.without_effect import sentence
from extender.check.facts import ClusterFacts, Unknown
from extender.check.findings import Finding, ok, warning

KINDS: Final = {
    "clusterqueues": "ClusterQueue",
    "cohorts": "Cohort",
    "localqueues": "LocalQueue",
    "resourceflavors": "ResourceFlavor",
}
"""The kinds of kueue.x-k8s.io with fields that may have no effect, by plural name."""
NOT_QUEUED: Final = {
    "AppWrapper": "workload.codeflare.dev/v1beta2/appwrappers",
    "Deployment": "apps/v1/deployments",
    "JAXJob": "kubeflow.org/v1/jaxjobs",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1/leaderworkersets",
    "PaddleJob": "kubeflow.org/v1/paddlejobs",
    "RayCluster": "ray.io/v1/rayclusters",
    "RayService": "ray.io/v1/rayservices",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2/sparkapplications",
    "StatefulSet": "apps/v1/statefulsets",
    "TrainJob": "trainer.kubeflow.org/v1alpha1/trainjobs",
}
"""The kinds that Kueue queues and this queue does not, and where their objects are."""


def queued(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield the queues, flavors and jobs of which something has no effect."""
    if not facts.queue:
        return
    if isinstance(facts.without_effect, Unknown):
        why = f"queues and jobs cannot be looked at: {facts.without_effect.why}"
        yield warning("queue.known", why, "use a kubeconfig that may read them")
        return
    for kind, name, paths in facts.without_effect:
        found = f"{kind} {name}: {sentence(paths)}"
        mend = "take them out, or do without them: the decisions are made as if they were not there"
        if kind in NOT_QUEUED:
            mend = (
                "it runs without quota, or waits for ever where it was created suspended: queue a "
                "kind of docs/integrations.md instead"
            )
        yield warning(f"queue.{kind}.{name}", found, mend)
    if not facts.without_effect:
        yield ok("queue.honoured", "all fields, labels and annotations of the queues are honoured")
