"""Quantities survive being written, and the order of groups is total."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.gang.gates import sort_key
from extender.resources.quantity import (
    QuantityError,
    Resources,
    add,
    amount,
    parse,
    raise_to,
    show,
    subtract,
)
from tests.makers import cluster_of, key, pod, pod_group

AMOUNTS = st.integers(0, 2**63 - 1)
NAMES = st.sampled_from(["cpu", "memory", "pods", "example.com/gpu", "hugepages-2Mi"])
LISTS = st.dictionaries(NAMES, st.integers(1, 10**6), max_size=4)


@given(st.sampled_from(["cpu", "pods", "example.com/gpu"]), AMOUNTS)
def test_what_is_shown_reads_as_the_same(name: str, value: int) -> None:
    assert amount(name, show(name, value)) == value


@given(AMOUNTS)
def test_bytes_are_shown_rounded_up_by_less_than_a_tenth(value: int) -> None:
    shown = amount("memory", show("memory", value))

    assert value <= shown
    assert (shown - value) * 10 <= value


@given(NAMES, AMOUNTS)
def test_what_was_rounded_once_is_not_rounded_again(name: str, value: int) -> None:
    once = amount(name, show(name, value))

    assert amount(name, show(name, once)) == once


@given(st.integers(0, 10**6), st.sampled_from("numkMGTPE"))
def test_a_suffix_is_a_factor(number: int, suffix: str) -> None:
    assert parse(f"{number}{suffix}") == number * parse(f"1{suffix}")


@given(st.text(max_size=12))
def test_whatever_is_no_quantity_is_a_quantity_error(text: str) -> None:
    try:
        value = parse(text)
    except QuantityError:
        return
    assert value.is_finite()


@given(LISTS, LISTS)
def test_subtracting_takes_back_what_was_added(first: Resources, second: Resources) -> None:
    both = dict(first)
    add(both, second)
    subtract(both, second)

    assert both == first


@given(LISTS, LISTS)
def test_raising_gives_the_least_that_covers_both(first: Resources, second: Resources) -> None:
    both = dict(first)
    raise_to(both, second)

    assert both == {n: max(first.get(n, 0), second.get(n, 0)) for n in {*first, *second}}


GROUPS = st.lists(
    st.tuples(
        st.integers(0, 1),  # priority
        st.sampled_from([0.0, 1.0]),  # created
        st.booleans(),  # has a PodGroup
        st.integers(0, 2),  # pods
    ),
    min_size=2,
    max_size=6,
)


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_groups_is_total(groups: list[Any], random: Any) -> None:
    facts: list[Any] = []
    for number, (priority, created, real, pods) in enumerate(groups):
        facts += [pod_group(f"g{number}", created=created)] if real else []
        facts += [pod(f"g{number}-{n}", group=f"g{number}", priority=priority) for n in range(pods)]
    view = cluster_of(facts).view()
    names = [key(f"g{number}") for number in range(len(groups))]
    keys = {name: sort_key(name, view=view) for name in names}
    shuffled = list(names)
    random.shuffle(shuffled)

    assert len(set(keys.values())) == len(names)
    assert sorted(shuffled, key=keys.__getitem__) == sorted(names, key=keys.__getitem__)
