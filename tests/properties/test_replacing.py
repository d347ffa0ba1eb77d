"""Places in place of lost ones, against a search of everything."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from extender.fit.domains import LevelRequest, spread
from extender.room.domains import Replacement, replaced
from extender.state.cluster.records import Domain
from tests.properties.test_levels import DEPTH, summed, trees


def ranks_of(tree: dict[Domain, int], pods: int, asked: LevelRequest) -> list[Domain]:
    found = spread(tree, pods, asked)
    return [domain for domain, count in found.counts for _ in range(count)]


def after(
    tree: dict[Domain, int], ranks: list[Domain], gone: set[Domain]
) -> tuple[list[Domain | None], dict[Domain, int]]:
    """Return the places that stay, and what is left of the domains once some are gone."""
    stay = [None if place in gone else place for place in ranks]
    used = Counter(ranks)
    return stay, {d: n - used[d] for d, n in tree.items() if d not in gone}


def check(stay: list[Domain | None], left: dict[Domain, int], found: Replacement) -> None:
    """Check that what stays has not moved, and that no domain takes more than it can."""
    assert len(found.ranks) == len(stay)
    new = Counter[Domain]()
    for before, now in zip(stay, found.ranks, strict=True):
        if before is None:
            new[now] += 1
        else:
            assert before == now
    assert all(count <= left.get(domain, 0) for domain, count in new.items())


@given(trees(), st.integers(1, 12), st.integers(0, DEPTH - 1), st.booleans(), st.data())
def test_lost_places_are_replaced_where_there_is_room_and_nothing_else_moves(
    tree: dict[Domain, int], pods: int, level: int, required: bool, data: st.DataObject
) -> None:
    asked = LevelRequest(level, required=required)
    ranks = ranks_of(tree, pods, asked)
    if not ranks:
        return
    gone = {*data.draw(st.lists(st.sampled_from(ranks), min_size=1, max_size=3))}
    stay, left = after(tree, ranks, gone)
    kept = [place for place in stay if place]
    found = replaced(stay, left, asked)
    within = kept[0][: level + 1] if kept and required else ()
    room = sum(n for d, n in left.items() if d[: len(within)] == within)
    if required and not kept:
        room = max(summed(left, level).values(), default=0)
    assert found.complete == (room >= stay.count(None))
    if not found.complete:
        return
    check(stay, left, found)
    if required:
        assert len({place[: level + 1] for place in found.ranks}) == 1
    if kept and len(gone) == 1 and stay.count(None) == 1:
        # As near to a neighbour as any room is.
        [at] = [rank for rank, place in enumerate(stay) if place is None]
        near = next(
            place for off in range(len(stay)) for r in (at - off, at + off)
            if 0 <= r < len(stay) and (place := stay[r])
        )  # fmt: skip
        best = max(_shared(near, d) for d, n in left.items() if n)
        assert _shared(near, found.ranks[at]) == best


def _shared(one: Domain, other: Domain) -> int:
    """Return how many of the levels above the lowest two domains have in common."""
    return next((n for n in range(DEPTH - 1) if one[n] != other[n]), DEPTH - 1)


@given(trees(), st.integers(1, 4), st.integers(1, 4), st.integers(0, DEPTH - 1), st.data())
def test_slices_stay_whole(
    tree: dict[Domain, int], slices: int, size: int, inside: int, data: st.DataObject
) -> None:
    asked = LevelRequest(0, slice_level=inside, slice_size=size)
    ranks = ranks_of(tree, slices * size, asked)
    if not ranks:
        return
    gone = {*data.draw(st.lists(st.sampled_from(ranks), min_size=1, max_size=2))}
    stay, left = after(tree, ranks, gone)
    found = replaced(stay, left, asked)
    if not found.complete:
        assert found.fits < stay.count(None)
        return
    check(stay, left, found)
    where = [place[: inside + 1] for place in found.ranks]
    assert all(len({*where[n : n + size]}) == 1 for n in range(0, len(where), size))


@given(trees(), st.integers(2, 4), st.integers(1, 4), st.integers(0, DEPTH - 2), st.data())
def test_the_rest_of_a_slice_is_joined_wherever_its_domain_has_room(
    tree: dict[Domain, int], size: int, slices: int, inside: int, data: st.DataObject
) -> None:
    asked = LevelRequest(0, slice_level=inside, slice_size=size)
    ranks = ranks_of(tree, slices * size, asked)
    if not ranks:
        return
    gone = {data.draw(st.sampled_from(ranks))}
    stay, left = after(tree, ranks, gone)
    rests = [stay[n : n + size] for n in range(0, len(stay), size)]
    if any(None in rest and not any(rest) for rest in rests):
        return  # a whole slice: it may go anywhere
    wanted = Counter[Domain]()
    for rest in rests:
        wanted[next(filter(None, rest))[: inside + 1]] += rest.count(None)
    room = summed(left, inside)
    found = replaced(stay, left, asked)
    assert found.complete == all(room[domain] >= count for domain, count in wanted.items())
