"""A browser that is unpacked: under a name of its own, with all that it needs."""

import platform
import shutil
from pathlib import Path

import pytest

from tests.harness import chromium
from tests.harness.toolchain import ToolchainError


def test_what_is_unpacked_finds_its_libraries_and_fonts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names: list[str] = []

    def built_once(name: str, *_: object) -> Path:
        names.append(name)
        return tmp_path

    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: name == "apt-get" or None)
    monkeypatch.setattr(chromium, "built_once", built_once)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "trixie"})
    monkeypatch.setattr(chromium, "_FONTS", tmp_path / "none")

    program, environment = chromium.ensure_chromium()

    assert (names, program) == (["chromium-trixie-aarch64"], tmp_path / "usr/lib/chromium/chromium")
    libraries = environment["LD_LIBRARY_PATH"].split(":")
    assert str(tmp_path / "usr/lib/aarch64-linux-gnu") in libraries
    assert str(tmp_path / "usr/lib/aarch64-linux-gnu/pulseaudio") in libraries
    assert environment["FONTCONFIG_SYSROOT"] == str(tmp_path)


@pytest.mark.parametrize(
    ("argv", "said"),
    [(["no-such-program"], "No such file"), (["tail", "-f", "/dev/null"], "timed out")],
)
def test_a_program_that_is_missing_or_hangs_is_said(
    argv: list[str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ToolchainError, match=said):
        chromium._run(argv, cwd=tmp_path, seconds=0.01)
