"""The Dockerfile's steps, carried out in a folder, because no image registry need be at hand."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path

import httpx
import pytest
import yaml

from extender.config.settings import Listen
from tests.dist import uv
from tests.harness.process import Component, free_port
from tests.once import once

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
LAUNCHER = ROOT / "tests" / "harness" / "in_image.py"
VERSION = "".join(re.findall(r"^ARG VERSION=(.+)$", TEXT, re.MULTILINE))
PACKAGES = "/packages"
"""Where uv's cache is in a container that builds: at home it may be in `/tmp`, which is another."""
PATIENCE_SECONDS = 200
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""
pytestmark = pytest.mark.timeout(600)  # what is built in the first test that asks for it, too

Step = tuple[str, str]


def steps(text: str) -> list[Step]:
    """Return (instruction, arguments) in order, continued lines joined and comments dropped."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(instruction, arguments) for instruction, arguments in found]


def stages(text: str) -> list[list[Step]]:
    """Return the steps of each stage, its FROM first."""
    split: list[list[Step]] = []
    for step in steps(text)[len(before(text)) :]:
        if step[0] == "FROM":
            split.append([])
        split[-1].append(step)
    return split


def before(text: str) -> list[Step]:
    """Return the steps before the first stage."""
    return [*takewhile(lambda step: step[0] != "FROM", steps(text))]


def answers(process: Component, url: str) -> int:
    """Return the status of an answer; 0 while there is none."""
    assert process.running, process.tail(40)
    try:
        return httpx.get(url, trust_env=False, timeout=PATIENCE_SECONDS).status_code
    except httpx.TransportError:
        return 0


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def copied_from_context(stage: list[Step]) -> Iterator[tuple[list[str], str]]:
    for instruction, arguments in stage:
        words = arguments.split()
        if instruction == "COPY" and not words[0].startswith("--from="):
            yield words[:-1], words[-1]


@dataclass
class Machine:
    """A container of one stage: what it has in its root, and what the steps said so far.

    Its base is this machine, with an environment of Python in `/base` for that of the image.
    """

    root: Path
    folder: Path
    """For what belongs to the container and is not in it."""
    env: dict[str, str]
    user: str = "0:0"
    workdir: str = "/"
    writable: bool = False
    mounts: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def run(
        self, stage: list[Step], arguments: Mapping[str, str], images: Mapping[str, Path]
    ) -> None:
        """Carry out every step of a stage; an instruction that is not known here fails."""
        build: dict[str, str] = {}
        for instruction, words in stage:
            match instruction:
                case "ARG":
                    build[words] = arguments[words]
                case "ENV":
                    self._set(words)
                case "WORKDIR":
                    self.workdir = words
                    self._inside(words).mkdir(parents=True)
                case "COPY":
                    self._copy(words.split(), images)
                case "RUN":
                    self.call("/bin/sh", "-ec", words, env=build)
                case _:
                    self._note(instruction, filled(words, build))

    def command(self, *argv: str, env: Mapping[str, str] | None = None) -> list[str]:
        """Return the command that runs another one in the container."""
        user, _, group = self.user.partition(":")
        staging = Path(tempfile.mkdtemp(dir=self.folder))
        container = {
            "root": str(self.root),
            "staging": str(staging),
            "user": int(user),
            "group": int(group),
            "writable": self.writable,
            "mounts": self.mounts,
            "folder": self.workdir,
            "env": {**self.env, **(env or {})},
        }
        file = self.folder / f"{staging.name}.json"
        file.write_text(json.dumps(container))
        return [sys.executable, "-I", "-S", str(LAUNCHER), str(file), *argv]

    def call(self, *argv: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            self.command(*argv, env=env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}"
        return done.stdout

    def _note(self, instruction: str, words: str) -> None:
        match instruction:
            case "FROM":
                pass
            case "USER":
                self.user = words
            case "LABEL":
                self.said |= dict(each.split("=", 1) for each in shlex.split(words))
            case "EXPOSE" | "ENTRYPOINT" | "CMD":
                self.said[instruction] = words
            case _:
                raise AssertionError(f"{instruction} is not known here")

    def _inside(self, path: str) -> Path:
        return self.root / (path if path.startswith("/") else f"{self.workdir}/{path}").lstrip("/")

    def _set(self, words: str) -> None:
        for assignment in shlex.split(words):
            name, _, value = assignment.partition("=")
            if name == "UV_COMPILE_BYTECODE":  # takes longer than the rest, and nothing needs it
                continue
            self.env[name] = filled(value, self.env)

    def _copy(self, words: list[str], images: Mapping[str, Path]) -> None:
        context = ROOT
        if words[0].startswith("--from="):
            context = images[words.pop(0).removeprefix("--from=")]
        *sources, destination = words
        for source in sources:
            found, target = context / source.lstrip("/"), self._inside(destination)
            if found.is_dir():
                ignored = shutil.ignore_patterns(*(() if context != ROOT else ("__pycache__",)))
                shutil.copytree(found, target, ignore=ignored, symlinks=True)
            else:
                shutil.copy(found, target / source)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the variables that have values."""
    return re.sub(r"\$(\w+)", lambda found: values.get(found[1], found[0]), text)


def outside() -> dict[str, str]:
    """Return the environment in which steps run: where packages are and whom to trust for them."""
    begins = ("PIP_", "SSL_", "REQUESTS_", "UV_INDEX", "UV_DEFAULT_INDEX")
    names = {"HOME", "UV_SYSTEM_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(begins) or name.upper() in names
    }


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The image, with what its last stage has in it and says, and nothing else."""
    return once(tmp_path_factory, "containers", built)


def machines_python() -> str:
    """Return the interpreter that the tests' environment was made from.

    The environment itself is not in a container where the checkout lies in `/tmp` or `/app`.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(Path(sys.base_prefix) / "bin" / version)


def built(folder: Path) -> Machine:
    path = "/base/bin:/usr/bin:/bin"
    base = folder / "base"
    (base / "base").mkdir(parents=True)
    cache = subprocess.run([uv(), "cache", "dir"], stdout=subprocess.PIPE, text=True, check=True)
    cached = {PACKAGES: cache.stdout.strip()}
    making = Machine(base, folder, {**outside(), "PATH": path}, writable=True)
    making.call(machines_python(), "-m", "venv", "--symlinks", "/base")

    arguments = dict(words.split("=", 1) for name, words in before(TEXT) if name == "ARG")
    assert arguments == {"VERSION": VERSION, "EXTRA": "otel"}
    images: dict[str, Path] = {}
    container = making
    for stage in stages(TEXT):
        _, *name = stage[0][1].split(" AS ")
        root = folder / (name[0] if name else "final")
        shutil.copytree(base, root, symlinks=True)
        env = {"PATH": path}
        if name:
            env |= outside() | {"UV_CACHE_DIR": PACKAGES}
            images[name[0]] = root
            container = Machine(
                root, folder, env, writable=True, mounts={"/tmp": str(folder), **cached}
            )
        else:
            container = Machine(root, folder, env)
        container.run(stage, arguments, images)
    for root in images.values():
        shutil.rmtree(root)
    return container


def start_command(image: Machine) -> list[str]:
    words: list[str] = yaml.safe_load(image.said["ENTRYPOINT"])
    return words


def test_its_steps_give_a_command_that_runs(image: Machine) -> None:
    [program] = start_command(image)
    assert image.call(program, "--version") == f"gang-extender {VERSION}\n"
    assert "listen.port" in image.call(program, "render", "settings")
    assert len([*image.root.rglob("extender/manifests/crds/*.yaml")]) == 11
    shipped_roles = [*image.root.rglob("extender/manifests/rbac/*.yaml")]
    assert {path.name for path in shipped_roles} >= {"extender.yaml", "reconciler.yaml"}
    assert not list((image.root / "app").rglob("pytest")), "development tools are in the image"
    [shipped] = image.root.rglob("gang_extender-*.dist-info/licenses/LICENSE")
    assert shipped.read_text() == (ROOT / "LICENSE").read_text()


def test_what_it_says_of_itself(image: Machine) -> None:
    assert image.said["org.opencontainers.image.version"] == VERSION
    assert image.said["org.opencontainers.image.title"] == "gang-extender"
    assert image.said["EXPOSE"] == str(Listen().port)


def test_another_version_may_be_given_to_the_build() -> None:
    """As of a commit between two releases: where git is not at hand, the argument says it."""
    build, final = stages(TEXT)
    for stage in (build, final):
        assert ("ARG", "VERSION") in stage
    [last] = [words for name, words in build if name == "RUN" and "--no-editable" in words]
    assert last.startswith("SETUPTOOLS_SCM_PRETEND_VERSION_FOR_GANG_EXTENDER=$VERSION ")


WRITES = """
import os, pathlib
print(os.getuid(), os.getgid())
for path in ("/", "/app", "/app/.venv/bin", "/base", "/usr", "/var", "/dev/shm", "/home"):
    try:
        (pathlib.Path(path) / "new").touch()
    except OSError as error:
        print(path, type(error).__name__, error.errno)
    else:
        print(path, "was written")
"""


def test_it_may_write_nowhere_and_is_not_root(image: Machine) -> None:
    """What the next test's processes run with, so that it shows something."""
    ids, *places = image.call("python", "-c", WRITES).splitlines()
    assert ids == "65532 65532"
    assert len(places) == 8
    assert [each for each in places if not each.endswith((" 30", " 2"))] == []  # EROFS, ENOENT


def test_every_user_may_read_what_it_has(image: Machine) -> None:
    """In an engine its files are root's, and its user is another one."""
    closed = [
        path
        for path in (image.root / "app").rglob("*")
        if not path.is_symlink() and path.name != ".lock"  # uv's, for its own next run
        for mode in [path.stat().st_mode]
        if not mode & 0o004 or (path.is_dir() and not mode & 0o001) or mode & 0o002
    ]
    assert closed == []


def test_a_container_of_it_gets_nothing_but_what_the_image_says(image: Machine) -> None:
    assert image.env.keys() == {"HOME", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
    assert image.mounts == {}


@pytest.mark.parametrize("arguments", [None, ["reconcile"]], ids=["as it is", "reconcile"])
def test_a_process_of_it_lives_and_ends_when_it_is_asked_to(
    arguments: list[str] | None, image: Machine, tmp_path: Path
) -> None:
    """On a read-only root, as 65532, without an API server: it says so, and is not ready."""
    port, nowhere = free_port(), free_port()
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.replace("PORT", str(nowhere)))
    container = replace(image, mounts={"/etc/gang-extender": str(tmp_path)})
    command = yaml.safe_load(image.said["CMD"]) if arguments is None else arguments
    argv = container.command(
        *start_command(image), *command,
        "--kubeconfig=/etc/gang-extender/kubeconfig", f"--port={port}",
    )  # fmt: skip
    process = Component("container", argv, log_path=tmp_path / "log")
    with process:
        until(lambda: answers(process, f"http://127.0.0.1:{port}/livez") == 200)
        assert answers(process, f"http://127.0.0.1:{port}/readyz") == 503
        process.stop(timeout=60)
    assert process.exit_code == 0, process.tail(40)
    assert "Traceback" not in process.tail(400)


def test_both_stages_have_the_same_pinned_base() -> None:
    bases = {stage[0][1].split()[0] for stage in stages(TEXT)}

    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", bases.pop())


def test_it_does_not_run_as_root_and_serves_by_default() -> None:
    final = dict(stages(TEXT)[-1])

    assert final["USER"] == "65532:65532"
    assert yaml.safe_load(final["ENTRYPOINT"]) == ["gang-extender"]
    assert yaml.safe_load(final["CMD"]) == ["serve"]


def test_what_it_copies_and_nothing_else_reaches_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    copied = {
        source
        for stage in stages(TEXT)
        for sources, _ in copied_from_context(stage)
        for source in sources
    }

    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied
    assert not any(fnmatch.fnmatch(source, rules[-1]) for source in copied)


def test_the_static_pod_has_the_user_and_the_version_of_the_image() -> None:
    pod = yaml.safe_load((ROOT / "manifests/static-pod/gang-extender.yaml").read_text())
    user = dict(stages(TEXT)[-1])["USER"]
    context = pod["spec"]["securityContext"]

    assert pod["spec"]["containers"][0]["image"] == f"gang-extender:{VERSION}"
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == user
