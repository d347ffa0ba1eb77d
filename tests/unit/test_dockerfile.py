"""The Dockerfile's steps, carried out in a folder, because no image registry need be at hand."""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"

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
    for step in steps(text):
        if step[0] == "FROM":
            split.append([])
        split[-1].append(step)
    return split


def copied_from_context(stage: list[Step]) -> Iterator[tuple[list[str], str]]:
    for instruction, arguments in stage:
        words = arguments.split()
        if instruction == "COPY" and not words[0].startswith("--from="):
            yield words[:-1], words[-1]


class Machine:
    """A folder that stands for the root of one container; `/x` in a step means `root/x`."""

    def __init__(self, root: Path, python: Path) -> None:
        self.root = root
        self.workdir = root
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("UV_", "PYTHON", "VIRTUAL_ENV", "PYTEST"))
            or name == "UV_SYSTEM_CERTS"  # which authorities the machine trusts is its affair
        }
        self.env["PATH"] = f"{python.parent}:/usr/bin:/bin"

    def inside(self, path: str) -> Path:
        return self.root / path.lstrip("/") if path.startswith("/") else self.workdir / path

    def run(self, stage: list[Step]) -> None:
        for instruction, arguments in stage:
            match instruction:
                case "ENV":
                    self._set(arguments)
                case "WORKDIR":
                    self.workdir = self.inside(arguments)
                    self.workdir.mkdir(parents=True)
                case "COPY" if not arguments.startswith("--from="):
                    self._copy(arguments.split())
                case "RUN":
                    self.call("/bin/sh", "-ec", arguments)
                case _:
                    pass

    def call(self, *argv: str) -> str:
        program = shutil.which(argv[0], path=self.env["PATH"])
        assert program, f"{argv[0]} is not on the PATH"
        done = subprocess.run(
            [program, *argv[1:]],
            cwd=self.workdir,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}"
        return done.stdout

    def _set(self, arguments: str) -> None:
        for assignment in shlex.split(arguments):
            name, _, value = assignment.partition("=")
            if name == "UV_COMPILE_BYTECODE":  # takes longer than the rest, and nothing needs it
                continue
            value = re.sub(r"(^|:)/", rf"\1{self.root}/", value)
            self.env[name] = value.replace("$PATH", self.env["PATH"])

    def _copy(self, words: list[str]) -> None:
        *sources, destination = words
        for source in sources:
            target = self.inside(destination)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, target / source)


@pytest.mark.timeout(600)
def test_its_steps_give_a_command_that_runs(tmp_path: Path) -> None:
    environment = tmp_path / "base"
    venv.create(environment, with_pip=True, symlinks=True)
    python = environment / "bin" / "python"
    build, final = stages(DOCKERFILE.read_text())

    builder = Machine(tmp_path / "image", python)
    builder.root.mkdir()
    builder.run(build)

    # What the last stage does not copy is gone; what it copies is where it was.
    kept = tmp_path / "kept"
    for instruction, arguments in final:
        if instruction == "COPY":
            _, source, destination = arguments.split()
            assert source == destination, "the scripts of an environment know its path"
            shutil.copytree(builder.inside(source), kept / destination.lstrip("/"), symlinks=True)
    shutil.rmtree(builder.root)
    kept.rename(builder.root)

    image = Machine(builder.root, python)
    image.run(final)
    assert image.call("gang-extender", "--version").startswith("gang-extender ")
    assert "PodGroup" in image.call("gang-extender", "render", "crds")
    shipped_roles = [*image.root.rglob("extender/manifests/rbac/*.yaml")]
    assert {path.name for path in shipped_roles} >= {"extender.yaml", "reconciler.yaml"}
    assert not list(image.root.rglob("pytest")), "development tools are in the image"
    [shipped] = image.root.rglob("gang_extender-*.dist-info/licenses/LICENSE")
    assert shipped.read_text() == (ROOT / "LICENSE").read_text()


def test_both_stages_have_the_same_pinned_base() -> None:
    bases = {stage[0][1].split()[0] for stage in stages(DOCKERFILE.read_text())}

    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", bases.pop())


def test_it_does_not_run_as_root_and_serves_by_default() -> None:
    final = dict(stages(DOCKERFILE.read_text())[-1])

    assert final["USER"] == "65532:65532"
    assert yaml.safe_load(final["ENTRYPOINT"]) == ["gang-extender"]
    assert yaml.safe_load(final["CMD"]) == ["serve"]


def test_what_it_copies_and_nothing_else_reaches_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    copied = {
        source
        for stage in stages(DOCKERFILE.read_text())
        for sources, _ in copied_from_context(stage)
        for source in sources
    }

    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied
    assert not any(fnmatch.fnmatch(source, rules[-1]) for source in copied)


def test_the_static_pod_has_the_user_and_the_version_of_the_image() -> None:
    pod = yaml.safe_load((ROOT / "manifests/static-pod/gang-extender.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"', project, re.MULTILINE)
    user = dict(stages(DOCKERFILE.read_text())[-1])["USER"]
    context = pod["spec"]["securityContext"]

    assert version
    assert pod["spec"]["containers"][0]["image"] == f"gang-extender:{version[1]}"
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == user
