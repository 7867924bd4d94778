"""An error as it is told: which one of ours it is, and its document for machines."""

from __future__ import annotations

from typing import Any

from kafkeep.errors import InterruptedRunError, KafkeepError
from kafkeep.redact import redact
from kafkeep.store.disk import disk_fault


def error_of(error: BaseException) -> KafkeepError:
    """Return the error of ours that says what happened."""
    if isinstance(error, KafkeepError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return InterruptedRunError("interrupted")
    if isinstance(error, OSError) and (fault := disk_fault(error)) is not None:
        return fault
    return KafkeepError(
        f"something unexpected happened: {type(error).__name__}: {error}",
        hint="Run it again with kafkeep --debug … and report what it shows; it has no secrets.",
    )


def error_document(error: KafkeepError) -> dict[str, Any]:
    """Return an error as JSON has it; scripts may rely on it."""
    return {
        "message_type": "exit_error",
        "code": error.exit_code,
        "error": type(error).__name__,
        "message": redact(error.message),
        "hint": error.hint,
    }
