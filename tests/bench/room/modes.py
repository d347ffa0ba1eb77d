"""What is compared: quota with room, kept for what waits long and not, and quota alone."""

from dataclasses import dataclass
from typing import Any

from tests.bench.room.load import Load

ROOM, UNKEPT, QUOTA, BLOCKED = "room", "unkept", "quota", "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One column of the report."""

    key: str
    title: str
    room: bool = False
    keep: bool = False
    """Whether room is kept for what has waited for long."""
    block: bool = False

    def settings(self, load: Load) -> dict[str, Any]:
        """Return the reconciler's configuration. It is not elected: there is no other."""
        return {
            "reconcile": {"leaderElect": False},
            "queue": {
                "requireRoom": self.room,
                "agingSeconds": load.aging_seconds if self.keep else 0,
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
    Mode(key=ROOM, title="quota and room", room=True, keep=True),
    Mode(key=UNKEPT, title="quota and room, none kept", room=True),
    Mode(key=QUOTA, title="quota alone"),
    Mode(key=BLOCKED, title="quota alone, blocked", block=True),
)
