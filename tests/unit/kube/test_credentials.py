"""Credentials: read from files, and read again when those change."""

import asyncio
import base64
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.kube.credentials import (
    CERTIFICATE,
    TOKEN,
    Credentials,
    Keyring,
    load,
    stamp,
    token_end,
)
from extender.kube.errors import ConfigurationError
from extender.runtime.faults import FAULTS
from tests.harness.certificates import Authority
from tests.makers import ManualClock

SERVER = "https://127.0.0.1:6443"


def jwt(**claims: Any) -> str:
    parts = ({"alg": "none"}, claims)
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts)
    return ".".join((*(text.rstrip("=") for text in texts), "signature"))


TOKENS: dict[str, tuple[str, float | None]] = {
    "with an end": (jwt(exp=1234), 1234),
    "with half a second": (jwt(exp=1234.5), 1234.5),
    "without an end": (jwt(sub="x"), None),
    "an end that is none": (jwt(exp="soon"), None),
    "no token of that kind": ("abc123", None),
    "three parts that are none": ("a.b.c", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("token", "end"), TOKENS.values(), ids=TOKENS)
def test_when_a_token_ends(token: str, end: float | None) -> None:
    assert token_end(token) == end


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class Files:
    """A kubeconfig, and the files that it names."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.path = folder / "kubeconfig"
        self.token = folder / "token"
        self.folder = folder
        self.authority = authority

    def write(self, **user: Any) -> Path:
        cluster = {"server": SERVER, "certificate-authority": str(self.authority.ca)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        # As editors and kubectl do: a new file in the place of the old one.
        new = self.path.with_suffix(".new")
        new.write_text(yaml.safe_dump(document))
        new.replace(self.path)
        return self.path

    def keyring(self, found: Credentials) -> Keyring:
        return Keyring(found, lambda: load(self.path))

    def shown(self, name: str, life: timedelta) -> dict[str, str]:
        """Return a user with a new certificate."""
        made = self.authority.client(name, life=life)
        return {"client-certificate": str(made.certificate), "client-key": str(made.key)}


@pytest.fixture
def files(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return Files(tmp_path, authority)


async def test_a_token_and_its_end(files: Files) -> None:
    found = await load(files.write(token=jwt(exp=99)))

    assert found.host == SERVER
    assert found.authorization == f"Bearer {jwt(exp=99)}"
    assert found.ends == {TOKEN: 99}
    assert jwt(exp=99) not in repr(found), "a token is not for logs"


async def test_a_context_that_is_named_counts(files: Files) -> None:
    path = files.write(token="t")
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**config, "current-context": "gone"}))

    assert (await load(path, "x")).host == SERVER
    with pytest.raises(ConfigurationError, match="gone"):
        await load(path, "")


async def test_a_certificate_and_its_end(files: Files) -> None:
    user = files.shown("someone", timedelta(hours=1))
    found = await load(files.write(**user))

    assert set(found.ends) == {CERTIFICATE}
    assert found.authorization is None
    assert {files.path, *map(Path, user.values()), files.authority.ca} == set(found.files)


async def test_a_changed_kubeconfig_counts(files: Files) -> None:
    keyring = files.keyring(await load(files.write(token="old")))
    await keyring.look()
    assert keyring.counts == {}
    files.write(token="new")
    await keyring.look()

    assert keyring.current.authorization == "Bearer new"
    assert keyring.counts == {"renewed": 1}


async def test_a_token_file_is_followed(files: Files) -> None:
    files.token.write_text("old")
    keyring = files.keyring(await load(files.write(tokenFile=str(files.token))))
    assert keyring.current.authorization == "Bearer old"
    files.token.write_text("newer\n")
    await keyring.look()

    assert keyring.current.authorization == "Bearer newer"


async def test_a_certificate_that_is_renewed_in_place_counts(files: Files) -> None:
    user = files.shown("renewed", timedelta(minutes=1))
    keyring = files.keyring(await load(files.write(**user)))
    before = keyring.current
    files.shown("renewed", timedelta(days=1))
    await keyring.look()

    assert keyring.current.tls is not before.tls
    assert keyring.current.ends[CERTIFICATE] > before.ends[CERTIFICATE]


@pytest.mark.parametrize("half", ["apiVersion: v1\nclusters: [", None])
async def test_half_a_file_or_none_changes_nothing_and_is_read_when_it_is_whole(
    half: str | None, files: Files
) -> None:
    keyring = files.keyring(await load(files.write(token="old")))
    if half is not None:
        files.path.write_text(half)
    else:
        files.path.unlink()
    await keyring.look()
    await keyring.look()
    assert keyring.current.authorization == "Bearer old"
    assert keyring.counts == {"failed": 1}, "it is read once for each change"
    files.write(token="new")
    await keyring.look()

    assert keyring.current.authorization == "Bearer new"


def plugin(files: Files, status: dict[str, Any]) -> dict[str, Any]:
    """Return a user whose plugin counts its runs and answers a status."""
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    (files.folder / "answer").write_text(json.dumps(answer))
    script = (
        "import pathlib; folder = pathlib.Path(r'" + str(files.folder) + "');"
        "runs = folder / 'runs'; runs.open('a').write('x');"
        "print((folder / 'answer').read_text())"
    )
    command = {"apiVersion": version, "command": sys.executable, "args": ["-c", script]}
    return {"exec": {**command, "interactiveMode": "Never"}}


async def test_a_plugin_is_run_again_when_what_it_gave_is_refused(files: Files) -> None:
    path = files.write(**plugin(files, {"token": "old"}))
    keyring = Keyring(await load(path), lambda: load(path))
    await keyring.look()
    assert (files.folder / "runs").read_text() == "x"

    plugin(files, {"token": "new"})
    assert await keyring.refused(keyring.current)
    assert keyring.current.authorization == "Bearer new"
    assert (files.folder / "runs").read_text() == "xx"


async def test_an_error_of_the_library_that_no_code_expects_changes_nothing(files: Files) -> None:
    async def read() -> Credentials:
        raise RuntimeError("a bug")

    found, before = await load(files.write(token="t")), FAULTS.counts.get("credentials", 0)
    keyring = Keyring(found, read)
    assert not await keyring.refused(found)
    files.write(token="other")
    await keyring.look()

    assert keyring.current is found
    assert keyring.counts == {"failed": 2}
    assert FAULTS.counts["credentials"] == before + 2


async def test_a_plugin_that_gives_nothing_is_an_error(files: Files) -> None:
    path = files.write(**plugin(files, {}))
    with pytest.raises(ConfigurationError, match="the credential plugin of the kubeconfig gave"):
        await load(path)


WRONG = {
    "no file": None,
    "no YAML": "{",
    "a list": "[]",
    "no context": "apiVersion: v1\nkind: Config\n",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
async def test_what_is_no_kubeconfig_is_named(text: str | None, files: Files) -> None:
    if text is not None:
        files.path.write_text(text)
    with pytest.raises(ConfigurationError, match=f"cannot use the kubeconfig {files.path}"):
        await load(files.path)


async def test_a_field_that_the_library_misses_is_named(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An OpenID provider's answer without one, say: the library raises a bare KeyError."""

    async def misses(*_: Any) -> None:
        raise KeyError("id_token")

    path = files.write(token="t")
    monkeypatch.setattr("extender.kube.credentials.load_kube_config", misses)
    with pytest.raises(ConfigurationError, match=f"kubeconfig {path}: there is no 'id_token'"):
        await load(path)


async def test_after_a_refusal_in_vain_there_is_a_pause(files: Files) -> None:
    found, clock, reads = await load(files.write(token="t")), ManualClock(), 0

    async def read() -> Credentials:
        nonlocal reads
        reads += 1
        return found

    keyring = Keyring(found, read, clock=clock)
    began, when = clock.now, []
    for _ in range(12):
        before = reads
        assert not await keyring.refused(found)
        if reads > before:
            when.append(clock.now - began)
        clock.now += 1
    assert when == [0, 5, 10]


async def test_a_plugin_that_hangs_is_given_up(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.kube.credentials.READ_SECONDS", 0.05)

    async def hangs() -> Credentials:
        await asyncio.Event().wait()
        raise AssertionError

    found = await load(files.write(token="t"))
    keyring = Keyring(found, hangs)
    assert not await keyring.refused(found)
    assert keyring.counts == {"failed": 1}


def test_files_are_compared_by_what_a_link_points_to(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "token"
    link.symlink_to(tmp_path / "one")
    before = stamp([link])
    (tmp_path / "next").symlink_to(tmp_path / "two")
    (tmp_path / "next").replace(link)
    assert stamp([link]) != before
