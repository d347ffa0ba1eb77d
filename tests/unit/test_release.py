"""One version everywhere, and what `make dist` builds works where it is installed."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import version as installed
from pathlib import Path

import pytest
from fastapi import FastAPI

from extender.server.health import Probes, health_app
from tests import dist
from tests.dist import SUMS, uv
from tests.documents import DOCUMENTS
from tests.once import once
from tests.protocol.service import Service

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
RELEASES = re.findall(r"^## (\d+\.\d+\.\d+)\b", CHANGELOG, re.MULTILINE)
IMAGE = re.compile(r"\bgang-extender:(\d+\.\d+[\w.]*)")
NEW_TAG = re.compile(r"newName: \S*gang-extender,?\s+newTag: \"?(\d+\.\d+[\w.]*)")
CHART = re.compile(r"^(?:appVersion|version): \"?v?(\d+\.\d+[\w.]*)", re.MULTILINE)
pytestmark = pytest.mark.timeout(600)  # what is built in the first test that asks for it, too


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    return found


def said() -> Iterator[tuple[str, str]]:
    """Yield each place that names the version of a release, and the version."""
    texts = [*DOCUMENTS, ROOT / "Dockerfile"]
    texts += [path for name in ("manifests", "overlays") for path in files(ROOT / name)]
    for path in texts:
        text = path.read_text()
        found = [*IMAGE.findall(text), *NEW_TAG.findall(text)]
        if path.name == "Chart.yaml":
            found += CHART.findall(text)
        if path.name == "Dockerfile":
            found += re.findall(r"^ARG VERSION=(.+)$", text, re.MULTILINE)
        yield from ((str(path.relative_to(ROOT)), each) for each in found)
    version = project()["version"]
    assert isinstance(version, dict)
    yield "pyproject.toml", version["fallback-version"]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_every_file_names_the_newest_release_of_the_changelog() -> None:
    newest, places = RELEASES[0], {name for name, _ in said()}
    assert [f"{name}: {version}" for name, version in said() if version != newest] == []
    assert places >= {
        "Dockerfile",
        "README.md",
        "docs/tasks/admin/install.md",
        "manifests/reconciler/deployment.yaml",
        "manifests/static-pod/gang-extender.yaml",
        "manifests/second-scheduler/scheduler/scheduler.yaml",
        "pyproject.toml",
    }


def test_releases_of_the_changelog_are_in_order_and_those_of_tags_are_in_it() -> None:
    in_order = sorted(RELEASES, key=lambda each: [int(part) for part in each.split(".")])
    assert in_order[::-1] == RELEASES
    if (ROOT / ".git").exists():
        assert {tag.removeprefix("v") for tag in git("tag", "--list", "v*")} <= {*RELEASES}


def git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout.split()


def test_what_is_installed_is_a_release_or_what_came_after_it() -> None:
    """It comes after the release before where the newest one has no tag yet."""
    version = installed("gang-extender")
    base, _, since = version.partition(".post")
    assert base in RELEASES[:2], f"{version} is installed, not {RELEASES[0]}: make environment"
    assert re.fullmatch(r"(\d+\.dev\d+)?", since)


async def test_the_documents_of_the_services_have_the_version() -> None:
    async def metrics() -> bytes:
        return b""

    apps: list[FastAPI] = [Service().app, health_app(metrics, Probes(dict))]
    assert {app.openapi()["info"]["version"] for app in apps} == {installed("gang-extender")}


# -- what is built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(folder: Path) -> Path:
        dist.main(folder)
        return folder

    return once(tmp_path_factory, "dist", build)


def only(built: Path, pattern: str) -> Path:
    [found] = built.glob(pattern)
    return found


def test_the_same_commit_gives_the_same_bytes_and_the_sums_are_theirs(
    built: Path, tmp_path: Path
) -> None:
    dist.main(tmp_path / "again")

    first, second = ({path.name: path.read_bytes() for path in files(f)} for f in (built, tmp_path))
    assert [name for name in first if first[name] != second.get(name)] == []
    lines = [line.split("  ") for line in (built / SUMS).read_text().splitlines()]
    sums = {name: hashed for hashed, name in lines}
    assert sums == {
        name: hashlib.sha256(content).hexdigest() for name, content in first.items() if name != SUMS
    }
    assert {Path(name).suffix for name in sums} == {".whl", ".gz", ".json"}


def test_the_bill_lists_each_dependency_at_run_time_with_its_hashes(built: Path) -> None:
    bill = json.loads(only(built, "*.cdx.json").read_text())
    locked = {
        each["name"]: each for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    }
    names = {each["name"] for each in bill["components"]}

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    own = bill["metadata"]["component"]
    assert (own["name"], own["version"]) == ("gang-extender", installed_of(built))
    assert names == needed(locked, "gang-extender")
    assert {"fastapi", "kubernetes"} <= names
    assert not {"pytest", "ruff"} & names
    for each in bill["components"]:
        assert each["version"] == locked[each["name"]]["version"]
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        assert all(reference["hashes"] for reference in each["externalReferences"])
    known = {each["bom-ref"] for each in (*bill["components"], own)}
    assert {each["ref"] for each in bill["dependencies"]} == known


def installed_of(built: Path) -> str:
    return only(built, "*.whl").name.split("-")[1]


def needed(locked: dict[str, dict[str, list[dict[str, str]]]], name: str) -> set[str]:
    """Return what a package of the lock file needs, and what that needs, with its extras."""
    found: set[str] = set()
    todo = [name]
    while todo:
        for each in locked[todo.pop()].get("dependencies", []):
            if each["name"] not in found:
                found.add(each["name"])
                todo.append(each["name"])
    return found


@pytest.fixture(scope="module")
def program(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the wheel in an environment that has nothing else than what is locked."""
    return once(tmp_path_factory, "installed", lambda folder: install_into(folder, built))


def install_into(folder: Path, built: Path) -> Path:
    environment = folder / "environment"
    run([uv(), "venv", "--quiet", str(environment)], folder)
    wanted = folder / "requirements.txt"
    wanted.write_text(
        run([uv(), "export", "-q", "--frozen", "--no-dev", "--no-emit-project"], ROOT)
    )
    python = f"--python={environment / 'bin' / 'python'}"
    install = [uv(), "pip", "install", "--quiet", "--no-config", python]
    try:  # all of it is in uv's cache, unless that was cleaned
        run([*install, "--offline", "--require-hashes", "-r", str(wanted)], folder)
    except subprocess.CalledProcessError:
        run([*install, "--require-hashes", "-r", str(wanted)], folder)
    run([*install, "--offline", "--no-deps", str(only(built, "*.whl"))], folder)
    return environment / "bin" / "gang-extender"


def run(command: list[str], folder: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env.pop("VIRTUAL_ENV", None)
    return subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def test_the_wheel_works_where_nothing_else_is(built: Path, program: Path, tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        return run([str(program), *arguments], tmp_path)

    assert said("--version") == f"gang-extender {installed_of(built)}\n"
    assert "reconcile" in said("--help")
    assert "--smoke" in said("check", "--help")
    assert "| `listen.port` |" in said("render", "settings")


@pytest.mark.parametrize("folder", ["crds", "policies", "rbac"])
def test_the_wheel_has_the_manifests_that_check_compares_with(program: Path, folder: str) -> None:
    [inside] = program.parents[1].glob(f"lib/python*/site-packages/extender/manifests/{folder}")
    source = ROOT / "manifests" / folder
    assert {path.name: path.read_bytes() for path in files(inside)} == {
        path.name: path.read_bytes() for path in files(source)
    }


def test_the_source_archive_builds_the_same_wheel_without_git(built: Path, tmp_path: Path) -> None:
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since 3.11.4
        archive.extractall(tmp_path)
    [source] = tmp_path.iterdir()
    assert not (source / ".git").exists()
    wheel = only(built, "*.whl")
    env = {**os.environ, dist.EPOCH: dist._time_of_commit(ROOT)}
    command = [uv(), "build", "--quiet", "--wheel", f"--out-dir={tmp_path}"]
    subprocess.run(command, cwd=source, env=env, check=True)

    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


WITHOUT_TAG = {
    "no .git, as in an image": [],
    "a repository without a tag": ["git init -q", "git add -A", "git commit -qm one"],
    "only a tag of another kind": [
        "git init -q", "git add -A", "git commit -qm one", "git tag nightly-2026",
    ],
    "a clone without the commits before": [
        "git init -q", "git add -A", "git commit -qm one", "git tag v9.0.0",
        "git commit -q --allow-empty -m two", "git clone -q --depth=1 file://$PWD shallow",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("commands", "want"),
    [
        (WITHOUT_TAG["no .git, as in an image"], RELEASES[0]),
        (WITHOUT_TAG["a repository without a tag"], f"{RELEASES[0]}.post1.dev1"),
        (WITHOUT_TAG["only a tag of another kind"], f"{RELEASES[0]}.post1.dev1"),
        (WITHOUT_TAG["a clone without the commits before"], f"{RELEASES[0]}.post1.dev1"),
        (["git init -q", "git add -A", "git commit -qm one", "git tag v9.8.7"], "9.8.7"),
    ],
    ids=[*WITHOUT_TAG, "a tag"],
)
def test_the_version_is_that_of_the_tag_and_no_build_needs_one(
    commands: list[str], want: str, tmp_path: Path
) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    for name in ("extender", *wheel["targets"]["wheel"]["force-include"]):
        folder = tmp_path / name if (ROOT / name).is_dir() else (tmp_path / name).parent
        folder.mkdir(parents=True)
        (folder / (Path(name).name if folder != tmp_path / name else "__init__.py")).touch()
    author = {
        f"GIT_{role}_{part}": "nobody@example.com"
        for role in ("AUTHOR", "COMMITTER")
        for part in ("NAME", "EMAIL")
    }
    env = {**os.environ, **author, "GIT_CONFIG_GLOBAL": os.devnull}
    for command in commands:
        subprocess.run(command, shell=True, cwd=tmp_path, env=env, check=True)
    source = tmp_path / "shallow" if (tmp_path / "shallow").exists() else tmp_path
    build = [uv(), "build", "--quiet", "--wheel", f"--out-dir={tmp_path / 'out'}"]
    subprocess.run(build, cwd=source, env=env, check=True)

    assert only(tmp_path / "out", "*.whl").name.split("-")[1] == want
