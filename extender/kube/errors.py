"""Errors between this process and the API server."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec


class ApiError(Exception):
    """The API server refused, or could not be reached. `status` 0 means that nothing answered.

    `retry_after` is what the server asked for, in seconds.
    """

    def __init__(self, message: str, *, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class NotFoundError(ApiError):
    """404: there is no such object."""


class ConflictError(ApiError):
    """409: the object is not as the request presumed."""


class GoneError(ApiError):
    """410: the resource version is too old to watch from."""


class RefusedError(ApiError):
    """400, 403, 413, 422: the same request will be refused again."""


class InvalidError(RefusedError):
    """400, 422: the request can never succeed as it is."""


class UndeclaredFieldsError(InvalidError):
    """500 to a server-side apply: the CustomResourceDefinition lacks fields of the status.

    The API server gives this answer no `kind: Status` of its own; only its text says so.
    """

    def __init__(self, message: str, *, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message, status=status, retry_after=retry_after)
        self.fields = frozenset(_UNDECLARED.findall(message))
        """The fields directly below `status` that the schema lacks, or lacks a part of."""


class ForbiddenError(RefusedError):
    """403: our role lacks a right, or a policy or a ResourceQuota forbids it."""


class UnavailableError(ApiError):
    """408, 5xx, no connection, no answer in time: a retry may succeed."""

    is_unsent = False
    """True if there was no connection: no API server is there, or other writes had them all."""


class UnauthorizedError(UnavailableError):
    """401, or a certificate that is refused: new credentials may help."""

    renewed = False
    """True if other credentials have replaced the refused ones."""


class LargeAnswerError(ApiError):
    """An answer has more bytes than its reader takes at a time."""


class SilentError(UnavailableError):
    """The API server holds a watch open and sends nothing, neither an event nor a bookmark."""


class ThrottledError(UnavailableError):
    """429: the server is busy, or a rule forbids it for now; nothing was carried out."""


class BudgetError(ThrottledError):
    """429: a disruption budget forbids the eviction for now."""


class UnknownOutcomeError(UnavailableError):
    """408, 500, 502, 504, half an answer to a write: a read shows whether it was carried out."""


class ConfigurationError(Exception):
    """There is no usable way to the API server: no kubeconfig, or a broken one."""


_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    HTTPStatus.BAD_REQUEST: InvalidError,
    HTTPStatus.UNAUTHORIZED: UnauthorizedError,
    HTTPStatus.FORBIDDEN: ForbiddenError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.REQUEST_TIMEOUT: UnavailableError,
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.GONE: GoneError,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: RefusedError,
    HTTPStatus.UNPROCESSABLE_ENTITY: InvalidError,
    HTTPStatus.TOO_MANY_REQUESTS: ThrottledError,
}
_UNKNOWN: Final = frozenset(
    (
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.GATEWAY_TIMEOUT,
    )
)
_READS: Final = frozenset(("GET", "HEAD", "WATCH"))
_UNDECLARED: Final = re.compile(r"\.status\.(\w+)[^:]*: field not declared in schema")
_BUDGET: Final = "DisruptionBudget"
_TOO_LARGE: Final = "ResourceVersionTooLarge"
LONGEST_NOTE: Final = 1024
"""The most bytes of a text that people read: of an error, and of the note of an Event."""


class _Cause(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True, gc=False):
    causes: list[_Cause] | None = None


class _ErrorStatus(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    message: str = ""
    details: _Details | None = None


_NO_STATUS: Final = _ErrorStatus()


def from_response(
    status: int, body: bytes, *, doing: str, headers: Mapping[str, str] | None = None
) -> ApiError:
    """Return the error for an answer that is not 2xx; `doing` begins with the method.

    Only the message of a `kind: Status` is taken over, and cut: other bodies may hold secrets.
    """
    try:
        parsed = msgspec.json.decode(body, type=_ErrorStatus)
    except msgspec.MsgspecError:
        parsed = _NO_STATUS
    said = parsed if parsed.kind == "Status" else _NO_STATUS
    kind = _kind(status, said, reads=doing.partition(" ")[0] in _READS)
    text = f"{doing}: {status} {said.message[:LONGEST_NOTE]}".rstrip()
    pause = (headers or {}).get("Retry-After", "")  # the API server never writes a date
    seconds = float(pause) if pause.isascii() and pause.isdigit() else None
    return kind(text, status=status, retry_after=seconds)


def _kind(status: int, said: _ErrorStatus, *, reads: bool) -> type[ApiError]:
    causes = said.details.causes or () if said.details else ()
    if reads and any(cause.reason == _TOO_LARGE for cause in causes):
        return GoneError  # the server has been set back to before the version that is asked for
    if status == 429 and any(cause.reason == _BUDGET for cause in causes):
        return BudgetError
    if status == 500 and _UNDECLARED.search(said.message):
        return UndeclaredFieldsError
    if status in _UNKNOWN and not reads:
        return UnknownOutcomeError
    return _BY_STATUS.get(status, UnavailableError if status >= 500 else ApiError)
