"""The workloads with quota are read in steps, and then only as far as they have changed."""

from dataclasses import replace
from random import Random

import pytest

from extender.queueing import quota
from extender.queueing.quota import Holders
from extender.state.queue import store
from extender.steps import PIECE
from tests.makers import key
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    workload,
)


def scene(count: int) -> Admissions:
    found = Admissions(
        *(cluster_queue("a", 10_000), local_queue("a")),
        *(cluster_queue("b", 10_000), local_queue("b")),
    )
    for number in range(count):
        hold(found, number, "a")
    return found


def hold(there: Admissions, number: int, queue: str, *, evicted: bool = False) -> None:
    asks = workload(f"w{number}", 1, queue, number % 5)
    said = [condition("QuotaReserved", at=float(number))]
    said += [condition("Evicted")] if evicted else []
    there.put(replace(asks, admission=admission(asks, queue), conditions=tuple(said)))


@pytest.mark.parametrize("remembered", [3, 1000])
def test_what_is_read_again_is_what_is_read_anew(
    remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_LATEST", remembered)
    there, rng = scene(20), Random(1)
    known = Holders(there.view)
    for step in range(200):
        number = rng.randrange(30)
        match rng.randrange(4):
            case 0 if key(f"w{number}") in there.view.workloads:
                there.drop(there.view.workloads[key(f"w{number}")])
            case 1:
                there.put(workload(f"w{number}", 1, "a", number % 5))
            case choice:
                hold(there, number, "ab"[number % 2], evicted=choice == 2)
        if step % 3:
            continue
        for name in "ab":
            now, anew = known.held_in(name), Holders(there.view).held_in(name)
            assert (now.holders, now.leaving, now.lowest) == (
                anew.holders,
                anew.leaving,
                anew.lowest,
            )


def test_one_change_is_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    there, looks = scene(50), 0
    made = quota._holder

    def counting(*args: object) -> object:
        nonlocal looks
        looks += 1
        return made(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(quota, "_holder", counting)
    known = Holders(there.view)
    known.held_in("a")
    assert looks == 50
    hold(there, 7, "a", evicted=True)
    assert known.held_in("a").leaving == {key("w7")}
    assert looks == 51


def test_a_change_while_it_is_read_in_steps_is_seen() -> None:
    there = scene(3 * PIECE)
    known, pauses = Holders(there.view), 0
    for _ in known.reading("ab"):
        pauses += 1
        if pauses == 1:
            hold(there, 0, "a", evicted=True)
            there.drop(there.view.workloads[key("w1")])
        if pauses == 2:
            there.drop(there.view.workloads[key("w150")])
            hold(there, 1000, "a")
    assert pauses == 3
    assert known.held_in("a").holders == Holders(there.view).held_in("a").holders
    assert known.held_in("a").leaving == {key("w0")}


def test_a_cycle_reads_them_in_steps() -> None:
    there = scene(4 * PIECE)
    there.put(workload("late", 1, "b"))
    began = sum(1 for _ in there.decide_slowly())
    there.put(workload("later", 1, "b"))
    assert began - sum(1 for _ in there.decide_slowly()) == 4
