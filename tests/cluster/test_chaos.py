"""The scenarios of `make chaos` in short: whatever fails, nothing is lost."""

from collections.abc import Callable

import pytest

from tests.chaos import report, scenarios
from tests.chaos.load import Load
from tests.chaos.scenarios import Outcome

pytestmark = pytest.mark.timeout(900)

LOAD = Load(gangs=8, jobs=30, seed=1)
CHURN_SECONDS = 120.0


def _say(text: str) -> None:
    print(text)


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(lambda: scenarios.kills(LOAD, 10, _say), id="kills"),
        pytest.param(lambda: scenarios.unreliable_api(LOAD, _say), id="unreliable API server"),
        pytest.param(lambda: scenarios.leadership(LOAD, 3, _say), id="leadership"),
        pytest.param(lambda: scenarios.compaction(LOAD, 2, _say), id="compaction"),
        pytest.param(lambda: scenarios.sigterm(300, _say), id="SIGTERM"),
        pytest.param(lambda: scenarios.churn(CHURN_SECONDS, _say), id="churn"),
    ],
)
def test_nothing_is_lost_by(scenario: Callable[[], Outcome]) -> None:
    outcome = scenario()
    print("\n".join(report.of_one(outcome)))
    assert outcome.lost == []
    assert outcome.kills.total() + outcome.faults.total() > 0 or outcome.name == "churn"
