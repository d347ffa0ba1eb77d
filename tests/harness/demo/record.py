"""What the demo expected and what it saw, step by step."""

from dataclasses import dataclass, field


class UnexpectedError(Exception):
    """A step did not end as it should have; it is the last one of the record."""


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the table at the end."""

    scene: str
    what: str
    want: str
    seen: str
    seconds: float
    held: bool


@dataclass(slots=True)
class Record:
    """All steps so far."""

    steps: list[Step] = field(default_factory=list)
    scene: str = ""

    def add(
        self, what: str, *, want: str, seen: str, seconds: float, held: bool | None = None
    ) -> Step:
        """Record a step; it held if `seen` is `want`, where `held` does not say it.

        Raises UnexpectedError when it did not.
        """
        held = seen == want if held is None else held
        step = Step(self.scene, what, want, seen, seconds, held)
        self.steps.append(step)
        if not held:
            raise UnexpectedError(f"scene {self.scene}, {what}\n  expected: {want}\n  seen: {seen}")
        return step
