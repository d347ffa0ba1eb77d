"""Requests of the API server before it stores an object, and the responses.

Source: the API `admission.k8s.io/v1`.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from typing_extensions import override

from extender.jobs import fields
from extender.jobs.fields import Object

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

_CODES: Final = {"Invalid": 422, "Forbidden": 403}


class MalformedReviewError(ValueError):
    """The body is no AdmissionReview."""


@dataclass(frozen=True, slots=True)
class Request:
    """An object that a client wants to create or change."""

    uid: str
    operation: str
    group: str
    kind: str
    namespace: str
    object: Object = field(default_factory=dict)
    old: Object | None = None
    """As it is stored; None where it is new."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field with a wrong value, and the remedy."""

    field: str
    message: str
    reason: Literal["Invalid", "Forbidden"] = "Invalid"

    @override
    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The response: refused where there are refusals, else changed by the patch."""

    refusals: Sequence[FieldError] = ()
    patch: Sequence[Object] = ()
    """Operations of JSON patch (RFC 6902)."""
    warnings: Sequence[str] = ()


def read(review: Mapping[str, object]) -> Request:
    """Return the request of a review. Raises MalformedReviewError."""
    asked = fields.mapping(review, "request")
    uid, operation = fields.text(asked, "uid"), fields.text(asked, "operation")
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        raise MalformedReviewError(f"should be an {KIND} of {API_VERSION}")
    if not uid or not operation:
        raise MalformedReviewError("request.uid and request.operation should be there")
    old = fields.mapping(asked, "oldObject")
    return Request(
        uid,
        operation,
        fields.text(asked, "kind", "group"),
        fields.text(asked, "kind", "kind"),
        fields.text(asked, "namespace"),
        dict(fields.mapping(asked, "object")),
        dict(old) or None,
    )


def answer(request: Request, verdict: Verdict) -> Object:
    """Return the review that goes back."""
    response: Object = {"uid": request.uid, "allowed": not verdict.refusals}
    if verdict.refusals:
        reason = verdict.refusals[0].reason
        response["status"] = {
            "code": _CODES[reason],
            "reason": reason,
            "message": "; ".join(map(str, verdict.refusals)),
        }
    elif verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(list(verdict.patch)).encode()).decode()
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
