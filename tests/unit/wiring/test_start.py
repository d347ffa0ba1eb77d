"""What `serve` says at its start."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from extender.config.gang import Gang
from extender.wiring.serve import say_if_not_together

MANAGED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
  - {urlPrefix: a, filterVerb: filter, bindVerb: bind, managedResources: [{name: example.com/gang}]}
"""


@pytest.mark.parametrize(
    ("settings", "levels"),
    [({}, ["info"]), ({"bindTogether": "equal"}, ["warning"]), ({"bindTogether": "off"}, [])],
    ids=["the default", "asked for", "off"],
)
def test_it_says_once_that_members_are_bound_one_by_one(
    tmp_path: Path, settings: dict[str, Any], levels: list[str]
) -> None:
    """That is a warning only where the settings ask for something else."""
    path = tmp_path / "kube-scheduler.yaml"
    path.write_text(MANAGED)
    with capture_logs() as logs:
        say_if_not_together(Gang.model_validate({**settings, "schedulerConfiguration": path}))

    assert [each["log_level"] for each in logs] == levels
    for each in logs:
        assert each["why"] == "a is asked only about pods that request its managedResources"


def test_it_says_nothing_where_nothing_speaks_against_it() -> None:
    with capture_logs() as logs:
        say_if_not_together(Gang())
    assert logs == []
