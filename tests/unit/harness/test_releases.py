"""Release binaries, from a server of our own that has them under the paths of the originals."""

import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from tests.harness import toolchain
from tests.harness.releases import OFF, VARIABLE
from tests.harness.toolchain import ToolchainError, ensure_binaries, ensure_helm

ETCD = "3.6.8"
KUBERNETES = f"dl.k8s.io/release/v{toolchain.KUBERNETES}/bin/linux/amd64"
OF_ETCD = f"github.com/etcd-io/etcd/releases/download/v{ETCD}"
OF_KWOK = f"kubernetes-sigs/kwok/releases/{{}}/{toolchain.KWOK}"
OF_HELM = f"get.helm.sh/helm-{toolchain.HELM}-linux-amd64.tar.gz"
ARCHIVE = f"etcd-v{ETCD}-linux-amd64"

Built = list[str]


class _Quiet(SimpleHTTPRequestHandler):
    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What the server has: everything. The machine is one that there are releases for."""
    folder = tmp_path / "server"
    for name in toolchain.CONTROL_PLANE[1:]:
        _put(folder, f"{KUBERNETES}/{name}", name.encode())
        _put(folder, f"{KUBERNETES}/{name}.sha256", _sum(name.encode()).encode())
    packed = _packed(f"{ARCHIVE}/etcd", b"etcd")
    _put(folder, f"{OF_ETCD}/{ARCHIVE}.tar.gz", packed)
    listed = f"{'0' * 64}  other.zip\n{_sum(packed)}  {ARCHIVE}.tar.gz\n"
    _put(folder, f"{OF_ETCD}/SHA256SUMS", listed.encode())
    packed = _packed("linux-amd64/helm", b"helm")
    _put(folder, OF_HELM, packed)
    listed = f"{_sum(packed)}  {OF_HELM.rpartition('/')[2]}\n"
    _put(folder, f"{OF_HELM}.sha256sum", listed.encode())
    asset = {"name": "kwok-linux-amd64", "digest": f"sha256:{_sum(b'kwok')}"}
    page = json.dumps({"assets": [{"name": "kwok.yaml", "digest": None}, asset]})
    _put(folder, f"api.github.com/repos/{OF_KWOK.format('tags')}", page.encode())
    _put(folder, f"github.com/{OF_KWOK.format('download')}/kwok-linux-amd64", b"kwok")

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    yield folder
    server.shutdown()
    server.server_close()


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Built:
    """What was built, of which nothing takes minutes here."""
    found: Built = []

    def go(arguments: list[str], *, cwd: Path, **_: object) -> None:
        found.append(arguments[0])
        if arguments[0] == "build":
            Path(arguments[arguments.index("-o") + 1]).write_bytes(b"built")
        else:
            package = arguments[-1].partition("@")[0]
            (cwd / package.rpartition("/")[2]).write_bytes(b"built")

    monkeypatch.setattr(toolchain, "go", go)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return found


def test_release_binaries_are_taken_once(files: Path, built: Built) -> None:
    said: list[str] = []

    binaries = ensure_binaries(said.append)

    assert binaries.kube_apiserver.read_bytes() == b"kube-apiserver"
    assert binaries.etcd.read_bytes() == b"etcd"
    assert binaries.kwok.read_bytes() == b"kwok"
    assert os.access(binaries.etcd, os.X_OK)
    assert os.access(binaries.kwok, os.X_OK)
    assert built == []
    assert sum("downloading" in line for line in said) == 5
    assert ensure_binaries(said.append) == binaries
    assert sum("downloading" in line for line in said) == 5


@pytest.mark.parametrize(
    "lost",
    [
        f"{KUBERNETES}/kube-scheduler.sha256",
        f"{KUBERNETES}/kube-scheduler",
        f"{OF_ETCD}/{ARCHIVE}.tar.gz",
    ],
)
def test_binaries_are_built_where_the_server_lacks_one(
    files: Path, built: Built, lost: str
) -> None:
    (files / lost).unlink()
    said: list[str] = []

    binaries = ensure_binaries(said.append)

    assert built == ["build"]
    assert binaries.kube_apiserver.read_bytes() == b"built"
    assert binaries.kwok.read_bytes() == b"kwok"
    assert any(line.startswith("no release binaries: ") and lost in line for line in said)


def _to_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:9")


def _off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OFF)


def _no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "on")


def _other_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")


@pytest.mark.parametrize("change", [_to_nowhere, _off, _no_url, _other_machine])
def test_binaries_are_built_where_there_is_no_way_to_them(
    files: Path,
    built: Built,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pytest.MonkeyPatch], None],
) -> None:
    change(monkeypatch)
    assert ensure_binaries(lambda _: None).etcd.read_bytes() == b"built"
    assert built == ["build", "install"]


@pytest.mark.parametrize(
    "damaged",
    [
        f"{KUBERNETES}/kube-apiserver",
        f"{OF_ETCD}/{ARCHIVE}.tar.gz",
        f"github.com/{OF_KWOK.format('download')}/kwok-linux-amd64",
    ],
)
def test_a_damaged_file_is_an_error(files: Path, built: Built, damaged: str) -> None:
    published = (files / damaged).read_bytes()
    (files / damaged).write_bytes(b"x")

    with pytest.raises(ToolchainError, match=f"{VARIABLE}={OFF}") as error:
        ensure_binaries(lambda _: None)
    assert damaged in str(error.value)
    assert built == []

    (files / damaged).write_bytes(published)
    binaries = ensure_binaries(lambda _: None)
    found = [binaries.kube_apiserver, binaries.etcd, binaries.kwok]
    assert [each.read_bytes() for each in found] == [b"kube-apiserver", b"etcd", b"kwok"]
    assert built == []


def test_helm_is_taken_once(files: Path, built: Built) -> None:
    said: list[str] = []

    helm = ensure_helm(said.append)

    assert helm.read_bytes() == b"helm"
    assert os.access(helm, os.X_OK)
    assert ensure_helm(said.append) == helm
    assert sum("downloading" in line for line in said) == 1
    assert built == []


@pytest.mark.parametrize("lost", [OF_HELM, f"{OF_HELM}.sha256sum"])
def test_helm_is_built_where_the_server_lacks_it(files: Path, built: Built, lost: str) -> None:
    (files / lost).unlink()

    assert ensure_helm(lambda _: None).read_bytes() == b"built"
    assert built == ["install"]


def test_helm_is_built_where_the_archive_is_without_it(files: Path, built: Built) -> None:
    packed = _packed("linux-amd64/README.md", b"")
    (files / OF_HELM).write_bytes(packed)
    listed = f"{_sum(packed)}  {OF_HELM.rpartition('/')[2]}\n"
    (files / f"{OF_HELM}.sha256sum").write_text(listed)

    assert ensure_helm(lambda _: None).read_bytes() == b"built"
    assert built == ["install"]


def _packed(name: str, content: bytes) -> bytes:
    """Return an archive of one file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _put(folder: Path, path: str, content: bytes) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
