"""Warnings about settings that cannot be read, are limited or have no effect, each given once."""

from collections.abc import Callable, Hashable, Iterable, Iterator

from extender.api.kueue.without_effect import sentence
from extender.api.reasons import JobReason
from extender.state.queue.records import Meta

Reader = Callable[[Meta], Iterable[str]]
"""Returns a warning for each value that it cannot read."""


class SettingWarnings:
    """The last warnings by object; a new process repeats them."""

    def __init__(self, *readers: Reader) -> None:
        self._readers = readers
        self._known: dict[Hashable, dict[JobReason, str]] = {}

    def news(
        self, key: Hashable, meta: Meta, limited: Iterable[str] = ()
    ) -> Iterator[tuple[JobReason, str]]:
        """Yield the reason and text of warnings that are new; `limited` are texts on limits."""
        odd = [each for read in self._readers for each in read(meta)]
        before = self._known.pop(key, {})
        said = {
            JobReason.INVALID: "; ".join(odd),
            JobReason.OVERRIDE_LIMITED: "; ".join(limited),
            JobReason.NOT_HONOURED: sentence(meta.ignored),
        }
        if any(said.values()):
            self._known[key] = said
        for reason, text in said.items():
            if text and text != before.get(reason):
                yield reason, text

    def forget(self, key: Hashable) -> None:
        """Forget an object that is gone."""
        self._known.pop(key, None)
