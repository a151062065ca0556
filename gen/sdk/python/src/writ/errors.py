"""What calls raise."""

from __future__ import annotations

import email.utils
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, ClassVar

import httpx


class WritError(Exception):
    """Whatever this package raises, but for what your own code does."""


class ConnectionError(WritError):
    """There was no answer; `__cause__` says why."""


class TimeoutError(WritError):
    """The time for the call is over."""


@dataclass(frozen=True)
class FieldViolation:
    """A field that was refused."""

    field: str
    description: str


class Refusal(WritError):
    """What an answer that refuses has in common."""

    status: int
    """The HTTP status."""
    request_id: str | None
    """Finds the call in the logs of the server."""
    retry_after: float | None
    """How many seconds the server asks to wait."""
    headers: httpx.Headers
    body: bytes
    """What was received, as it is."""

    def __init__(self, message: str, response: httpx.Response) -> None:
        self.request_id = response.headers.get("x-request-id")
        super().__init__(f"{message} (request {self.request_id})" if self.request_id else message)
        self.status = response.status_code
        self.retry_after = retry_after(response.headers)
        self.headers = response.headers
        self.body = response.content


class ApiError(Refusal):
    """A refusal of the API. Its subclasses are the kinds of refusals."""

    code: str
    """The kind: the name of a google.rpc.Code."""
    reason: str | None
    """What programs compare (`writ.reasons`). None when not the server answered but a proxy."""
    message: str
    """A sentence for developers, which may change."""
    violations: list[FieldViolation]
    """The fields that were refused."""

    def __init__(
        self, code: str, reason: str | None, message: str, violations: Iterable[FieldViolation], response: httpx.Response
    ) -> None:
        super().__init__(f"{code}{f' {reason}' if reason else ''}: {message}", response)
        self.code, self.reason, self.message, self.violations = code, reason, message, list(violations)

    _kinds: ClassVar[dict[str, type[ApiError]]] = {}

    def __init_subclass__(cls, code: str) -> None:
        ApiError._kinds[code] = cls


class InvalidArgumentError(ApiError, code="INVALID_ARGUMENT"):
    """The request breaks a rule; `violations` says which."""


class UnauthenticatedError(ApiError, code="UNAUTHENTICATED"):
    """The access token is missing or not good."""


class PermissionDeniedError(ApiError, code="PERMISSION_DENIED"):
    """The caller lacks the permission."""


class NotFoundError(ApiError, code="NOT_FOUND"):
    """Something the request names does not exist, or not for the caller."""


class AlreadyExistsError(ApiError, code="ALREADY_EXISTS"):
    """Something of that name exists already."""


class FailedPreconditionError(ApiError, code="FAILED_PRECONDITION"):
    """It cannot be done in the state that things are in."""


class ResourceExhaustedError(ApiError, code="RESOURCE_EXHAUSTED"):
    """Too much was asked; later it may be granted."""


class UnavailableError(ApiError, code="UNAVAILABLE"):
    """The server cannot answer now."""


class InternalError(ApiError, code="INTERNAL"):
    """The server failed; its log says why."""


class OAuthError(Refusal):
    """A refusal of an OAuth endpoint (RFC 6749, section 5.2)."""

    error: str
    """invalid_grant, invalid_client, …"""
    description: str | None

    def __init__(self, error: str, description: str | None, response: httpx.Response) -> None:
        super().__init__(f"{error}: {description}" if description else error, response)
        self.error, self.description = error, description


_CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
    "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
).split()

_CODE_OF_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
}


def refusal(response: httpx.Response) -> Refusal:
    """An answer as an error."""
    body: Any = None
    try:
        body = json.loads(response.content)
    except ValueError:
        pass  # a proxy answered
    if not isinstance(body, dict):
        body = {}
    if isinstance(body.get("error"), str):
        return OAuthError(body["error"], body.get("error_description"), response)
    number = body.get("code")
    if not isinstance(number, int):
        code = _CODE_OF_STATUS.get(response.status_code, "INTERNAL" if response.status_code >= 500 else "UNKNOWN")
        return ApiError._kinds.get(code, ApiError)(code, None, f"HTTP {response.status_code}", [], response)
    code = _CODES[number] if 0 <= number < len(_CODES) else f"CODE_{number}"
    details = [each for each in body.get("details", []) if isinstance(each, dict)]
    reason = next((each["reason"] for each in details if each.get("reason")), None)
    violations = [
        FieldViolation(violation.get("field", ""), violation.get("description", ""))
        for each in details
        for violation in each.get("fieldViolations", [])
    ]
    return ApiError._kinds.get(code, ApiError)(code, reason, str(body.get("message", "")), violations, response)


def retry_after(headers: httpx.Headers) -> float | None:
    """What Retry-After says, in seconds."""
    text = headers.get("retry-after", "")
    if text.isdigit():
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())
