"""When the reconciler serves webhooks."""

from typing import Any

import pytest

from extender.config.settings import Settings
from extender.wiring.webhooks import wanted

URL = {"url": "https://127.0.0.1:9443"}
CASES: dict[str, tuple[bool, dict[str, Any], bool]] = {
    "outside": (False, {}, False),
    "in a pod": (True, {}, True),
    "outside, by a url": (False, {"webhooks": URL}, True),
    "in a pod, when they are disabled": (True, {"webhooks": {"enabled": False}}, False),
    "outside, when they are enabled": (False, {"webhooks": {"enabled": True}}, True),
    "in a pod, when the queue is another's": (True, {"queue": {"enabled": False}}, False),
    "enabled, when the queue is another's": (
        False,
        {"queue": {"enabled": False}, "webhooks": {"enabled": True}},
        True,
    ),
}


@pytest.mark.parametrize(("in_pod", "settings", "want"), CASES.values(), ids=CASES)
def test_webhooks_are_served_where_they_are_found(
    monkeypatch: pytest.MonkeyPatch,
    in_pod: bool,
    settings: dict[str, Any],
    want: bool,
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if in_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")

    assert wanted(Settings.model_validate(settings)) is want
