"""The domains of nodes where the pods of a pod set go, and the number of pods in each."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

Domain = tuple[str, ...]
"""The values of the labels of nodes, level by level."""


@dataclass(frozen=True, slots=True)
class DomainAssignment:
    """Numbers of pods by domain, in the order in which pods of growing index go there."""

    levels: tuple[str, ...]
    """Labels of nodes, from the largest unit to the smallest."""
    domains: tuple[tuple[Domain, int], ...]

    @property
    def count(self) -> int:
        """The number of pods that have a domain."""
        return sum(count for _, count in self.domains)

    def by_rank(self) -> Iterator[Domain]:
        """Yield the domain of each pod, from rank 0 on."""
        for domain, count in self.domains:
            for _ in range(count):
                yield domain

    def without_ranks(self, done: Collection[int]) -> Sequence[tuple[Domain, int]]:
        """Return the numbers of pods by domain, without those of some ranks."""
        if not done:
            return self.domains
        found, first = list[tuple[Domain, int]](), 0
        for domain, count in self.domains:
            found.append((domain, sum(n not in done for n in range(first, first + count))))
            first += count
        return found

    def of(self, labels: Mapping[str, str]) -> Domain | None:
        """Return the domain of a node with these labels; None where it is in none."""
        found = tuple(labels[level] for level in self.levels if level in labels)
        return found if len(found) == len(self.levels) else None

    def selector(self, domain: Domain) -> Mapping[str, str]:
        """Return the labels that the nodes of a domain have."""
        return dict(zip(self.levels, domain, strict=True))


def in_order(levels: tuple[str, ...], places: Iterable[Domain]) -> DomainAssignment:
    """Return an assignment with these places, from rank 0 on; a domain may be there twice."""
    runs = ((domain, sum(1 for _ in run)) for domain, run in groupby(places))
    return DomainAssignment(levels, tuple(runs))
