"""Which replica makes the certificate of the webhooks, and when it is served."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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

DAY = 86400.0
NOW = 1_800_000_000.0
NAMES = ["hooks.ns.svc"]


class Now:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.at = NOW

    def monotonic(self) -> float:
        return self.at

    def wall(self) -> float:
        return self.at


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

    def hold(self, bundle: Bundle) -> None:
        self.put(bundle)

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

    def __init__(self, source: MadeByUs | GivenFiles, cluster: Cluster, clock: Now) -> None:
        self.served: list[Bundle] = []
        self.certificates = Certificates(
            source,
            publish=cluster.publish,
            adopt=self._adopt,
            clock=clock,
            backoff=Backoff(1, 1, jitter=lambda: 1.0),
            every=1,
        )
        self.look = self.certificates.look

    async def _adopt(self, bundle: Bundle) -> None:
        self.served.append(bundle)

    @property
    def now(self) -> Bundle:
        return self.served[-1]


@pytest.fixture
def clock() -> Now:
    return Now()


@pytest.fixture
def shared() -> Shared:
    return Shared()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def replica(shared: Shared, cluster: Cluster, clock: Now) -> Replica:
    source = MadeByUs(shared, names=NAMES, days=90, clock=clock)
    return Replica(source, cluster, clock)


async def test_the_first_makes_it_and_the_second_takes_it(
    shared: Shared, cluster: Cluster, clock: Now
) -> None:
    first, second = (replica(shared, cluster, clock) for _ in range(2))
    await first.look()
    await second.look()

    assert first.served == second.served
    assert len(first.served) == 1
    assert fault(first.now, NAMES, now=NOW) == ""
    assert (shared.version, cluster.trusts) == (1, first.now.authorities)


async def test_the_second_replica_takes_the_certificate_of_the_first(
    shared: Shared, cluster: Cluster, clock: Now
) -> None:
    theirs = issue(NAMES, now=NOW, days=90)
    shared.first = lambda: shared.hold(theirs)
    ours = replica(shared, cluster, clock)

    await ours.look()

    assert ours.served == [theirs]


async def test_nothing_is_done_twice(shared: Shared, cluster: Cluster, clock: Now) -> None:
    ours = replica(shared, cluster, clock)
    for _ in range(3):
        await ours.look()

    assert (len(ours.served), shared.version) == (1, 1)


async def test_a_renewed_certificate_is_served_only_after_its_authority_is_published(
    shared: Shared, cluster: Cluster, clock: Now
) -> None:
    ours, other = (replica(shared, cluster, clock) for _ in range(2))
    await ours.look()
    await other.look()
    before = ours.now
    clock.at += 61 * DAY

    await ours.look()
    assert ours.now == before
    assert cluster.trusts.endswith(before.authorities)
    assert cluster.trusts != before.authorities
    await ours.look()
    assert ours.now != before
    assert ours.now.authorities == cluster.trusts
    assert fault(replace(other.now, authorities=cluster.trusts), NAMES, now=clock.at) == ""
    await other.look()
    assert (other.now, shared.version) == (ours.now, 2)


async def test_one_that_has_ended_is_not_served_any_longer(
    shared: Shared, cluster: Cluster, clock: Now
) -> None:
    ours = replica(shared, cluster, clock)
    await ours.look()
    clock.at += 91 * DAY

    await ours.look()

    assert fault(ours.now, NAMES, now=clock.at) == ""
    assert len(ours.served) == 2


@pytest.mark.parametrize("part", ["authorities", "certificate", "key"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
async def test_a_broken_one_is_replaced_and_what_is_served_stays_trusted(
    shared: Shared, cluster: Cluster, clock: Now, part: str, content: bytes
) -> None:
    ours = replica(shared, cluster, clock)
    await ours.look()
    before = ours.now
    assert shared.kept is not None
    match part:
        case "authorities":
            shared.put(replace(shared.kept, authorities=content))
        case "certificate":
            shared.put(replace(shared.kept, certificate=content))
        case _:
            shared.put(replace(shared.kept, key=content))

    await ours.look()

    assert shared.version == 3
    assert fault(replace(before, authorities=cluster.trusts), NAMES, now=NOW) == ""
    await ours.look()
    assert ours.now != before
    assert fault(ours.now, NAMES, now=NOW) == ""


async def test_a_certificate_is_served_even_if_its_authority_cannot_be_published(
    shared: Shared, cluster: Cluster, clock: Now
) -> None:
    cluster.error = UnavailableError("away")
    ours = replica(shared, cluster, clock)

    with pytest.raises(UnavailableError):
        await ours.look()
    assert len(ours.served) == 1

    clock.at += 61 * DAY
    with pytest.raises(UnavailableError):
        await ours.look()
    assert len(ours.served) == 1


async def test_a_secret_that_never_holds_still_is_given_up(
    shared: Shared, cluster: Cluster, clock: Now
) -> None:
    def again() -> None:
        shared.put(Bundle(b"", b"", b""))
        shared.first = again

    shared.first = again
    with pytest.raises(ApiError, match="changes all the time"):
        await replica(shared, cluster, clock).look()


def files(folder: Path, bundle: Bundle, clock: Now, *, reported: bool) -> GivenFiles:
    certificate, key, ca = (folder / name for name in ("c.pem", "k.pem", "ca.pem"))
    certificate.write_bytes(bundle.certificate)
    key.write_bytes(bundle.key)
    ca.write_bytes(bundle.authorities)
    return GivenFiles(certificate, key, ca if reported else None, clock)


@pytest.mark.parametrize("reported", [False, True])
async def test_files_are_served_and_read_again(
    cluster: Cluster, clock: Now, tmp_path: Path, *, reported: bool
) -> None:
    first, second = (issue(["any"], now=NOW, days=9) for _ in range(2))
    ours = Replica(files(tmp_path, first, clock, reported=reported), cluster, clock)
    await ours.look()
    assert ours.now.certificate == first.certificate

    files(tmp_path, second, clock, reported=reported)
    await ours.look()
    await ours.look()

    assert ours.now.certificate == second.certificate
    assert cluster.trusts == (second.authorities if reported else b"")


async def test_files_that_cannot_be_served_leave_what_is(
    cluster: Cluster, clock: Now, tmp_path: Path
) -> None:
    first = issue(["any"], now=NOW, days=9)
    ours = Replica(files(tmp_path, first, clock, reported=True), cluster, clock)
    await ours.look()
    (tmp_path / "k.pem").write_bytes(b"garbage")

    with pytest.raises(CertificateError, match=r"c\.pem: it cannot be read"):
        await ours.look()
    (tmp_path / "k.pem").unlink()
    with pytest.raises(CertificateError, match=r"k\.pem: No such file"):
        await ours.look()

    assert ours.served == [first]
