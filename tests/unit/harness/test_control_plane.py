"""When a component of a control plane counts as ready."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.harness.control_plane import is_ready


@contextmanager
def component(**statuses: int) -> Iterator[str]:
    """Serve these paths with these statuses, and any other one with 404; give the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.get(self.path.lstrip("/"), 404))
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(
    ("statuses", "want"),
    [
        ({"readyz": 500, "healthz": 200}, False),  # kube-scheduler, until it knows all pods
        ({"readyz": 200, "healthz": 200}, True),
        ({"healthz": 200}, True),  # kube-controller-manager
        ({"readyz": 200}, True),  # etcd
        ({}, False),
    ],
)
def test_a_component_is_ready_when_it_says_so(statuses: dict[str, int], want: bool) -> None:
    with component(**statuses) as url:
        assert is_ready(url) is want


def test_a_component_that_is_not_there_is_not_ready() -> None:
    with component() as url:
        pass
    assert not is_ready(url)
