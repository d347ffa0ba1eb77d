"""Which replica makes the certificate of the webhooks, and when it is served."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from extender.controllers.webhooks import (
    CertificateError,
    Certificates,
    GivenFiles,
    MadeByUs,
)
from extender.kube.certificates import Bundle, CertificateSecret, fault, issue
from extender.kube.errors import ApiError, ConflictError, UnavailableError
from extender.runtime.faults import Backoff
from tests.makers import ManualClock

DAY = 86400.0
NOW = 1_800_000_000.0
NAMES = ["hooks.ns.svc"]


class Shared(CertificateSecret):
    """A Secret with a version, which another replica may write first."""

    def __init__(self) -> None:
        self.kept: Bundle | None = None
        self.version = 0
        self.first: Callable[[], None] = lambda: None

    @override
    async def read(self) -> Bundle | None:
        return replace(self.kept, version=str(self.version)) if self.kept else None

    @override
    async def create(self, kept: Bundle) -> None:
        self._another_writer()
        if self.kept is not None:
            raise ConflictError("there is one")
        self.put(kept)

    @override
    async def replace(self, kept: Bundle, *, version: str) -> None:
        self._another_writer()
        if version != str(self.version):
            raise ConflictError("it has changed")
        self.put(kept)

    def put(self, kept: Bundle) -> None:
        self.kept, self.version = kept, self.version + 1

    def _another_writer(self) -> None:
        first, self.first = self.first, lambda: None
        first()


class Cluster:
    """Trusts what it is given, or says why not."""

    def __init__(self) -> None:
        self.trusts = b""
        self.error: ApiError | None = None

    async def publish(self, authorities: bytes) -> bool:
        if self.error is not None:
            raise self.error
        news = authorities != self.trusts
        self.trusts = authorities
        return news


class Replica:
    """One process, with what it serves."""

    def __init__(self, source: MadeByUs | GivenFiles, scene: "Scene") -> None:
        self.served: list[Bundle] = []
        self.certificates = Certificates(
            source,
            publish=scene.cluster.publish,
            adopt=self._adopt,
            clock=scene.clock,
            backoff=Backoff(1, 1, jitter=lambda: 1.0),
            every=1,
        )
        self.look = self.certificates.look

    async def _adopt(self, bundle: Bundle) -> None:
        self.served.append(bundle)

    @property
    def now(self) -> Bundle:
        return self.served[-1]


class Scene:
    """A Secret and a cluster that replicas share."""

    def __init__(self) -> None:
        self.clock, self.shared, self.cluster = ManualClock(NOW), Shared(), Cluster()

    def replica(self) -> Replica:
        source = MadeByUs(self.shared, names=NAMES, days=90, clock=self.clock)
        return Replica(source, self)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_the_first_makes_it_and_the_second_takes_it(scene: Scene) -> None:
    first, second = (scene.replica() for _ in range(2))
    await first.look()
    await second.look()

    assert first.served == second.served
    assert len(first.served) == 1
    assert fault(first.now, NAMES, now=NOW) == ""
    assert (scene.shared.version, scene.cluster.trusts) == (1, first.now.authorities)


async def test_the_second_replica_takes_the_certificate_of_the_first(scene: Scene) -> None:
    theirs = issue(NAMES, now=NOW, days=90)
    scene.shared.first = lambda: scene.shared.put(theirs)
    ours = scene.replica()

    await ours.look()

    assert ours.served == [theirs]


async def test_nothing_is_done_twice(scene: Scene) -> None:
    ours = scene.replica()
    for _ in range(3):
        await ours.look()

    assert (len(ours.served), scene.shared.version) == (1, 1)


async def test_a_renewed_certificate_is_served_only_after_its_authority_is_published(
    scene: Scene,
) -> None:
    ours, other = (scene.replica() for _ in range(2))
    await ours.look()
    await other.look()
    before = ours.now
    scene.clock.now += 61 * DAY

    await ours.look()
    assert ours.now == before
    assert scene.cluster.trusts.endswith(before.authorities)
    assert scene.cluster.trusts != before.authorities
    await ours.look()
    assert ours.now != before
    assert ours.now.authorities == scene.cluster.trusts
    old = replace(other.now, authorities=scene.cluster.trusts)
    assert fault(old, NAMES, now=scene.clock.now) == ""
    await other.look()
    assert (other.now, scene.shared.version) == (ours.now, 2)


async def test_one_that_has_ended_is_not_served_any_longer(scene: Scene) -> None:
    ours = scene.replica()
    await ours.look()
    scene.clock.now += 91 * DAY

    await ours.look()

    assert fault(ours.now, NAMES, now=scene.clock.now) == ""
    assert len(ours.served) == 2


@pytest.mark.parametrize("part", ["authorities", "certificate", "key"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
async def test_a_broken_one_is_replaced_and_what_is_served_stays_trusted(
    scene: Scene, part: str, content: bytes
) -> None:
    ours = scene.replica()
    await ours.look()
    before = ours.now
    assert scene.shared.kept is not None
    changed: dict[str, Any] = {part: content}
    scene.shared.put(replace(scene.shared.kept, **changed))

    await ours.look()

    assert scene.shared.version == 3
    assert fault(replace(before, authorities=scene.cluster.trusts), NAMES, now=NOW) == ""
    await ours.look()
    assert ours.now != before
    assert fault(ours.now, NAMES, now=NOW) == ""


async def test_a_certificate_is_served_even_if_its_authority_cannot_be_published(
    scene: Scene,
) -> None:
    scene.cluster.error = UnavailableError("away")
    ours = scene.replica()

    with pytest.raises(UnavailableError):
        await ours.look()
    assert len(ours.served) == 1

    scene.clock.now += 61 * DAY
    with pytest.raises(UnavailableError):
        await ours.look()
    assert len(ours.served) == 1


async def test_a_secret_that_never_holds_still_is_given_up(scene: Scene) -> None:
    def again() -> None:
        scene.shared.put(Bundle(b"", b"", b""))
        scene.shared.first = again

    scene.shared.first = again
    with pytest.raises(ApiError, match="changes all the time"):
        await scene.replica().look()


def files(folder: Path, bundle: Bundle, clock: ManualClock, *, reported: bool) -> GivenFiles:
    certificate, key, ca = (folder / name for name in ("c.pem", "k.pem", "ca.pem"))
    certificate.write_bytes(bundle.certificate)
    key.write_bytes(bundle.key)
    ca.write_bytes(bundle.authorities)
    return GivenFiles(certificate, key, ca if reported else None, clock)


@pytest.mark.parametrize("reported", [False, True])
async def test_files_are_served_and_read_again(
    scene: Scene, tmp_path: Path, *, reported: bool
) -> None:
    first, second = (issue(["any"], now=NOW, days=9) for _ in range(2))
    ours = Replica(files(tmp_path, first, scene.clock, reported=reported), scene)
    await ours.look()
    assert ours.now.certificate == first.certificate

    files(tmp_path, second, scene.clock, reported=reported)
    await ours.look()
    await ours.look()

    assert ours.now.certificate == second.certificate
    assert scene.cluster.trusts == (second.authorities if reported else b"")


async def test_files_that_cannot_be_served_leave_what_is(scene: Scene, tmp_path: Path) -> None:
    first = issue(["any"], now=NOW, days=9)
    ours = Replica(files(tmp_path, first, scene.clock, reported=True), scene)
    await ours.look()
    (tmp_path / "k.pem").write_bytes(b"garbage")

    with pytest.raises(CertificateError, match=r"c\.pem: it cannot be read"):
        await ours.look()
    (tmp_path / "k.pem").unlink()
    with pytest.raises(CertificateError, match=r"k\.pem: No such file"):
        await ours.look()

    assert ours.served == [first]
