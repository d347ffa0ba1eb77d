"""What takes long to make is made once for all workers of a run, and not once in each."""

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], T]) -> T:
    """Return what `make` returned of an empty folder, in this worker or before in another one.

    The others wait for it. Where it fails each tries for itself. What it returns is pickled.
    """
    own = factory.getbasetemp()
    base = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, made = base / name, base / f"{name}.made"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            made.write_bytes(pickle.dumps(make(folder)))
    found: T = pickle.loads(made.read_bytes())
    return found
