"""Texts of conditions: the API server refuses a status in which one is too long."""

from dataclasses import replace

import pytest

from extender.queueing import lifecycle as to
from extender.state.cluster.records import LONGEST_MESSAGE, LONGEST_REASON, ConditionInfo
from tests.queue_makers import admission, workload


@pytest.mark.parametrize("character", ["x", "\u2588", "\U0001f600"])
def test_a_long_message_is_cut_by_characters(character: str) -> None:
    fits = ConditionInfo("T", "True", "R", character * LONGEST_MESSAGE)
    assert len(fits.message) == LONGEST_MESSAGE
    assert " ..." not in fits.message

    cut = replace(fits, message=fits.message + character)
    assert len(cut.message) == LONGEST_MESSAGE
    assert cut.message.endswith(f"{character} ...")


def test_a_long_reason_is_cut_and_stays_one() -> None:
    cut = ConditionInfo("T", "True", "r" * (LONGEST_REASON - 1) + ":rest")
    assert cut.reason == "r" * (LONGEST_REASON - 1)


def test_what_was_said_before_fits_with_more_before_it() -> None:
    evicted = to.evicted(workload("w"), "Preempted", "x" * LONGEST_MESSAGE, now=1.0)
    again = to.reserved(evicted, admission(evicted), 2.0).condition("Evicted")
    assert again is not None
    assert again.message.startswith("Previously: x")
    assert len(again.message) == LONGEST_MESSAGE


def test_a_cause_of_another_controller_is_counted_in_what_the_api_server_takes() -> None:
    evicted = to.evicted(workload("w"), "DeactivatedDueTo" + "x" * 1000, "", now=1.0)
    [counted] = evicted.evictions
    assert (counted.reason, counted.cause) == ("Deactivated", "x" * 316)
