"""A stand-in for KubeClient that keeps the requests of writers."""

import json
from typing import Any

from extender.kube.client import JSON
from extender.kube.errors import ApiError


class Recorded:
    """Keeps requests, and gives scripted answers, then empty objects; an error is raised."""

    def __init__(self, *answers: dict[str, Any] | ApiError) -> None:
        self._answers = list(answers)
        self.requests: list[tuple[str, str, Any, str]] = []
        """Method, path, body and content type of each."""

    @property
    def body(self) -> Any:
        """The body of the last request."""
        return self.requests[-1][2]

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        self.requests.append((method, path, json.loads(body) if body else None, content_type))
        answer = self._answers.pop(0) if self._answers else {}
        if isinstance(answer, ApiError):
            raise answer
        return json.dumps(answer).encode()

    async def post(self, path: str, body: bytes) -> None:
        await self.request("POST", path, body=body)
