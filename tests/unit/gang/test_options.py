"""What an operator may choose about gangs, and what a PodGroup may."""

import pytest

from extender.gang.verdicts import GangOptions


@pytest.mark.parametrize(
    ("setting", "cap", "asked", "want"),
    [
        (60, 3600, None, 60),
        (60, 3600, 0, 0),
        (60, 3600, 600, 600),
        (60, 3600, 7200, 3600),
        (7200, 3600, 9000, 7200),
    ],
    ids=["the setting", "less", "more", "more than the cap", "a cap below the setting"],
)
def test_for_how_long_a_gang_is_no_victim(
    setting: float, cap: float, asked: float | None, want: float
) -> None:
    assert GangOptions(min_run=setting, max_min_run=cap).runs_for(asked) == want
