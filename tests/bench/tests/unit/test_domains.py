"""What `tests.bench.domains` measures, on few nodes."""

import pytest

from tests.bench import domains


@pytest.mark.parametrize("plan", domains.PLANS.values(), ids=domains.PLANS)
def test_each_plan_is_made_as_often_as_asked(
    plan: domains.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domains, "NODES", 200)
    small = domains.Plan(plan.cpu, plan.asked, pods=40, kinds=min(plan.kinds, 20))
    spent, longest, found = domains.measured(small, rounds=2)
    assert len(spent) == 2
    assert 0 < longest <= max(spent)
    assert len({each.shape for each in small.members()}) == small.kinds
    assert found.complete
