"""How far a ClusterQueue lets its jobs change its settings."""

import pytest

from extender.api.values import (
    Bound,
    Overrides,
    overrides_of,
    parsed_overrides,
    unreadable_overrides,
)
from extender.api.wellknown import JOB_OVERRIDES

OWN = "scheduling.x-k8s.io/"
TIMEOUT, LIMIT = f"{OWN}pods-ready-timeout", f"{OWN}pods-ready-backoff-limit"
RECOVERY, BLOCK = f"{OWN}pods-ready-recovery-timeout", f"{OWN}pods-ready-block-admission"
RELEASE, BASE = f"{OWN}release-quota", f"{OWN}pods-ready-backoff-base"


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ("", Overrides()),
        (" , ,", Overrides()),
        ("*", Overrides("any")),
        ("none", Overrides("none")),
        ("release-quota", Overrides(named={RELEASE: Bound()})),
        ("pods-ready-timeout<=2h", Overrides(named={TIMEOUT: Bound(most=7200)})),
        (
            "none, pods-ready-timeout >= 1m , pods-ready-timeout<=1h,pods-ready-backoff-limit<=0",
            Overrides("none", {TIMEOUT: Bound(60, 3600), LIMIT: Bound(most=0)}),
        ),
    ],
)
def test_a_list_of_overrides_is_parsed(said: str, want: Overrides) -> None:
    assert parsed_overrides(said) == (want, ())


@pytest.mark.parametrize(
    ("said", "setting", "words"),
    [
        ("pods-ready-timeot<=2h", None, "it is to begin with one of wait-for-pods-ready, "),
        ("pods-ready-timeout=2h", None, "it is to begin with one of "),
        ("<=2h", None, "it is to begin with one of "),
        ("pods-ready-timeout<=soon", TIMEOUT, "after <= there is to be a duration such as 300"),
        ("pods-ready-backoff-limit>=-1", LIMIT, "after >= there is to be a whole number"),
        ("pods-ready-block-admission<=true", BLOCK, "has no bound, it is to stand alone"),
    ],
)
def test_an_entry_that_cannot_be_read_frees_nothing(
    said: str, setting: str | None, words: str
) -> None:
    for overrides, complaints in (parsed_overrides(said), parsed_overrides(f"*, {said}")):
        [complaint] = complaints
        assert complaint.startswith(f"{said} is ignored: ")
        assert words in complaint
        assert overrides.others == "stricter"
        assert not overrides.frees(setting or TIMEOUT)
        assert overrides.limited(TIMEOUT, 50.0, 10.0) == 10.0
        assert unreadable_overrides({JOB_OVERRIDES: said}) == [f"{JOB_OVERRIDES}: {complaint}"]


def test_a_long_text_is_cut() -> None:
    [reported] = parsed_overrides("x" * 5000)[1]
    assert reported.startswith(f"{'x' * 40} is ignored")


@pytest.mark.parametrize(
    ("setting", "wanted", "ruled", "counts"),
    [
        (TIMEOUT, 5.0, 10.0, 5.0),
        (TIMEOUT, 50.0, 10.0, 10.0),
        (RECOVERY, None, 10.0, 10.0),
        (RECOVERY, 5.0, None, 5.0),
        (RECOVERY, None, None, None),
        (LIMIT, 0, None, 0),
        (BASE, 0.0, 60.0, 60.0),
        (BASE, 600.0, 60.0, 60.0),
        (BLOCK, True, False, False),
        (BLOCK, False, True, True),
        (RELEASE, "OnTerminal", "OnTerminating", "OnTerminal"),
        (RELEASE, "OnTerminating", "OnTerminal", "OnTerminal"),
    ],
)
def test_without_a_list_a_job_may_only_be_stricter(
    setting: str, wanted: object, ruled: object, counts: object
) -> None:
    assert Overrides().limited(setting, wanted, ruled) == counts
    assert parsed_overrides("*")[0].limited(setting, wanted, ruled) == wanted
    assert parsed_overrides("none")[0].limited(setting, wanted, ruled) == ruled


def test_a_queue_goes_before_the_settings() -> None:
    free = parsed_overrides("*")[0]
    assert overrides_of({}, free) is free
    assert overrides_of({JOB_OVERRIDES: ""}, free) == Overrides()
    assert not unreadable_overrides({})
