"""Metrics of groups that wait."""

from prometheus_client import CollectorRegistry, generate_latest

from extender.telemetry.metrics import ComputedMetrics, waiting_groups


def test_groups_are_counted_by_reason_with_the_oldest() -> None:
    registry = CollectorRegistry()
    found = [("NeverFits", 30.0), ("NotEnoughPods", 20.0), ("NeverFits", 10.0)]
    registry.register(ComputedMetrics(lambda: waiting_groups(found)))

    lines = generate_latest(registry).decode().splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        'gang_extender_waiting_groups{reason="NeverFits"} 2.0',
        'gang_extender_waiting_groups{reason="NotEnoughPods"} 1.0',
        'gang_extender_oldest_waiting_group_timestamp_seconds{reason="NeverFits"} 10.0',
        'gang_extender_oldest_waiting_group_timestamp_seconds{reason="NotEnoughPods"} 20.0',
    ]
