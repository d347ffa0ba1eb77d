"""Builds what a release consists of: `python -m tests.dist [FOLDER]`, by `make dist`.

The folder, `dist/` if none is named, has afterwards the wheel, the source distribution, the SBOM of
the locked dependencies (CycloneDX 1.5) and the file SHA256SUMS. The same commit gives the same
bytes: times are SOURCE_DATE_EPOCH, which is the commit's where it is not set.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

ROOT: Final = Path(__file__).parents[1]
SUMS: Final = "SHA256SUMS"
EPOCH: Final = "SOURCE_DATE_EPOCH"
BEGIN: Final = "1580601600"
"""2020-02-02, as hatchling has it: for a source archive, which knows of no commit."""


def main(folder: Path, source: Path = ROOT) -> None:
    """Build into `folder`, whose earlier content goes; CalledProcessError where a tool fails."""
    env = {**os.environ, EPOCH: os.environ.get(EPOCH) or _time_of_commit(source)}
    shutil.rmtree(folder, ignore_errors=True)
    _run(source, env, [uv(), "build", "--quiet", "--no-create-gitignore", f"--out-dir={folder}"])
    [wheel] = folder.glob("*.whl")
    name, version = wheel.name.split("-")[:2]
    bill = _bill(source, env, version)
    (folder / f"{name}-{version}.cdx.json").write_text(json.dumps(bill, indent=2) + "\n")
    built = sorted(path for path in folder.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
    (folder / SUMS).write_text("".join(sums))


def uv() -> str:
    """Return where uv is: `make` says it, and otherwise it is on the PATH."""
    found = os.environ.get("UV") or shutil.which("uv") or _of_make()
    assert found, "there is no uv: make environment"
    return found


def _of_make() -> str | None:
    line = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if "UV_VERSION :=" in line
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "gang-extender" / f"uv-{line.split()[-1]}" / "bin" / "uv"
    return str(path) if path.is_file() else None


def _time_of_commit(source: Path) -> str:
    if not (source / ".git").exists():
        return BEGIN
    return _run(source, os.environ, ["git", "log", "-1", "--format=%ct"]).strip()


def _bill(source: Path, env: Any, version: str) -> dict[str, Any]:
    """Return the SBOM, with a time and a number that follow from what it says."""
    export = [uv(), "export", "--quiet", "--frozen", "--no-dev", "--format=cyclonedx1.5"]
    bill: dict[str, Any] = json.loads(_run(source, env, export))
    metadata = bill["metadata"]
    moment = datetime.fromtimestamp(int(env[EPOCH]), UTC)
    metadata["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    # The lock file has no version of the project itself.
    own = metadata["component"]
    own |= {"type": "application", "version": version, "purl": f"pkg:pypi/{own['name']}@{version}"}
    del bill["serialNumber"]
    number = uuid5(NAMESPACE_URL, json.dumps(bill, sort_keys=True))
    return {**bill, "serialNumber": f"urn:uuid:{number}"}


def _run(source: Path, env: Any, command: Sequence[str]) -> str:
    return subprocess.run(
        command, cwd=source, env=env, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "dist")
