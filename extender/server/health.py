"""What a process tells about itself: it lives, it is ready, and its metrics."""

from collections.abc import Callable
from typing import Final

from fastapi import FastAPI, Response

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Checks = Callable[[], dict[str, bool]]


def add_health(app: FastAPI, metrics: Callable[[], bytes], ready: Checks) -> None:
    """Serve GET /livez, /readyz and /metrics; `ready` tells what must be true first."""

    async def livez() -> Response:
        return Response("ok\n", media_type="text/plain")

    async def readyz() -> Response:
        checks = ready()
        lines = [f"[{'+' if good else '-'}]{name}" for name, good in checks.items()]
        status = 200 if all(checks.values()) else 503
        return Response("\n".join(lines) + "\n", status, media_type="text/plain")

    async def metrics_page() -> Response:
        return Response(metrics(), media_type=METRICS_TYPE)

    app.add_api_route("/livez", livez, summary="The process answers", response_class=Response)
    app.add_api_route(
        "/readyz",
        readyz,
        summary="The caches have been filled once",
        responses={503: {"description": "A cache is still empty."}},
        response_class=Response,
    )
    app.add_api_route("/metrics", metrics_page, summary="Prometheus", response_class=Response)


def health_app(metrics: Callable[[], bytes], ready: Checks) -> FastAPI:
    """Return an application that serves nothing else."""
    app = FastAPI(title="gang-extender reconciler", docs_url=None, redoc_url=None)
    add_health(app, metrics, ready)
    return app
