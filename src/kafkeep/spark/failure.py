"""Explain in one sentence why Spark failed, from its exception and from the log of its JVM.

This module does not import pyspark: the JVM starts while Python imports the rest.
"""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kafkeep.errors import EnvironmentFault, KafkeepError, TransientError

LOG_VARIABLE = "KAFKEEP_SPARK_LOG"
KEEP_LOG_HINT = f"Set {LOG_VARIABLE} to a file name to keep everything that Spark says."
_TAIL_BYTES = 1 << 20
_NOISE = re.compile(
    r"\s*(at |\.\.\. \d+ more)|WARNING: |Setting default log level|To adjust logging level"
)
_PREFIXES = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]+ \S+: |Exception in thread \"[^\"]*\" |Caused by: )+"
)
_PACKAGE = re.compile(r"^(?:[a-z_][\w$]*\.)+(?=[A-Z][\w$]*(?:: |$))")


def named_log() -> Path | None:
    """Return the file that the user wants Spark's log in; EnvironmentFault if it cannot be."""
    name = os.environ.get(LOG_VARIABLE)
    if not name:
        return None
    try:
        with Path(name).open("ab"):
            return Path(name)
    except OSError as error:
        raise EnvironmentFault(
            f"{LOG_VARIABLE} is {name}, which cannot be written: {error.strerror}",
            hint="Name a file in an existing folder, or unset the variable.",
        ) from error


@dataclass(slots=True)
class SparkLog:
    """The log of a JVM that outlives its session: the file that was named, or a temporary one."""

    path: Path
    is_kept: bool

    @classmethod
    def create(cls) -> SparkLog:
        """Return the log for a JVM to be started; a temporary one goes when this process ends."""
        if (named := named_log()) is not None:
            return cls(named, True)
        handle, name = tempfile.mkstemp(prefix="kafkeep-spark-", suffix=".log")
        os.close(handle)
        log = cls(Path(name), False)
        atexit.register(log._remove)
        return log

    def keep(self) -> str:
        """Keep the file for the user to read; return the sentence that says where it is."""
        self.is_kept = True
        return f"Spark's log is {self.path}."

    def _remove(self) -> None:
        if not self.is_kept:
            self.path.unlink(missing_ok=True)


def find_cause(log: Path) -> str:
    """Return the last line of a log that says why, without time, thread and package names."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        text = ""
    lines = [line for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    return short_reason(lines[-1]) if lines else "its log is empty"


def short_reason(line: str) -> str:
    """Return a line of a Java log or trace without what is in front of its message."""
    return _PACKAGE.sub("", _PREFIXES.sub("", line.strip().removeprefix(": ")))[:500]


_PYTHON_ERROR = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<text>.+)$")
_OTHER_PYTHON = re.compile(r"No module named '?kafkeep\b'?|\[PYTHON_VERSION_MISMATCH\][^\n]*")
_SHIP_HINT = (
    "Ship an environment with kafkeep to the executors, or install it there:"
    " docs/guides/spark-clusters.md."
)
_LOST_WORKER = ("Python worker exited unexpectedly", "crashed", "EOFException", "Connection reset")

_ENDED = ("SparkContext was shut down", "stopped SparkContext")

AGAIN = "Fix the cause and run the same command again. It resumes where this run stopped."


class ApplicationEndedError(TransientError):
    """Spark ended the whole application: a new session may run the job."""


def is_ended_application(error: BaseException) -> bool:
    """Tell whether a job failed for Spark had ended the application, not for what a task did."""
    return any(sign in str(error) for sign in _ENDED)


def explain_end(error: BaseException, label: str, *, why: str, hint: str) -> KafkeepError:
    """Return the error to raise for a job whose application Spark has ended."""
    ended = ApplicationEndedError(f"Spark ended the application of {label}: {why}", hint=hint)
    return _noted(ended, str(error))


def explain_resident_end(error: BaseException, label: str) -> KafkeepError:
    """Return the error to raise for a job whose resident session has ended."""
    reason = f"the resident Spark session ended while {label} ran in it"
    return _noted(TransientError(reason, hint=AGAIN), str(error))


def explain_failure(error: BaseException, label: str) -> KafkeepError:
    """Return the error to raise for a job that Spark gave up on.

    TransientError when the last attempt failed with one, or lost its worker: trying the whole run
    again may help. The whole text of Spark's is a note of it, for those who debug.
    """
    text = str(error)
    if (found := _OTHER_PYTHON.search(text)) is not None:
        lacking = f"the Python of Spark's executors cannot run {label}: {found[0].strip()}"
        return _noted(EnvironmentFault(lacking, hint=_SHIP_HINT), text)
    kind, message = _last_python_error(text)
    if kind.endswith(("TransientError", "UnknownOutcomeError")):
        return _noted(TransientError(message, hint=AGAIN), text)
    if kind:
        short = kind.rsplit(".", 1)[-1]
        reason = message if short == "KafkeepError" else f"{short}: {message}"
        return _noted(KafkeepError(f"a task of {label} failed: {reason}"), text)
    if any(sign in text for sign in _LOST_WORKER):
        reason = f"a task of {label} lost its Python worker each time"
        return _noted(TransientError(reason, hint=AGAIN), text)
    if "cancelled" in text or "OPERATION_CANCELED" in text:
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
    """Find the exception's line, the first that is not indented more, behind the last traceback.

    Spark indents the traceback of a daemon that did not start.
    """
    before, found, tail = text.rpartition("Traceback (most recent call last):")
    if not found:
        return "", ""
    indent = before[len(before.rstrip(" ")) :]
    for line in tail.splitlines()[1:]:
        if line.startswith(f"{indent} ") or not line.strip():
            continue
        match = _PYTHON_ERROR.match(line.strip())
        return (match["kind"], match["text"]) if match else (line.strip(), "no message")
    return "", ""


def _noted(error: KafkeepError, text: str) -> KafkeepError:
    error.add_note(text)
    return error


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # of py4j
        return short_reason(lines[1])[:300]
    return lines[0][:300] if lines else "no reason given"
