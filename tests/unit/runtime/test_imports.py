"""What decides must load in milliseconds and be usable without a loop, a client or a server."""

import subprocess
import sys

import pytest

PACKAGES = ("extender.gang", "extender.state", "extender.resources")
HEAVY = ("asyncio", "kubernetes", "aiohttp", "fastapi", "pydantic", "uvicorn", "structlog")

SCRIPT = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
modules = list(pkgutil.iter_modules(package.__path__, package.__name__ + "."))
for module in modules:
    importlib.import_module(module.name)
assert modules
print(*(name for name in sys.argv[2:] if name in sys.modules))
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_a_decision_package_imports_nothing_heavy(package: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, package, *HEAVY], capture_output=True, text=True, check=True
    )

    assert found.stdout.split() == []


def test_the_check_above_sees_what_is_loaded() -> None:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, "extender.server", *HEAVY],
        capture_output=True,
        text=True,
        check=True,
    )

    assert {"asyncio", "fastapi", "pydantic", "structlog"} <= set(found.stdout.split())
