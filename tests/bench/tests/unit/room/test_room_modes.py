"""The configuration of each mode is one that the reconciler takes."""

from extender.config import Queue
from tests.bench.room.modes import BLOCKED, MODES, QUOTA, ROOM, UNKEPT
from tests.bench.tests.unit.room.makers import load


def test_settings() -> None:
    found = {each.key: Queue.model_validate(each.settings(load())["queue"]) for each in MODES}

    assert {key: (each.require_room, each.pod_groups) for key, each in found.items()} == {
        ROOM: (True, "Auto"),
        UNKEPT: (True, "Auto"),
        QUOTA: (False, "Off"),
        BLOCKED: (False, "Off"),
    }
    assert {key: each.aging_seconds for key, each in found.items() if each.aging_seconds} == {
        ROOM: 3
    }
    policies = {key: each.wait_for_pods_ready.policy() for key, each in found.items()}
    assert all(each.enabled and each.timeout == 5 for each in policies.values())
    assert all(each.backoff_base == 1 for each in policies.values())
    assert all(each.backoff_limit is None for each in policies.values())
    assert {key for key, each in policies.items() if each.block_admission} == {BLOCKED}
