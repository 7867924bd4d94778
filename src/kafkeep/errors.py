"""Every error kafkeep raises on purpose, as one tree.

::

    KafkeepError                 1    the base; see below for who may catch it
    ├── UsageError               2    a flag, file or value is invalid
    ├── GapError                 3    Kafka deleted offsets before they were archived
    ├── NoSuchArchiveError      10    nothing is archived at that address
    ├── FencedError             11    a newer writer holds the log
    ├── AccessDeniedError       12    Kafka or the store denied access
    ├── DamagedError            13    stored bytes are missing or differ from the log
    │   └── NewerFormatError    13    written by a newer kafkeep
    ├── PreflightError          14    the target or the archive does not allow the operation
    ├── InterruptedRunError    130    Ctrl-C
    ├── EnvironmentFault         1    this machine lacks something (Java, a port, disk)
    ├── RecordError              1    a record cannot be converted, transformed or written
    ├── KeyExistsError           1    a conditional create found the key taken
    ├── KeyMissingError          1    there is no object under the key
    └── TransientError           1    safe to retry
        └── UnknownOutcomeError  1    sent, no answer: it may or may not have happened

``message`` is lowercase, has no full stop, and names the topic, key or file it is about. ``hint``
is a full sentence that says what to do next.

Catch the class that you can handle. The base class is caught only where every error means the
same:

- it becomes an answer: the exit code (``cli/``), a REST answer (``connect/rest/``), a page
  of the console (``ui/``), a check of
  ``doctor``, the result row of a Spark task;
- it is logged, because the work must continue: the leader loop, the journal's snapshots, metrics,
  progress, offsets of consumer groups, default retention, the clean-up of a drill;
- it is raised again after a clean-up: cached metadata, an unfinished upload, a missing bucket.
"""

from __future__ import annotations


class KafkeepError(Exception):
    """Base of the tree; ``exit_code`` is the exit code of the command line."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[KafkeepError], message: str, hint: str | None) -> KafkeepError:
    return kind(message, hint=hint)


class UsageError(KafkeepError):
    """A flag, file or value is invalid."""

    exit_code = 2


class GapError(KafkeepError):
    """Kafka deleted offsets before they were archived, and ``on.gap`` is ``fail``."""

    exit_code = 3


class NoSuchArchiveError(KafkeepError):
    """Nothing is archived at that address."""

    exit_code = 10


class FencedError(KafkeepError):
    """A newer writer has taken the log; this one must stop."""

    exit_code = 11


class AccessDeniedError(KafkeepError):
    """Kafka or the store denied access."""

    exit_code = 12


class DamagedError(KafkeepError):
    """Stored bytes are missing or differ from the log."""

    exit_code = 13


class NewerFormatError(DamagedError):
    """A document was written by a newer kafkeep than this one."""


class PreflightError(KafkeepError):
    """The target or the archive does not allow the operation; nothing was written."""

    exit_code = 14


class InterruptedRunError(KafkeepError):
    """The user pressed Ctrl-C."""

    exit_code = 130


class EnvironmentFault(KafkeepError):
    """The machine lacks something: Java, a free port, disk space."""


class RecordError(KafkeepError):
    """A record cannot be converted, transformed or written; other records are not affected."""


class KeyExistsError(KafkeepError):
    """A conditional create found an object under its key."""


class KeyMissingError(KafkeepError):
    """There is no object under the key."""


class TransientError(KafkeepError):
    """The call failed for now; it is safe to retry."""


class UnknownOutcomeError(TransientError):
    """The request was sent and not answered: it may or may not have taken effect."""
