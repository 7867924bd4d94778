"""The log of Spark's JVM: where it is written, and the line in it that says why Spark failed.

This module does not import pyspark, so that the JVM can start while Python imports the rest.
"""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kafkeep.errors import EnvironmentFault

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
            hint="Name a file in a folder that is there, or unset the variable.",
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
    return short_reason(lines[-1]) if lines else "its log says nothing"


def short_reason(line: str) -> str:
    """Return a line of a Java log or trace without what is in front of its message."""
    return _PACKAGE.sub("", _PREFIXES.sub("", line.strip().removeprefix(": ")))[:500]
