"""Chromium of Debian's packages, unpacked into the user's cache: no rights of root are needed.

    python -m tests.harness.chromium     fetch it where it is missing, and print where it is

What the machine has installed already is not fetched. Elsewhere than on Debian, `$CHROMIUM` names
a browser that is there.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.harness.toolchain import Report, ToolchainError, built_once, print_line

_INSTALLED: Final = ("chromium", "chromium-browser", "google-chrome")
_LIBRARIES: Final = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib")
_FONTS: Final = Path("/etc/fonts/fonts.conf")
_TO_FETCH: Final = re.compile(r"^Inst (\S+) ", re.MULTILINE)


def ensure_chromium(report: Report = print_line) -> tuple[Path, dict[str, str]]:
    """Return the browser and the environment that it needs; unpacked first where it is missing.

    Raises ToolchainError where it cannot be had.
    """
    named = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _INSTALLED)), None)
    if named:
        return Path(named), {}
    if shutil.which("apt-get") is None:
        raise ToolchainError("there is no apt-get to fetch Chromium with; $CHROMIUM may name one")
    # What is unpacked is what this release on this processor lacks.
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "unknown")
    name = f"chromium-{release}-{platform.machine()}"
    folder = built_once(name, lambda part: _unpack(part, report), report)
    folders = [folder / each / own for each in _LIBRARIES for own in (".", "pulseaudio")]
    libraries = ":".join(map(str, [*folders, folder / "usr/lib/chromium"]))
    environment = {"LD_LIBRARY_PATH": libraries}
    if not _FONTS.exists():  # those that came with it
        environment["FONTCONFIG_SYSROOT"] = str(folder)
    return folder / "usr/lib/chromium/chromium", environment


@contextmanager
def chromium() -> Iterator[Browser]:
    """Give a browser that runs."""
    program, environment = ensure_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox"],  # it reads nothing but our own pages, and CI is root
            env={**os.environ, **environment},
        )
        yield browser
        browser.close()


def _unpack(part: Path, report: Report) -> None:
    lists, files = part / "lists", part / "files"
    for each in (lists / "partial", files):
        each.mkdir(parents=True)
    # Lists of its own: those of the machine may be missing, old, or not to be written.
    apt = ["apt-get", "-q", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={part}"]
    apt += ["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="]
    report("fetching Chromium from Debian's packages (80 MiB)")
    _run([*apt, "update"], cwd=part)
    install = [*apt, "--simulate", "--no-install-recommends", "install", "chromium"]
    names = _TO_FETCH.findall(_run(install, cwd=part))
    _run([*apt, "download", *names], cwd=files)
    for package in files.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(package), str(part)], cwd=part)
    for each in (lists, files):
        shutil.rmtree(each)


def _run(argv: list[str], *, cwd: Path, seconds: float = 540) -> str:
    try:
        done = subprocess.run(
            argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{argv[0]}: {error}") from error
    if done.returncode:
        raise ToolchainError(f"{' '.join(argv)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    try:
        print(f"chromium: {ensure_chromium()[0]}")
    except ToolchainError as error:
        sys.exit(str(error))
