"""What `tests.bench.domains` measures, on few nodes."""

import pytest

from tests.bench import domains


@pytest.fixture(autouse=True)
def few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "NODES", 200)
    monkeypatch.setattr(domains, "SENT", 20)


@pytest.mark.parametrize("plan", domains.PLANS.values(), ids=domains.PLANS)
def test_each_plan_is_made_as_often_as_asked(plan: domains.Plan) -> None:
    small = domains.Plan(plan.cpu, plan.asked, pods=40, kinds=min(plan.kinds, 20))
    spent, longest, found = domains.measured(small, rounds=2)
    assert len(spent) == 2
    assert 0 < longest <= max(spent)
    assert len({each.shape for each in small.members()}) == small.kinds
    # A rack of twenty nodes has room for fewer than forty pods of four CPU by chance.
    assert found.complete or dict(plan.asked).get("required_topology") == domains.RACK


@pytest.mark.parametrize("placement", [None, "pack", "spread"])
def test_points_are_asked_for_in_each_round(placement: str | None) -> None:
    assert len([*domains.scored(10, placement)]) == domains.ROUNDS
