"""Domains of a label against a search of everything, with pods of one kind and of two."""

from collections.abc import Sequence
from itertools import combinations
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.fit import domains
from extender.gang.fit import MOST_TRIES, Fit, in_one
from extender.state.cluster.records import NodeInfo
from extender.steps import Steps, at_once
from tests.at_once import fitted
from tests.makers import node, pod, pod_group, pods, shape

RACK = "example.com/rack"
SIZES = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), min_size=1, max_size=5)
"""CPU of nodes, by domain."""
CASES = 1000


def made(sizes: Sequence[Sequence[int]]) -> list[NodeInfo]:
    return [
        node(f"n{domain}-{number}", cpu, labels={RACK: f"r{domain}"})
        for domain, cpus in enumerate(sizes)
        for number, cpu in enumerate(cpus)
    ]


def placed(sizes: Sequence[Sequence[int]], count: int, cpu: int, **asked: Any) -> Fit:
    return fitted(pods(count, cpu), made(sizes), pod_group(min_member=count, **asked))


def used(found: Fit) -> set[str]:
    return {name.partition("-")[0] for name in found.placements.values()}


def fewest(sizes: Sequence[Sequence[int]], count: int, cpu: int) -> int | None:
    """Return in how few domains so many equal pods fit, by trying all; None where in none."""
    room = [sum(each // cpu for each in cpus) for cpus in sizes]
    for number in range(1, len(room) + 1):
        if any(sum(some) >= count for some in combinations(room, number)):
            return number
    return None


@given(SIZES, st.integers(1, 8), st.integers(1, 3))
def test_equal_pods_are_in_one_domain_where_one_takes_them(
    sizes: list[list[int]], count: int, cpu: int
) -> None:
    found = placed(sizes, count, cpu, required_topology=RACK)
    best = max(sum(each // cpu for each in cpus) for cpus in sizes)
    assert found.complete == (best >= count)
    assert len(found.placements) == min(best, count)
    assert len(used(found)) <= 1


@given(SIZES, st.integers(1, 8), st.integers(1, 3))
def test_equal_pods_are_in_as_few_domains_as_possible(
    sizes: list[list[int]], count: int, cpu: int
) -> None:
    found = placed(sizes, count, cpu, preferred_topology=RACK)
    least = fewest(sizes, count, cpu)
    assert found.complete == (least is not None)
    if least is not None:
        assert len(used(found)) == least


@given(SIZES, st.integers(1, 8), st.integers(1, 3), st.sets(st.integers(0, 4), max_size=4))
def test_what_is_lost_adds_as_few_domains_as_possible(
    sizes: list[list[int]], count: int, cpu: int, pinned: set[int]
) -> None:
    """Members that run ask for nothing, and are in some of the domains."""
    pinned = {each for each in pinned if each < len(sizes)}
    old = [pod(f"old-{each}", shape(0), group="gang", on=f"n{each}-0") for each in pinned]
    group = pod_group(min_member=count + len(old), preferred_topology=RACK)
    found = fitted(pods(count, cpu), made(sizes), group, old)
    room = [sum(each // cpu for each in cpus) for cpus in sizes]
    rest = max(0, count - sum(room[each] for each in pinned))
    others = [cpus for number, cpus in enumerate(sizes) if number not in pinned]
    least = fewest(others, rest, cpu) if rest else 0
    assert found.complete == (least is not None)
    if least is not None:
        assert len(used(found) - {f"n{each}" for each in pinned}) == least


@given(SIZES, st.integers(1, 3), st.integers(1, 3))
def test_unlike_pods_fit_in_a_domain_wherever_they_fit_on_its_nodes_alone(
    sizes: list[list[int]], small: int, large: int
) -> None:
    members = [
        *(pod(f"small-{number}", 1, group="gang") for number in range(small)),
        *(pod(f"large-{number}", 3, group="gang") for number in range(large)),
    ]
    count = len(members)
    there, group = made(sizes), pod_group(min_member=count, required_topology=RACK)
    alone = [fitted(members, each).complete for each in domains.by_label(there, RACK).values()]
    found = fitted(members, there, group)
    assert found.complete == any(alone)
    assert len(used(found)) <= 1


AMOUNTS = st.tuples(st.integers(0, 4), st.integers(0, 4))
"""CPU and GPUs."""


@given(
    st.lists(st.lists(AMOUNTS, min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(AMOUNTS, min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_a_domain_is_never_thought_to_take_fewer_unlike_pods_than_it_does(
    sizes: list[list[tuple[int, int]]], asked: list[tuple[int, int]], spare: int
) -> None:
    """`spare` pods are not needed: those that ask for least are enough."""
    members = [
        pod(f"m{number}", shape(cpu, gpu=gpu), group="gang")
        for number, (cpu, gpu) in enumerate(asked)
    ]
    there = [
        node(f"n{domain}-{number}", cpu, gpu=gpu, labels={RACK: f"r{domain}"})
        for domain, some in enumerate(sizes)
        for number, (cpu, gpu) in enumerate(some)
    ]
    wanted = max(1, len(members) - spare)
    group = pod_group(min_member=wanted, required_topology=RACK)
    alone = [
        fitted(members, each, wanted=wanted).complete
        for each in domains.by_label(there, RACK).values()
    ]
    found = fitted(members, there, group, wanted=wanted)
    assert found.complete == any(alone)


@given(st.lists(st.integers(0, 9), min_size=20, max_size=30), st.booleans())
def test_the_most_that_one_domain_takes_is_found_with_few_tries_of_unlike_pods(
    takes: list[int], equal: bool
) -> None:
    """By counts each takes nine of ten, and so none has to be tried for a place."""
    there = {f"r{number}": [node(f"n{number}")] for number in range(len(takes))}
    tried: list[int] = []

    def fill(among: Sequence[NodeInfo] | None) -> Steps[Fit]:
        tried.extend(takes[int(each.name[1:])] for each in among or ())
        yield
        return Fit({str(number): "n" for number in range(tried[-1])}, 10)

    at_most = dict.fromkeys(there, 9)
    found = at_once(
        in_one(there, 10, at_most=at_most, equal=equal, first=there.__contains__, fill=fill)
    )
    assert found.count == max(tried)
    assert equal or len(tried) <= MOST_TRIES
    assert not equal or found.count == max(takes)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 6)), st.integers(1, 20))
def test_the_fewest_take_all_and_the_last_could_not_be_smaller(
    capacity: dict[str, int], wanted: int
) -> None:
    chosen = domains.fewest(capacity, wanted)
    assert bool(chosen) == (sum(capacity.values()) >= wanted)
    if chosen:
        rest = wanted - sum(capacity[value] for value in chosen[:-1])
        smaller = (n for value, n in capacity.items() if value not in chosen)
        assert not any(rest <= n < capacity[chosen[-1]] for n in smaller)


def test_of_a_thousand_cases_all_but_ten_use_the_fewest_domains() -> None:
    random, equal = Random(1), 0
    for _ in range(CASES):
        sizes = [[random.randint(0, 8) for _ in range(random.randint(1, 4))] for _ in range(6)]
        cpu = random.randint(1, 3)
        room = sum(each // cpu for cpus in sizes for each in cpus)
        count = random.randint(1, max(1, min(room, 40)))
        least = fewest(sizes, count, cpu)
        found = placed(sizes, count, cpu, preferred_topology=RACK)
        equal += least is None or len(used(found)) == least
    assert equal >= 990
