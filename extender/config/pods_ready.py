"""What happens to a workload whose pods are not ready in time: `queue.waitForPodsReady`."""

from typing import Annotated, Final, Literal

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from extender.config.sections import Duration, Section
from extender.queueing import options as queueing

DEFAULT_TIMEOUT: Final = 1800.0
ASKED_TIMEOUT: Final = 300.0
"""The default where the file sets `enable: true`: that of Kueue while readiness was optional."""


class _Pointers(Section):
    """A section in which null means the default."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class RequeuingStrategy(_Pointers):
    """When a workload whose pods were not ready in time is requeued."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    """the workload's place: the end of its queue, or its old place by creation"""
    backoff_limit_count: int | None = Field(default=None, ge=0)
    """evictions before the workload is deactivated; null: no limit"""
    backoff_base_seconds: Duration = 60
    """first back-off, doubled each time"""
    backoff_max_seconds: Duration = 3600
    """longest back-off"""


class WaitForPodsReady(_Pointers):
    """A workload whose pods are not ready in time is evicted (KEP-349)."""

    enable: bool = True
    """whether readiness is required"""
    timeout: Duration | None = Field(
        default=None, gt=0, validation_alias=AliasChoices("timeout", "timeoutSeconds")
    )
    """from admission until all pods are ready; above 0; also spelt `timeoutSeconds`; default: 30m,
    or 5m where the file sets `enable: true`"""
    recovery_timeout: Duration | None = Field(
        default=None, validation_alias=AliasChoices("recoveryTimeout", "recoveryTimeoutSeconds")
    )
    """from when pods stop being ready until they are again; also spelt `recoveryTimeoutSeconds`; 0:
    no limit; default: `timeout`"""
    block_admission: bool | None = None
    """whether no workload is admitted while pods of an admitted workload are not ready; default:
    only where the file sets `enable: true`"""
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    """when an evicted workload is requeued"""

    def policy(self) -> queueing.PodsReady:
        """Return the policy that decisions use."""
        asked = self.enable and "enable" in self.model_fields_set
        timeout = self.timeout or (ASKED_TIMEOUT if asked else DEFAULT_TIMEOUT)
        blocks = asked if self.block_admission is None else self.block_admission
        recovery = timeout if self.recovery_timeout is None else self.recovery_timeout
        again = self.requeuing_strategy
        return queueing.PodsReady(
            enabled=self.enable,
            timeout=timeout,
            recovery_timeout=recovery or None,
            block_admission=self.enable and blocks,
            backoff_limit=again.backoff_limit_count,
            backoff_base=again.backoff_base_seconds,
            backoff_max=again.backoff_max_seconds,
        )


def _one_spelling(given: object) -> object:
    if not isinstance(given, dict):
        return given
    for name in ("timeout", "recoveryTimeout"):
        if given.get(name) is not None and given.get(f"{name}Seconds") is not None:
            raise ValueError(f"{name} and {name}Seconds are one setting: keep one of them")
    return given


def _or_nothing(section: object) -> object:
    return {} if section is None else section


PodsReadySection = Annotated[
    WaitForPodsReady, BeforeValidator(_or_nothing), BeforeValidator(_one_spelling)
]
"""As a file has it: null for all defaults, and one spelling of each time."""
