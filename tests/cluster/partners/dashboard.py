"""Ray's dashboard and Serve's proxies, as far as KubeRay asks them what runs in a cluster."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override


class Dashboard:
    """An HTTP proxy that answers for every Ray cluster.

    KubeRay calls `http://CLUSTER-head-svc.NAMESPACE.svc.cluster.local:8265` for the dashboard, and
    the address of the head's pod for Serve's proxy. A proxy is asked for the whole URL.
    """

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}
        """The state in which the Ray jobs of a namespace ended."""
        dashboard = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._say(dashboard.answer(self.path))

            def do_POST(self) -> None:
                self._say({"stopped": True})

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._say({})

            @override
            def log_message(self, *_: object) -> None:
                """Say nothing: a test reads no log of it."""

            def _say(self, found: dict[str, Any]) -> None:
                body = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, url: str) -> dict[str, Any]:
        """Return what Ray says of the job that a URL names, or of Serve's applications."""
        found = urlsplit(url)
        if "/api/jobs/" not in found.path:
            running = {"name": "app", "status": "RUNNING", "deployments": {}}
            return {"applications": {"app": running}}
        namespace = (found.hostname or "").split(".")[1]
        name = found.path.rpartition("/")[2]
        state = self.ended.get(namespace, "RUNNING")
        return {"status": state, "submission_id": name, "entrypoint": "job", "start_time": 1}

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answer within the block."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
