"""What decisions know of a PodGroup."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PodGroupInfo:
    """One PodGroup of either API group; times in seconds."""

    namespace: str
    name: str
    api_group: str
    min_member: int
    uid: str = ""
    min_resources: Mapping[str, int] = field(default_factory=dict)
    schedule_timeout: float | None = None
    created: float = 0.0

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"
