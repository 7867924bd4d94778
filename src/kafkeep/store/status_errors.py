"""The KafkeepError of an HTTP status, as far as Google and Azure agree on its meaning."""

from __future__ import annotations

from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    KeyMissingError,
    TransientError,
    UnknownOutcomeError,
)

SLOWER = "The store asks for fewer requests: try again later, or with fewer tasks at once."


def error_of_status(status: int, message: str, *, grant: str, writes: bool) -> KafkeepError:
    """Return the error. ``grant`` is the hint when access is denied."""
    if status in (401, 403):
        return AccessDeniedError(message, hint=grant)
    if status == 404:
        return KeyMissingError(message)
    if status in (408, 429, 503):
        return TransientError(message, hint=None if status == 408 else SLOWER)
    if status >= 500:
        return unanswered(message, writes=writes)
    return EnvironmentFault(message)


def unanswered(message: str, *, writes: bool) -> TransientError:
    """Return the error of a request without an answer. A write may have taken effect."""
    return UnknownOutcomeError(message) if writes else TransientError(message)
