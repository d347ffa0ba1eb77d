"""The answer of `simulate --submit` about a job, for the state that is shown."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from itertools import chain
from typing import Final, TypeVar

import structlog
import yaml
from nicegui import events, ui
from structlog.typing import EventDict

from extender.api.values import seconds
from extender.config.sections import SettingsError
from extender.resources.quantity import QuantityError, parse
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from gang_tools.page import parts
from gang_tools.page.access import Viewer
from gang_tools.page.following import FollowedCluster
from gang_tools.page.parts import Part, Parts, card, words
from gang_tools.simulate import answering
from gang_tools.simulate.answering import Forecast, UnknownJobError
from gang_tools.simulate.report import duration
from gang_tools.simulate.world import World

_LONGEST_MANIFEST: Final = 64 * 1024
_NO_FILE: Final = "It should be a .yaml, .yml or .json file of 64 KiB at most."
_LONGEST_SECONDS: Final = 20.0
"""The longest time in which a start is looked for: others wait for the answer."""
_MOST_ASKED: Final = 8
_NAME: Final = "the manifest"
_ESTIMATE_SECONDS: Final = 8.0
"""The longest time in which the starts of all that wait are looked for."""
_PAUSE_SECONDS: Final = 60.0  # between two estimates
_LOOK_SECONDS: Final = 1.0
_Late = Callable[[], bool]
_Found = TypeVar("_Found")
_OPTION: Final = ". Give a time with --assume"
"""The advice that the command gives; the page has a field for it."""
_NEVER: Final = "Nothing that is known makes room for it."
_SIMULATES: Final = ContextVar("simulates", default=False)
_QUANTITY: Final = re.compile(r"\.resources\.(requests|limits)\.[^[]+$")
_KINDS: Final = {dict: "fields", str: "text", int: "a whole number"}
_FIELDS: Final[Mapping[str, type]] = {
    "metadata": dict, "metadata.name": str, "metadata.namespace": str, "metadata.labels": dict,
    "metadata.annotations": dict, "spec": dict, "spec.parallelism": int, "spec.completions": int,
    "spec.template": dict, "spec.template.metadata": dict, "spec.template.spec": dict,
}  # fmt: skip
"""The fields that the answer reads in any kind of job, and their types."""


class Asking:
    """Answers one after the other, in a thread: the page goes on meanwhile."""

    def __init__(self, followed: FollowedCluster, clock: Clock) -> None:
        self._followed, self._clock, self._turn = followed, clock, asyncio.Lock()
        self._asked = set[str]()
        """The people whose questions are being answered or wait."""
        processors = structlog.get_config()["processors"]
        structlog.configure(processors=[_only_what_happens, *processors])

    async def forecast(self, manifest: str, runs: str, viewer: Viewer) -> Forecast:
        """Return what would become of a job that someone creates now.

        Pods run for `runs`, a duration or nothing, where they do not say it. Raises SettingsError
        and UnknownJobError.
        """
        assumed = seconds(runs) if runs else None
        if runs and assumed is None:
            raise SettingsError(f"{runs!r} should be a duration such as 5m or 1h30m")

        def play(world: World, late: _Late) -> Forecast:
            objects = _read(manifest, viewer)
            return answering.answer(world, objects, assumed=assumed, gives_up=late)

        if viewer.name in self._asked:
            raise SettingsError("your last question is not answered yet: try again in a minute")
        if len(self._asked) >= _MOST_ASKED:
            raise SettingsError("too many people ask at once: try again in a minute")
        self._asked.add(viewer.name)
        try:
            found = await self._played(assumed, play, within=_LONGEST_SECONDS)
        finally:
            self._asked.remove(viewer.name)
        known = [each for each in found.preempted if viewer.sees(each.partition("/")[0])]
        if len(known) < found.preempts:
            known.append(f"{found.preempts - len(known)} more")
        return found.model_copy(update={"preempted": known})

    async def keep_estimating(self, is_asked: Callable[[], bool]) -> None:
        """Estimate when what waits starts, until cancelled, while `is_asked` and things change."""
        seen = -1
        while True:
            asked = is_asked() and seen != self._followed.changes
            if asked:
                seen = self._followed.changes
                try:
                    starts = await self._played(None, answering.starts_of, within=_ESTIMATE_SECONDS)
                    self._followed.expect(starts)
                except Exception as error:  # noqa: BLE001 - the page goes on without estimates
                    self._followed.expect({})
                    FAULTS.report("page", error, key="starts")
            await asyncio.sleep(_PAUSE_SECONDS if asked else _LOOK_SECONDS)

    async def _played(
        self, assumed: float | None, play: Callable[[World, _Late], _Found], *, within: float
    ) -> _Found:
        """Return the result of `play` on the current state; it gives up after so many seconds."""
        async with self._turn:
            until = self._clock.monotonic() + within
            world = self._followed.world(assumed)

            def silently() -> _Found:
                _SIMULATES.set(True)  # in this thread's context
                return play(world, lambda: self._clock.monotonic() > until)

            return await asyncio.to_thread(silently)


def _only_what_happens(_: object, __: str, line: EventDict) -> EventDict:
    """Drop the lines of a simulation: nothing of it has happened."""
    if _SIMULATES.get():
        raise structlog.DropEvent
    return line


def _read(manifest: str, viewer: Viewer) -> list[answering.Object]:
    """Return the objects of a manifest, in namespaces that are visible. Raises SettingsError."""
    if len(manifest) > _LONGEST_MANIFEST:
        raise SettingsError(f"{_NAME} is longer than {_LONGEST_MANIFEST} characters")
    with suppress(yaml.YAMLError):  # reported below
        # A few lines that name each other again and again take more memory than there is.
        if any(isinstance(each, yaml.AliasToken) for each in yaml.scan(manifest)):
            raise SettingsError(f"{_NAME} has an alias, *NAME: write out what it stands for")
    try:
        objects = answering.parsed(manifest, _NAME)
        for path, value in chain.from_iterable(map(_fields, objects)):
            _check(path, value)
    except RecursionError:
        raise SettingsError(f"{_NAME} is nested too deeply") from None
    for each in objects:
        namespace = (each.get("metadata") or {}).get("namespace") or "default"
        if not viewer.sees(namespace):
            raise SettingsError(f"you may not see what is in the namespace {namespace}")
    return objects


def _fields(part: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield every field of a part of a manifest, with its path."""
    if path:
        yield path, part
    if isinstance(part, dict):
        for name, each in part.items():
            yield from _fields(each, f"{path}.{name}" if path else str(name))
    elif isinstance(part, list):
        for number, each in enumerate(part):
            yield from _fields(each, f"{path}[{number}]")


def _check(path: str, value: object) -> None:
    """Raise SettingsError with the name of a field that no API server would take."""
    kind = _FIELDS.get(path)
    if kind is not None and value is not None and type(value) is not kind:
        raise SettingsError(f"{_NAME}: {path} should be {_KINDS[kind]}, and is {value!r:.80}")
    if _QUANTITY.search(path) and isinstance(value, str):
        try:
            parse(value)
        except QuantityError as error:
            raise SettingsError(f"{_NAME}: {path}: {error}") from error


def asking(answers: Asking, viewer: Viewer) -> None:
    """Show a form for a manifest, and under it what would become of its job."""
    with card("What if this job came now?"):
        manifest = ui.textarea(placeholder="apiVersion: batch/v1\nkind: Job\n…")
        manifest.props('outlined rows=14 aria-label="Manifest"').classes("manifest")
        with ui.element("div").classes("filters"):
            runs = ui.input("Pods run for, such as 1h").props("dense outlined")
            ask = ui.button("Ask").props("no-caps")
            upload = ui.upload(label="or a file", auto_upload=True, max_files=1)
            upload.props(
                f'flat bordered accept=.yaml,.yml,.json max-file-size="{_LONGEST_MANIFEST}"'
            )
        words("Nothing is created.", "quiet", "p")
    answer = Parts()

    async def read(event: events.UploadEventArguments) -> None:
        manifest.value = (await event.file.read()).decode(errors="replace")
        upload.reset()

    async def show() -> None:
        ask.disable()
        try:
            found = await answers.forecast(manifest.value or "", (runs.value or "").strip(), viewer)
            shown = [
                Part("answer", found, _draw),
                *parts.on_nodes("Where its pods would go", found.nodes),
            ]
        except (SettingsError, UnknownJobError) as error:
            shown = [Part("wrong", str(error), parts.warn)]
        finally:
            ask.enable()
        answer.show(shown)

    upload.on_upload(read)
    upload.on_rejected(lambda: ui.notify(_NO_FILE))
    ask.on_click(show)


def _draw(found: Forecast) -> None:
    state = "would start now" if found.starts_now else "would wait"
    at = found.starts_in_seconds
    later = f"In {duration(at)}." if at is not None else _NEVER
    with card():
        with ui.element("div").classes("title"):
            words(found.job, tag="h1")
            words(state, f"state {'good' if found.starts_now else 'waits'}")
        parts.facts(
            {
                "Lacks now": found.lacks,
                "Starts at the earliest": "" if found.starts_now else later,
                "Jobs that wait already": found.waits_for or "",
                "Preempts": ", ".join(found.preempted) or "nothing",
            }
        )
        for each in found.assumptions:
            words(f"Assumed: {each.removesuffix(_OPTION)}.", "quiet", "p")
