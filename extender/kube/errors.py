"""What can go wrong between us and the API server.

ApiError
├── NotFoundError        404
├── ConflictError        409
├── GoneError            410: the resource version is too old, list again
├── InvalidError         400, 422: asking again will not help
├── ForbiddenError       401, 403: our role or credentials lack something
└── UnavailableError     429, 5xx, no connection, no answer in time: asking again may help
"""

from typing import Final

import msgspec


class ApiError(Exception):
    """The API server refused, or could not be reached. `status` 0 means that nothing answered."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NotFoundError(ApiError):
    """There is no such object."""


class ConflictError(ApiError):
    """The object is not as the request presumed."""


class GoneError(ApiError):
    """The resource version is too old to watch from."""


class InvalidError(ApiError):
    """The request can never succeed as it is."""


class ForbiddenError(ApiError):
    """Credentials or rights are missing."""


class UnavailableError(ApiError):
    """Passing trouble."""


class ConfigurationError(Exception):
    """There is no usable way to the API server: no kubeconfig, or a broken one."""


_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: UnavailableError,
}
_LONGEST_MESSAGE: Final = 500


class _Status(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    message: str = ""


def from_response(status: int, body: bytes, *, doing: str) -> ApiError:
    """Return the error for an answer that is not 2xx.

    Only the message of a `kind: Status` is taken over, and cut: other bodies may hold secrets.
    """
    kind = _BY_STATUS.get(status, UnavailableError if status >= 500 else ApiError)
    return kind(f"{doing}: {status} {_message(body)}".rstrip(), status=status)


def _message(body: bytes) -> str:
    try:
        parsed = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        return ""
    return parsed.message[:_LONGEST_MESSAGE] if parsed.kind == "Status" else ""
