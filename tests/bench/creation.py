"""Gangs that come while the scheduler runs: Jobs, created one after the other.

The job controller makes the pods, as it does in a cluster. Each PodGroup is there before its Job.
"""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
from typing_extensions import override

from tests.bench.load import NAMESPACE, POD_MEMORY, GroupKind, Load
from tests.bench.sightings import NEW, Sightings
from tests.harness import objects
from tests.harness.background import Background
from tests.harness.sessions import session

_JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_START_SECONDS: Final = 30.0
_CONNECTIONS: Final = 8
_WARM_UPS: Final = 3
_BURST: Final = "burst"
_RATE = re.compile(r"\d+(\.\d+)?", re.ASCII)


class PaceError(ValueError):
    """The text is not a pace."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many gangs are created each second; without a number one as soon as another is stored.

    Then gangs queue up before the job controller, too.
    """

    rate: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the pace of a text: `burst`, or gangs a second. Raises PaceError."""
        if text == _BURST:
            return cls()
        if _RATE.fullmatch(text) and float(text) > 0:
            return cls(float(text))
        raise PaceError(f"{text!r} is neither {_BURST} nor gangs a second")

    @override
    def __str__(self) -> str:
        return "created at once" if self.rate is None else f"created {self.rate:g} a second"


class Creation:
    """Creates the gangs of a load from `begin` on, and sees when each pod is there.

    Without a pace it does nothing: the pods are there before the scheduler is.
    """

    def __init__(self, kubeconfig: Path, load: Load, kind: GroupKind, pace: Pace | None) -> None:
        self._kubeconfig = kubeconfig
        self._load, self._kind, self._pace = load, kind, pace
        self._made = Sightings(kubeconfig, fields=NEW)
        self._background = Background("the creation of gangs", self._run)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if self._pace is not None:
            self._open.enter_context(self._made)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(self) -> None:
        """Begin to create them; they come while other things are done."""
        if self._pace is not None:
            self._background.start(_START_SECONDS)
            self._open.callback(self._background.stop)

    def check(self) -> None:
        """Raise RuntimeError where it broke."""
        if self._pace is not None:
            self._background.check()
            self._made.count()

    def times(self) -> dict[str, float]:
        """Return the monotonic times at which pods were first seen."""
        return self._made.times()

    async def _run(self) -> None:
        assert self._pace is not None
        gangs = [*self._load.gang_names()]
        async with session(self._kubeconfig, connections=_CONNECTIONS) as http:

            async def create(gang: str) -> None:
                await _create(http, gang, self._load, self._kind)

            # The first requests of a connection and of a kind take several times as long.
            for _ in range(_WARM_UPS):
                with suppress(RuntimeError):  # a webhook of a side may refuse a dry run
                    await _create(http, gangs[0], self._load, self._kind, query="?dryRun=All")
            self._background.began()
            if self._pace.rate is not None:
                await at_rate(gangs, self._pace.rate, create)
                return
            for gang in gangs:
                await create(gang)


async def at_rate(
    gangs: Sequence[str], rate: float, create: Callable[[str], Coroutine[Any, Any, None]]
) -> None:
    """Create so many gangs a second, each when it is due: a slow one holds up none behind it.

    Raises RuntimeError where one is not created.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        async with asyncio.TaskGroup() as tasks:
            for number, gang in enumerate(gangs):
                await asyncio.sleep(max(0.0, began + number / rate - clock()))
                tasks.create_task(create(gang))
    except* RuntimeError as group:
        raise RuntimeError(str(group.exceptions[0])) from group


async def _create(
    http: aiohttp.ClientSession, gang: str, load: Load, kind: GroupKind, *, query: str = ""
) -> None:
    group = kind.group(gang, load.size)
    job = objects.job(
        gang,
        load.size,
        namespace=NAMESPACE,
        indexed=True,
        cpu=load.pod_cpu,
        memory=POD_MEMORY,
        group=gang,
    )
    groups = f"/apis/{kind.api_version}/namespaces/{NAMESPACE}/podgroups"
    for url, body in ((groups, group), (_JOBS, job)):
        headers = {"Content-Type": "application/json"}
        async with http.post(url + query, data=json.dumps(body), headers=headers) as answer:
            if not answer.ok:
                raise RuntimeError(f"POST {url}: {answer.status} {await answer.text()}")
            await answer.read()
