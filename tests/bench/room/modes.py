"""What is compared: quota with room, and quota alone, with admission blocked and not."""

from dataclasses import dataclass
from typing import Any

from tests.bench.room.load import Load

ROOM, QUOTA, BLOCKED = "room", "quota", "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One column of the report."""

    key: str
    title: str
    room: bool = False
    block: bool = False

    def settings(self, load: Load) -> dict[str, Any]:
        """Return the reconciler's configuration. It is not elected: there is no other."""
        return {
            "reconcile": {"leaderElect": False},
            "queue": {
                "requireRoom": self.room,
                "podGroups": "Auto" if self.room else "Off",
                "waitForPodsReady": {
                    "enable": True,
                    "timeout": load.pods_ready_timeout_seconds,
                    "blockAdmission": self.block,
                    "requeuingStrategy": {"backoffBaseSeconds": load.backoff_base_seconds},
                },
            },
        }


MODES = (
    Mode(key=ROOM, title="quota and room", room=True),
    Mode(key=QUOTA, title="quota alone"),
    Mode(key=BLOCKED, title="quota alone, blocked", block=True),
)
