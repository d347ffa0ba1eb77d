"""What the bindings come to, added up by the stand-in for the API server: what must not be."""

from collections import Counter

from tests.bench.extender.scene import MEMBER, NODE, RUNNING, Scene, node_name, pod_name


class Ledger:
    """Which pod is on which node, and what that takes of each node."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.nodes: dict[int, int] = {}
        """By pod that came."""
        self._used = [
            {what: amount * scene.on(node) for what, amount in RUNNING.items()}
            for node in range(scene.nodes)
        ]
        self._members: Counter[int] = Counter()
        self.whole = 0
        """How many gangs have all their members on nodes."""
        self._twice: list[str] = []
        self._over: dict[int, str] = {}

    def bind(self, number: int, node: int) -> bool:
        """Put a pod on a node; return False where it is on one already, as an API server would."""
        if number in self.nodes:
            name = pod_name(self._scene, number)
            on, to = node_name(self.nodes[number]), node_name(node)
            self._twice.append(f"{name} is on {on} and was bound to {to}")
            return False
        self.nodes[number] = node
        gang = self._scene.gang_of(number)
        self._members[gang] += 1
        self.whole += self._members[gang] == self._scene.size
        used = self._used[node]
        for what, amount in MEMBER.items():
            used[what] += amount
            if used[what] > NODE[what]:
                text = f"{node_name(node)} has {NODE[what]} {what}, and {used[what]} are used"
                self._over[node] = text
        return True

    def faults(self) -> list[str]:
        """Return, as sentences, what must not be once everything has come to rest."""
        size = self._scene.size
        partial = [
            f"gang-{gang} has {count} of {size} members on nodes"
            for gang, count in sorted(self._members.items())
            if count < size
        ]
        missing = self._scene.gangs - len(self._members)
        unbound = [f"{missing} gangs have no member on a node"] if missing else []
        return [*partial, *unbound, *self._twice, *self._over.values()]
