"""Every error kafkeep raises on purpose, as one tree.

::

    KafkeepError                 1    the base; only the CLI and the REST app catch it
    ├── UsageError               2    a flag, file or value that cannot be understood
    ├── GapError                 3    Kafka deleted offsets before they were archived
    ├── NoSuchArchiveError      10    nothing is archived at that address
    ├── FencedError             11    a newer writer holds the log
    ├── AccessDeniedError       12    Kafka or the store refused our credentials
    ├── DamagedError            13    stored bytes are not what the log says
    │   └── NewerFormatError    13    written by a newer kafkeep
    ├── PreflightError          14    the target or the archive does not allow what was asked
    ├── InterruptedRunError    130    Ctrl-C
    ├── EnvironmentFault         1    this machine lacks something (Java, a port, disk)
    ├── RecordError              1    a record that cannot be converted, transformed or placed
    ├── KeyExistsError           1    a conditional create met an object
    ├── KeyMissingError          1    a read met nothing
    └── TransientError           1    safe to try again
        └── UnknownOutcomeError  1    sent, no answer: it may or may not have happened

``message`` is lowercase, without a full stop, and names what it is about; ``hint`` is a full
sentence that says what to do next.
"""

from __future__ import annotations


class KafkeepError(Exception):
    """Base of the tree; ``exit_code`` is what the command line exits with."""

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
    """A flag, file or value that cannot be understood."""

    exit_code = 2


class GapError(KafkeepError):
    """Kafka deleted offsets before they were archived, and the user asked to stop then."""

    exit_code = 3


class NoSuchArchiveError(KafkeepError):
    """Nothing is archived at that address."""

    exit_code = 10


class FencedError(KafkeepError):
    """A newer writer has taken the log; this one must stop."""

    exit_code = 11


class AccessDeniedError(KafkeepError):
    """Kafka or the store refused our credentials."""

    exit_code = 12


class DamagedError(KafkeepError):
    """Stored bytes are missing, or not what the log says they are."""

    exit_code = 13


class NewerFormatError(DamagedError):
    """A document was written by a newer kafkeep than this one."""


class PreflightError(KafkeepError):
    """The target or the archive does not allow what was asked; nothing was written."""

    exit_code = 14


class InterruptedRunError(KafkeepError):
    """The user pressed Ctrl-C."""

    exit_code = 130


class EnvironmentFault(KafkeepError):
    """The machine lacks something: Java, a free port, disk space."""


class RecordError(KafkeepError):
    """A record that cannot be converted, transformed, placed or written; others are untouched."""


class KeyExistsError(KafkeepError):
    """A conditional create met an object under its key."""


class KeyMissingError(KafkeepError):
    """A read met no object under its key."""


class TransientError(KafkeepError):
    """It failed for now; the same call may be made again."""


class UnknownOutcomeError(TransientError):
    """Sent, but no answer came: it may or may not have happened."""
