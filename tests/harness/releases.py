"""Official release binaries, which are downloaded where there is a way to them.

Kubernetes, etcd and Helm publish SHA-256 sums beside their binaries, GitHub those of KWOK's. A file
whose sum is another one is an error; a server that is not reached, or lacks a file, is none: then
the binaries are built. The sums come the same way as the files, so they show what was damaged on
it; who answers is vouched for by TLS.

`$GANG_EXTENDER_RELEASES` is the URL of a mirror, which has each file under the host and path of
the original (`MIRROR/dl.k8s.io/release/v1.36.3/bin/linux/amd64/kube-apiserver`), or `off`.
"""

import hashlib
import io
import os
import platform
import ssl
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

VARIABLE: Final = "GANG_EXTENDER_RELEASES"
OFF: Final = "off"
_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
_PROGRESS_SECONDS: Final = 5.0
_MIB: Final = 1 << 20
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}

Report = Callable[[str], None]


class DamagedFileError(RuntimeError):
    """A file is not the one that was published."""


class NotThereError(RuntimeError):
    """A server is not reached, or lacks a file."""


@dataclass(frozen=True, slots=True)
class Releases:
    """Where files come from. `mirror` is a URL, or empty for the original servers."""

    mirror: str
    architecture: str
    report: Report

    def control_plane(self, folder: Path, kubernetes: str, etcd: str) -> None:
        """Put kube-apiserver, kube-controller-manager, kube-scheduler and etcd into `folder`.

        Versions are without the `v`. Raises `NotThereError` and `DamagedFileError`.
        """
        archive = f"etcd-v{etcd}-linux-{self.architecture}.tar.gz"
        of_etcd = f"https://github.com/etcd-io/etcd/releases/download/v{etcd}"
        listed = _sums(self._text(f"{of_etcd}/SHA256SUMS"))
        if archive not in listed:
            raise NotThereError(f"{of_etcd}/SHA256SUMS does not name {archive}")
        names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        self.kubernetes(folder, kubernetes, names)
        packed = self._file(f"{of_etcd}/{archive}", listed[archive])
        _unpack(packed, f"{archive.removesuffix('.tar.gz')}/etcd", folder / "etcd")

    def kubernetes(self, folder: Path, version: str, names: Sequence[str]) -> None:
        """Put programs of Kubernetes into `folder`. Raises `NotThereError` and `DamagedFileError`.

        The version is without the `v`.
        """
        release = f"https://dl.k8s.io/release/v{version}/bin/linux/{self.architecture}"
        # All sums first: they are small, so it is soon known whether there is a way.
        sums = {name: self._text(f"{release}/{name}.sha256").strip() for name in names}
        for name in names:
            _install(folder / name, self._file(f"{release}/{name}", sums[name]))

    def kwok(self, folder: Path, version: str) -> None:
        """Put kwok into `folder`. Raises `NotThereError` and `DamagedFileError`."""
        name = f"kwok-linux-{self.architecture}"
        page = f"https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags/{version}"
        assets = self._get(page).json().get("assets", ())
        sums = {each["name"]: each.get("digest") or "" for each in assets}
        kind, _, digest = sums.get(name, "").partition(":")
        if kind != "sha256":
            raise NotThereError(f"{page} has no SHA-256 of {name}")
        base = f"https://github.com/kubernetes-sigs/kwok/releases/download/{version}"
        _install(folder / "kwok", self._file(f"{base}/{name}", digest))

    def helm(self, folder: Path, version: str) -> None:
        """Put helm into `folder`. Raises `NotThereError` and `DamagedFileError`."""
        machine = f"linux-{self.architecture}"
        archive = f"helm-{version}-{machine}.tar.gz"
        url = f"https://get.helm.sh/{archive}"
        listed = _sums(self._text(f"{url}.sha256sum"))
        if archive not in listed:
            raise NotThereError(f"{url}.sha256sum does not name {archive}")
        _unpack(self._file(url, listed[archive]), f"{machine}/helm", folder / "helm")

    def _client(self) -> httpx.Client:
        # The machine's own list of authorities: a company's is in it.
        verify = ssl.create_default_context()
        return httpx.Client(timeout=_TIMEOUT, follow_redirects=True, verify=verify)

    def _url(self, original: str) -> str:
        if not self.mirror:
            return original
        return f"{self.mirror.rstrip('/')}/{original.removeprefix('https://')}"

    def _text(self, original: str) -> str:
        return self._get(original).text

    def _get(self, original: str) -> httpx.Response:
        url = self._url(original)
        try:
            with self._client() as client:
                return client.get(url).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise NotThereError(f"{url}: {error}") from error

    def _file(self, original: str, digest: str) -> bytes:
        url = self._url(original)
        self.report(f"downloading {url}")
        try:
            content = b"".join(self._parts(url))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise NotThereError(f"{url}: {error}") from error
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise DamagedFileError(
                f"{url} has the SHA-256 {found}, and {digest} is published; try again, "
                f"or set {VARIABLE}={OFF} to build from source"
            )
        return content

    def _parts(self, url: str) -> Iterator[bytes]:
        count, said = 0, time.monotonic()
        with self._client() as client, client.stream("GET", url) as response:
            response.raise_for_status()
            for part in response.iter_bytes(_MIB):
                yield part
                count += len(part)
                if time.monotonic() - said > _PROGRESS_SECONDS:
                    said = time.monotonic()
                    self.report(f"  {count // _MIB} MiB")


def releases(report: Report) -> Releases | None:
    """Return where release binaries come from; None where they are off or not made for this."""
    mirror = os.environ.get(VARIABLE, "")
    architecture = _ARCHITECTURES.get(platform.machine())
    if mirror == OFF or architecture is None or sys.platform != "linux":
        return None
    return Releases(mirror, architecture, report)


def _sums(text: str) -> dict[str, str]:
    lines = (line.split() for line in text.splitlines())
    return {line[1].lstrip("*"): line[0] for line in lines if len(line) == 2}


def _unpack(packed: bytes, name: str, path: Path) -> None:
    """Install one file of an archive; NotThereError where it has none of that name."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as members:
        try:
            found = members.extractfile(name)
        except KeyError:
            found = None
        if found is None:
            raise NotThereError(f"the archive has no {name}")
        _install(path, found.read())


def _install(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o755)
