"""The tables of room that is set aside for groups: by group, and by node."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from extender.resources.quantity import Resources, subtract
from extender.state.claims import Claim, Grant
from extender.state.nodes import NodeInfo


@dataclass(slots=True)
class SetAside:
    """Claims and grants. Written by `Cluster` only."""

    claims: dict[str, Claim] = field(default_factory=dict)
    """By group."""
    claimed: dict[str, dict[str, Claim]] = field(default_factory=dict)
    """By node: the claims on it, by group."""
    grants: dict[str, Grant] = field(default_factory=dict)
    """By group."""
    granted: dict[str, dict[str, Resources]] = field(default_factory=dict)
    """By node: what is granted of it, by group."""

    def claim(self, claims: Iterable[Claim]) -> set[str]:
        """Have these claims in place of those before; return the nodes that gained room by it."""
        before, self.claims = self.claims, {claim.group: claim for claim in claims}
        self.claimed = {}
        for claim in self.claims.values():
            for node in claim.rooms:
                self.claimed.setdefault(node, {})[claim.group] = claim
        ended = (claim for claim in before.values() if self.claims.get(claim.group) != claim)
        return {node for claim in ended for node in claim.rooms}

    def end_claim(self, group: str) -> Collection[str]:
        """Drop the claim of a group; return the nodes that it was on."""
        claim = self.claims.pop(group, None)
        if claim is None:
            return ()
        _take_off(self.claimed, claim.rooms, group)
        return claim.rooms.keys()

    def grant(self, group: str, grant: Grant) -> None:
        """Keep room for a group that has no grant."""
        self.grants[group] = grant
        for node, amounts in grant.rooms.items():
            self.granted.setdefault(node, {})[group] = dict(amounts)

    def end_grant(self, group: str) -> Collection[str]:
        """Drop the grant of a group; return the nodes that it was on."""
        grant = self.grants.pop(group, None)
        if grant is None:
            return ()
        _take_off(self.granted, grant.rooms, group)
        return grant.rooms.keys()

    def subtract_claims(self, free: Resources, node: str, *, least: int, group: str | None) -> None:
        """Take off what others than `group` claim of a node, with that priority or a higher one."""
        for claim in self.claimed[node].values():
            if claim.priority >= least and claim.group != group:
                subtract(free, claim.rooms[node])

    def subtract_grants(self, free: Resources, node: NodeInfo, *, group: str | None) -> None:
        """Take off what is granted of a node to others than `group`.

        More than the node has was never found on it: such amounts keep nothing.
        """
        for other, amounts in self.granted[node.name].items():
            if other != group and _is_within(amounts, node.allocatable):
                subtract(free, amounts)

    def validate(self) -> None:
        """Raise AssertionError where a table by node is not that by group."""
        claimed = {(node, c.group) for c in self.claims.values() for node in c.rooms}
        assert claimed == {(n, g) for n, there in self.claimed.items() for g in there}
        granted = {(node, g) for g, grant in self.grants.items() for node in grant.rooms}
        assert granted == {(n, g) for n, there in self.granted.items() for g in there}


def _is_within(amounts: Resources, whole: Mapping[str, int]) -> bool:
    return all(value <= whole.get(name, 0) for name, value in amounts.items())


def _take_off(by_node: dict[str, dict[str, Any]], nodes: Iterable[str], group: str) -> None:
    for node in nodes:
        there = by_node[node]
        del there[group]
        if not there:
            del by_node[node]
