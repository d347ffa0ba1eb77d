"""Becomes a command in a container of an image, as far as a machine without an engine can have one.

    python in_image.py CONTAINER_FILE COMMAND [ARGUMENT...]

CONTAINER_FILE is JSON: `root`, a folder whose entries are those of `/` in the image; `staging`, an
empty folder; `user` and `group`, the ids inside; `writable`, whether what is in `root` may be
written; `mounts`, by path in the container the folder outside, which may be written; `folder`,
where the command begins; `env`, all of the environment. Everything else of the file system is the
machine's, which is the base of the image, and may only be read. There is no `/tmp` but a mounted
one.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000  # linux/sched.h
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18  # linux/mount.h
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1  # the same everywhere
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38  # linux/prctl.h
_NOT_THE_IMAGES = {"tmp", "app", "lost+found"}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: Path | None, target: Path, flags: int, kind: str | None = None) -> None:
    said = None if source is None else str(source).encode()
    result = _libc.mount(said, str(target).encode(), kind and kind.encode(), flags, None)
    _check(result, f"mount on {target}")


def _read_only(tree: Path) -> None:
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY, 0, 0, 0)
    size = ctypes.sizeof(attributes)
    result = _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, str(tree).encode(), _AT_RECURSIVE, attributes, size
    )
    _check(result, f"mount_setattr of {tree}")


def _enter(user: int, group: int) -> None:
    """Enter new namespaces as that user; outside it is still the one that started this."""
    outside, of_group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEW_USER | _NEW_MOUNTS), "unshare")
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {outside} 1")
    (own / "gid_map").write_text(f"{group} {of_group} 1")
    _mount(None, Path("/"), _RECURSIVE | _PRIVATE)


def _lay_out(root: Path, staging: Path, mounts: dict[str, str]) -> None:
    _mount(Path("tmpfs"), staging, 0, "tmpfs")
    images = {entry.name for entry in root.iterdir()}
    entries = [each for each in Path("/").iterdir() if each.name not in images | _NOT_THE_IMAGES]
    for entry in (*entries, *root.iterdir()):
        own = staging / entry.name
        if entry.is_symlink():
            own.symlink_to(entry.readlink())
        elif entry.is_dir():
            own.mkdir()
            _mount(entry, own, _BIND | _RECURSIVE)
        else:
            own.touch()
            _mount(entry, own, _BIND)
    for path in mounts:
        (staging / path.lstrip("/")).mkdir(parents=True, exist_ok=True)


def main(container_file: str, *command: str) -> None:
    """Enter, mount, and become the command."""
    parent = os.getppid()
    container = json.loads(Path(container_file).read_text())
    root, staging = Path(container["root"]), Path(container["staging"])
    _enter(container["user"], container["group"])
    _lay_out(root, staging, container["mounts"])
    _read_only(staging)
    writable = {f"/{each.name}": str(each) for each in root.iterdir()}
    for path, source in {
        **(writable if container["writable"] else {}),
        **container["mounts"],
    }.items():
        _mount(Path(source), staging / path.lstrip("/"), _BIND | _RECURSIVE)
    os.chroot(staging)
    os.chdir(container["folder"])
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # new rights have taken it away
    if os.getppid() != parent:
        sys.exit("the parent died before the command could start")
    env = container["env"]
    os.environ["PATH"] = env["PATH"]
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    main(*sys.argv[1:])
