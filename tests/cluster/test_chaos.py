"""The scenarios of `make chaos` in short: whatever fails, nothing is lost.

`make test` plays a small compaction, for which there is no other test. What the others do once is
proven elsewhere: kills in `test_restarts` and `test_queue_faults`, leadership in `test_election`,
SIGTERM in `test_stopping`.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos import report, scenarios
from tests.chaos.load import Load
from tests.chaos.scenarios import Outcome
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(900)

LOAD = Load(gangs=8, jobs=30, seed=1)
ONE_BY_ONE = replace(LOAD, together=False)
SMALL = Load(gangs=3, jobs=9, seed=1)
CHURN_SECONDS = 120.0


def _say(text: str) -> None:
    print(text)


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(lambda: scenarios.kills(LOAD, 10, _say), id="kills", marks=LONG),
        pytest.param(
            lambda: scenarios.unreliable_api(LOAD, _say), id="unreliable API server", marks=LONG
        ),
        pytest.param(
            lambda: scenarios.kills(ONE_BY_ONE, 10, _say), id="kills, bound one by one", marks=LONG
        ),
        pytest.param(
            lambda: scenarios.unreliable_api(ONE_BY_ONE, _say),
            id="unreliable API server, bound one by one",
            marks=LONG,
        ),
        pytest.param(lambda: scenarios.leadership(LOAD, 3, _say), id="leadership", marks=LONG),
        pytest.param(lambda: scenarios.compaction(SMALL, 1, _say), id="one compaction"),
        pytest.param(lambda: scenarios.compaction(LOAD, 2, _say), id="compactions", marks=LONG),
        pytest.param(lambda: scenarios.sigterm(300, _say), id="SIGTERM", marks=LONG),
        pytest.param(lambda: scenarios.churn(CHURN_SECONDS, _say), id="churn", marks=LONG),
    ],
)
def test_nothing_is_lost_whatever_fails(scenario: Callable[[], Outcome]) -> None:
    outcome = scenario()
    print("\n".join(report.of_one(outcome)))
    assert outcome.lost == []
    assert outcome.kills.total() + outcome.faults.total() > 0 or outcome.name == "churn"
