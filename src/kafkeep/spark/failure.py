"""What Spark says when a job fails, told in a sentence."""

from __future__ import annotations

import re

from kafkeep.errors import KafkeepError, TransientError

_PYTHON_ERROR = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<text>.+)$")
_LOST_WORKER = ("Python worker exited unexpectedly", "crashed", "EOFException", "Connection reset")

_ENDED = ("SparkContext was shut down", "stopped SparkContext")

AGAIN = "When the cause is gone, run the same again: it goes on where this one stopped."


class ApplicationEndedError(TransientError):
    """Spark ended the whole application: a new session may run the job."""


def is_ended_application(error: BaseException) -> bool:
    """Tell whether a job failed for Spark had ended the application, not for what a task did."""
    return any(sign in str(error) for sign in _ENDED)


def explain_end(error: BaseException, label: str, *, why: str, hint: str) -> KafkeepError:
    """Return the error to raise for a job whose application Spark has ended."""
    ended = ApplicationEndedError(f"Spark ended the application of {label}: {why}", hint=hint)
    return _noted(ended, str(error))


def explain_failure(error: BaseException, label: str) -> KafkeepError:
    """Return the error to raise for a job that Spark gave up on.

    TransientError when the last attempt failed with one, or lost its worker: trying the whole run
    again may help. The whole text of Spark's is a note of it, for those who debug.
    """
    text = str(error)
    kind, message = _last_python_error(text)
    if kind.endswith(("TransientError", "UnknownOutcomeError")):
        return _noted(TransientError(message, hint=AGAIN), text)
    if kind:
        short = kind.rsplit(".", 1)[-1]
        told = message if short == "KafkeepError" else f"{short}: {message}"
        return _noted(KafkeepError(f"a task of {label} failed: {told}"), text)
    if any(sign in text for sign in _LOST_WORKER):
        told = f"a task of {label} lost its Python worker each time"
        return _noted(TransientError(told, hint=AGAIN), text)
    if "cancelled" in text:
        return _noted(TransientError(f"{label} was cancelled"), text)
    return _noted(KafkeepError(f"{label} failed in Spark: {_first_line(text)}"), text)


def interruption(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt that ``error`` hides: pyspark asks the JVM something on its way out.

    That may fail, since the connection was given up in the middle of an answer.
    """
    hidden: BaseException | None = error
    while hidden is not None and not isinstance(hidden, KeyboardInterrupt):
        hidden = hidden.__context__
    return hidden


def _last_python_error(text: str) -> tuple[str, str]:
    """Find the exception's line, the first not indented, behind the last traceback."""
    _, found, tail = text.rpartition("Traceback (most recent call last):")
    if not found:
        return "", ""
    for line in tail.splitlines()[1:]:
        if line.startswith(" ") or not line.strip():
            continue
        match = _PYTHON_ERROR.match(line.strip())
        return (match["kind"], match["text"]) if match else (line.strip(), "no message")
    return "", ""


def _noted(error: KafkeepError, text: str) -> KafkeepError:
    error.add_note(text)
    return error


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else "no reason given"
