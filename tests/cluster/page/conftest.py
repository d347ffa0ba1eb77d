"""The page, a browser that looks at it, and work on the control plane that is worth a look."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cluster.page.load import make_load, make_waiting
from tests.harness.chromium import chromium
from tests.harness.client import PATIENCE_SECONDS, Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT, GangScheduler
from tests.harness.process import free_port
from tests.harness.reconciler import Reconciler
from tests.harness.started import is_ready

PICTURES = ROOT / "dist" / "pictures"
RUNNING = 44
"""The pods of the jobs that start first."""
Look = Callable[[str], Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium."""
    expect.set_options(timeout=1000 * PATIENCE_SECONDS)
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def load(api: Api, gang: GangScheduler, reconciler: Reconciler) -> None:
    """Jobs that run and jobs that wait, and the rights of the page."""
    del gang, reconciler
    api.apply(ROOT / "manifests" / "page" / "rbac.yaml")
    make_load(api)

    def all_run() -> bool:
        return [pod["status"]["phase"] for pod in api.list("pods")].count("Running") >= RUNNING

    api.wait_for("the first jobs run", all_run)
    make_waiting(api)


@contextmanager
def served(
    control_plane: ControlPlane,
    kubeconfig: Path | None = None,
    *args: str,
    name: str = "page",
    host: str = "127.0.0.1",
    scheme: str = "http",
    env: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Run the page with the rights that it is shipped with; give its address."""
    account = control_plane.service_account_kubeconfig(NAMESPACE, "gang-page")
    port = free_port()
    url = f"{scheme}://{host}:{port}"
    command = [sys.executable, "-m", "gang_tools", "page", "--host", host, "--port", str(port)]
    found = kubeconfig or account
    process = control_plane.spawn(name, [*command, "--kubeconfig", found, *args], env=env, url=url)
    try:
        control_plane.wait_until("the page is ready", lambda: is_ready(process, url))
        yield url
    finally:
        process.stop(PATIENCE_SECONDS)  # a simulation is played to its end
    assert process.exit_code == 0


@pytest.fixture(scope="session")
def page_url(control_plane: ControlPlane, load: None) -> Iterator[str]:
    """The page on loopback, for all to see."""
    with served(control_plane) as url:
        yield url


@contextmanager
def opened(browser: Browser, width: int = 1360, **options: Any) -> Iterator[Page]:
    """Open a window, in which nothing waits less long than elsewhere."""
    context = browser.new_context(viewport={"width": width, "height": 820}, **options)
    context.set_default_timeout(1000 * PATIENCE_SECONDS)
    with context:
        yield context.new_page()


def visit(page: Page, address: str) -> None:
    """Open an address, and wait until the page hears what is typed."""
    page.goto(address)
    expect(page.locator(".live")).to_contain_text("live")


@pytest.fixture
def look(browser: Browser, page_url: str) -> Iterator[Look]:
    """Open a path of the page; whatever goes wrong in the browser fails the test."""
    wrong: list[str] = []
    with opened(browser) as page:
        page.on("pageerror", lambda error: wrong.append(str(error)))

        def open_path(path: str) -> Page:
            visit(page, page_url + path)
            return page

        yield open_path
    assert wrong == []


def picture(page: Page, name: str) -> None:
    """Keep a picture of the whole page."""
    _settle(page)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def picture_for_docs(page: Page, name: str, width: int, height: int) -> None:
    """Keep a picture of the upper part of the page; `docs/pictures` has copies of these."""
    _settle(page)
    page.set_viewport_size({"width": width, "height": height})
    page.screenshot(path=PICTURES / "docs" / f"{name}.png")


def _settle(page: Page) -> None:
    """Return once no time on the page is blank."""
    page.wait_for_function("[...document.querySelectorAll('time')].every(t => t.textContent)")
