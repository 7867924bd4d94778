"""Answers over HTTP: JSON as Connect writes it; errors are ``{"error_code", "message"}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from kafkeep.connect.model import RestError
from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    FencedError,
    GapError,
    InterruptedRunError,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    PreflightError,
    RecordError,
    TransientError,
    UsageError,
)

_STATUSES: tuple[tuple[type[KafkeepError], int], ...] = (
    (UsageError, 400),
    (NoSuchArchiveError, 404),
    (KeyMissingError, 404),
    (FencedError, 409),
    (PreflightError, 409),
    (GapError, 409),
    (KeyExistsError, 409),
    (RecordError, 422),
    (AccessDeniedError, 502),
    (TransientError, 503),
    (EnvironmentFault, 503),
    (InterruptedRunError, 503),
)
UNEXPECTED = "The request failed for a reason that was not foreseen; the worker's log has it."


class HttpError(RestError):
    """A RestError with headers of its own."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(status, message)
        self.headers = headers

    def __reduce__(self) -> tuple[object, ...]:
        return (HttpError, (self.status, self.message, self.headers))


def plain_error(status: int, headers: Mapping[str, str] | None = None) -> HttpError:
    """Return the error Connect answers when nobody wrote a message, e.g. ``HTTP 404 Not Found``."""
    phrase = HTTPStatus(status).phrase
    return HttpError(status, f"HTTP {status} {phrase}", headers or {})


def json_answer(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return ``value`` as JSON; text goes out as UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # What UTF-8 cannot say (half a surrogate pair, in a file's name) becomes an escape of JSON's.
    content = text.encode("utf-8", "backslashreplace")
    return Response(content, status, dict(headers or {}), media_type="application/json")


def empty_answer(status: int) -> Response:
    """Return an answer without a body and without a type."""
    return Response(status_code=status)


def error_answer(error: KafkeepError) -> Response:
    """Return an error under the status that fits it."""
    if isinstance(error, RestError):
        headers = error.headers if isinstance(error, HttpError) else None
        return _error(error.status, error.message, headers)
    message = f"{error.message}. {error.hint}" if error.hint else error.message
    return _error(_status_of(error), message)


def unexpected_answer() -> Response:
    """Return what a caller may know of an error nobody foresaw."""
    return _error(500, UNEXPECTED)


def _status_of(error: KafkeepError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_answer({"error_code": status, "message": message}, status, headers)
