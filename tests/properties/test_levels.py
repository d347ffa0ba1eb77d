"""Pods in the domains of a tree of levels, against a search of everything."""

from collections import Counter
from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from extender.fit.domains import LevelRequest, Spread, spread
from extender.state.cluster.records import Domain

CASES = 1000
DEPTH = 3


@st.composite
def trees(draw: st.DrawFn) -> dict[Domain, int]:
    """Return how many pods each host takes, by block, rack and host."""
    return {
        (f"b{block}", f"r{block}{rack}", f"h{block}{rack}{host}"): draw(st.integers(0, 4))
        for block in range(draw(st.integers(1, 3)))
        for rack in range(draw(st.integers(1, 3)))
        for host in range(draw(st.integers(1, 3)))
    }


def summed(counts: dict[Domain, int], level: int) -> Counter[Domain]:
    found = Counter[Domain]()
    for domain, count in counts.items():
        found[domain[: level + 1]] += count
    return found


def units(tree: dict[Domain, int], level: int, *, slices: int, size: int) -> Counter[Domain]:
    """Return how many slices each domain of a level takes."""
    found = Counter[Domain]()
    for domain, count in summed(tree, slices).items():
        found[domain[: level + 1]] += count // size
    return found


def check(tree: dict[Domain, int], pods: int, found: Spread) -> None:
    """Check that all pods have a place, no domain more than it takes, and the order is theirs."""
    assert sum(count for _, count in found.counts) == pods
    assert all(0 < count <= tree[domain] for domain, count in found.counts)
    assert [*found.counts] == sorted(found.counts)


@given(trees(), st.integers(1, 12), st.integers(0, DEPTH - 1))
def test_pods_that_require_one_domain_are_never_in_two(
    tree: dict[Domain, int], pods: int, level: int
) -> None:
    found = spread(tree, pods, LevelRequest(level, required=True))
    best = max(summed(tree, level).values())
    assert (found.complete, found.fits) == (best >= pods, min(best, pods))
    if found.complete:
        check(tree, pods, found)
        assert len({domain[: level + 1] for domain, _ in found.counts}) == 1


@given(trees(), st.integers(1, 12), st.integers(0, DEPTH - 1))
def test_pods_that_prefer_a_level_go_up_until_one_domain_takes_them(
    tree: dict[Domain, int], pods: int, level: int
) -> None:
    found = spread(tree, pods, LevelRequest(level))
    assert found.complete == (sum(tree.values()) >= pods)
    if not found.complete:
        assert found.fits == sum(tree.values())
        return
    check(tree, pods, found)
    enough = [n for n in range(level + 1) if max(summed(tree, n).values()) >= pods]
    at = max(enough, default=None)
    if at is not None:
        assert len({domain[: at + 1] for domain, _ in found.counts}) == 1
    else:
        assert len({domain[:1] for domain, _ in found.counts}) == least(summed(tree, 0), pods)


@given(trees(), st.integers(1, 12))
def test_pods_without_a_wish_find_all_room_that_there_is(
    tree: dict[Domain, int], pods: int
) -> None:
    found = spread(tree, pods, LevelRequest(DEPTH - 1, unconstrained=True))
    assert found.complete == (sum(tree.values()) >= pods)
    if found.complete:
        check(tree, pods, found)


@given(trees(), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.data())
def test_slices_are_whole(
    tree: dict[Domain, int], slices: int, size: int, level: int, data: st.DataObject
) -> None:
    inside, required = data.draw(st.integers(level, DEPTH - 1)), data.draw(st.booleans())
    asked = LevelRequest(level, required=required, slice_level=inside, slice_size=size)
    found = spread(tree, slices * size, asked)
    there = units(tree, level, slices=inside, size=size)
    room = max(there.values()) if required else sum(there.values())
    assert found.complete == (room >= slices)
    assert found.fits == min(room, slices)
    if not found.complete:
        return
    check(tree, slices * size, found)
    for count in summed(dict(found.counts), inside).values():
        assert count % size == 0
    # Pods of subsequent indexes are a slice, and in one domain.
    ranks = [domain[: inside + 1] for domain, count in found.counts for _ in range(count)]
    assert all(len({*ranks[n : n + size]}) == 1 for n in range(0, len(ranks), size))


def test_large_domains_come_before_large_parts_of_them() -> None:
    tree: dict[Domain, int] = {
        ("b0", "r0", "h0"): 3,
        ("b1", "r1", "h1"): 3,
        **{("b2", f"r2{rack}", f"h2{rack}"): 2 for rack in range(3)},
    }
    found = spread(tree, 7, LevelRequest(0))
    assert {domain[0] for domain, _ in found.counts} == {"b0", "b2"}


def least(capacity: Counter[Domain], pods: int) -> int:
    """Return in how few domains so many pods fit, by trying all."""
    room = [*capacity.values()]
    return next(
        number
        for number in range(1, len(room) + 1)
        if any(sum(some) >= pods for some in combinations(room, number))
    )


def test_of_a_thousand_cases_nearly_all_have_as_few_domains_as_possible_on_every_level() -> None:
    random, good, judged = Random(12), Counter[int](), 0
    for _ in range(CASES):
        tree: dict[Domain, int] = {
            (f"b{b}", f"r{b}{r}", f"h{b}{r}{h}"): random.randint(0, 6)
            for b in range(random.randint(1, 3))
            for r in range(random.randint(1, 4))
            for h in range(random.randint(1, 4))
        }
        pods = random.randint(1, 40)
        if sum(tree.values()) < pods:
            continue
        judged += 1
        found = spread(tree, pods, LevelRequest(0))
        assert found.complete
        for level in range(2):
            used = {domain[: level + 1] for domain, _ in found.counts}
            inside = {d: n for d, n in tree.items() if d[:level] in {x[:level] for x in used}}
            good[level] += len(used) == least(summed(inside, level), pods)
    assert judged > CASES / 2
    assert all(good[level] >= 0.99 * judged for level in range(2)), (good, judged)
