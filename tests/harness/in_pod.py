"""Becomes a command of a container, in the namespaces of a pod and with the container's mounts.

    python in_pod.py CONTAINER_FILE COMMAND [ARGUMENT...]

CONTAINER_FILE is JSON: `pod`, the id of the process that `pod_namespaces.py` named; `mounts`, by
path in the container the folder or file outside; `staging`, an empty folder; `hostname`; `env`, all
of the environment. The rest of the file system is the machine's, and the programs stay where they
are whatever is mounted above them: a checkout may lie in `/tmp`.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

_NEW_MOUNTS, _NEW_NAME = 0x00020000, 0x04000000  # linux/sched.h
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18  # linux/mount.h
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

_PROGRAMS = {Path(__file__).resolve().parents[2], Path(sys.prefix), Path(sys.base_prefix)}
"""The checkout, its environment, and the Python of that."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _join(pod: int) -> None:
    for name in ("user", "net"):
        with open(f"/proc/{pod}/ns/{name}") as handle:
            _check(_libc.setns(handle.fileno(), 0), f"setns {name}")
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_NAME), "unshare")
    _mount(None, Path("/"), _RECURSIVE | _PRIVATE)


def _mount(source: Path | None, target: Path, flags: int, kind: str | None = None) -> None:
    said = None if source is None else str(source).encode()
    result = _libc.mount(said, str(target).encode(), kind and kind.encode(), flags, None)
    _check(result, f"mount on {target}")


def _bind(source: Path, target: Path) -> None:
    _mount(source, target, _BIND | _RECURSIVE)


def _make(path: Path, staging: Path, *, is_file: bool) -> None:
    """Make a folder or file that the machine does not have, without making it on the machine.

    The closest folder above it that is there is replaced by one in memory with the same entries.
    """
    above = next(each for each in path.parents if each.is_dir()).resolve()
    copy = Path(tempfile.mkdtemp(dir=staging))
    _mount(Path("tmpfs"), copy, 0, "tmpfs")
    for entry in above.iterdir():
        own = copy / entry.name
        if entry.is_symlink():
            own.symlink_to(entry.readlink())
        elif entry.is_dir():
            own.mkdir()
            _bind(entry, own)
        else:
            own.touch()
            _bind(entry, own)
    _bind(copy, above)
    (path.parent if is_file else path).mkdir(parents=True, exist_ok=True)
    if is_file:
        path.touch()


def main(container_file: str, *command: str) -> None:
    """Enter, mount, and become the command."""
    parent = os.getppid()
    container = json.loads(Path(container_file).read_text())
    staging = Path(container["staging"])
    _join(container["pod"])
    socket.sethostname(container["hostname"])
    targets = [Path(path) for path in container["mounts"]]
    # Opened first: what is mounted over one folder may hide the source of another.
    sources = [os.open(source, os.O_PATH) for source in container["mounts"].values()]
    for target, source in zip(targets, container["mounts"].values(), strict=True):
        if not target.exists():
            _make(target, staging, is_file=Path(source).is_file())
    programs = {path: os.open(path, os.O_PATH) for path in _PROGRAMS}
    for source, target in zip(sources, targets, strict=True):
        _bind(Path(f"/proc/self/fd/{source}"), target)
        os.close(source)
        for path, own in programs.items():
            if target in path.parents:
                path.mkdir(parents=True, exist_ok=True)
                _bind(Path(f"/proc/self/fd/{own}"), path)
    for own in programs.values():
        os.close(own)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # new rights have taken it away
    if os.getppid() != parent:
        sys.exit("the parent died before the command could start")
    env = container["env"]
    os.environ["PATH"] = env["PATH"]
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    main(*sys.argv[1:])
