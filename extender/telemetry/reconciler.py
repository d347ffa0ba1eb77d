"""All metrics of the reconciler, in one place."""

from extender.telemetry import definitions
from extender.telemetry.metrics import ProcessMetrics


class ReconcilerMetrics(ProcessMetrics):
    """The collectors of the reconciler."""

    def __init__(self) -> None:
        super().__init__()
        self.reconcile_seconds = definitions.RECONCILE_SECONDS.on(self.registry)
        self.reconciles = definitions.RECONCILES.on(self.registry)
        self.groups = definitions.POD_GROUPS.on(self.registry)
        self.leader = definitions.LEADER.on(self.registry)
        self.certificate_ends = definitions.WEBHOOKS_CERTIFICATE_END.on(self.registry)
        self.victims = definitions.PREEMPTION_VICTIMS.on(self.registry)
