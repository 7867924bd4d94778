"""Claim the resident session: one command at a time runs in it, and only one that it fits.

A command that cannot claim it starts a session of its own, as if there were none. The claim is a
lock on a file, and a mark in it. The lock ends with its process, however that ends. A mark that is
left means that the process died: nobody gets the claim until the session has cancelled its tasks.

This module does not import pyspark: a command claims before it decides whether to start a JVM.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from dataclasses import dataclass
from typing import BinaryIO

from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.jvm import can_start_lean
from kafkeep.spark.resident.record import (
    Runtime,
    SessionRecord,
    read_record,
    resident_folder,
)

_log = logging.getLogger(__name__)
_LOCK = "claim.lock"
_MARK = b"claimed\n"
_LOOK_AGAIN_S = 0.02
_LOOKS = 4
"""The session itself takes the lock for a moment, twice a second."""


@dataclass(frozen=True, slots=True)
class SessionClaim:
    """The right to run tasks in a resident session, until it is released."""

    record: SessionRecord
    lock: BinaryIO

    def release(self) -> None:
        """Let others have the session; safe to call twice."""
        if not self.lock.closed:
            clear_mark(self.lock)
            self.lock.close()

    def is_alive(self) -> bool:
        """Tell whether the session still runs."""
        return self.record.is_alive()


def claim_session(options: SparkOptions) -> SessionClaim | None:
    """Claim the resident session for these options; None if there is none, or it does not fit.

    Takes some milliseconds, and never raises: the reason is in the debug log.
    """
    if not options.resident or not can_start_lean(options):
        return None
    try:
        return _claim(options)
    except (EnvironmentFault, OSError) as error:
        _log.debug("the resident Spark session is not used: %s", error)
        return None


def _claim(options: SparkOptions) -> SessionClaim | None:
    if read_record() is None:
        return None
    lock = take_lock(looks=_LOOKS)
    if lock is None:
        raise EnvironmentFault("another command uses it")
    try:
        record = read_record()  # under the lock: an idle session removes it before it ends
        if record is None:
            raise EnvironmentFault("it has just ended")
        if (problem := why_not(record, options)) is not None:
            raise EnvironmentFault(problem)
        if has_mark(lock):
            raise EnvironmentFault("it still cancels the tasks of a command that died")
        lock.write(_MARK)
    except BaseException:
        lock.close()
        raise
    _log.debug("the resident Spark session is used: process %d", record.pid)
    return SessionClaim(record, lock)


def why_not(record: SessionRecord, options: SparkOptions) -> str | None:
    """Return why a session cannot run a command with these options; None if it can."""
    if not can_start_lean(options):
        return "Spark runs elsewhere, or is started by spark-submit"
    if (difference := Runtime.current().difference(record.runtime)) is not None:
        return difference
    for key, value in options.conf.items():
        if record.settings.get(key) != record.digest_of(value):
            return f"{key} differs from what it was started with"
    if options.master != record.master:
        return f"its master is {record.master}"
    if not record.is_alive():
        return "its process has ended"
    return None


def take_lock(*, looks: int = 1) -> BinaryIO | None:
    """Take the lock of the resident session; None while somebody has it. Closing it releases it."""
    import fcntl  # noqa: PLC0415 - Windows has none, and no resident session

    lock = open_lock()
    for look in range(looks):
        if look:
            time.sleep(_LOOK_AGAIN_S)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return lock
    lock.close()
    return None


def has_mark(lock: BinaryIO) -> bool:
    """Tell whether whoever had the lock last did not release it."""
    return os.fstat(lock.fileno()).st_size > 0


def clear_mark(lock: BinaryIO) -> None:
    """Say that nothing is left of whoever had the lock."""
    lock.truncate(0)


def open_lock() -> BinaryIO:
    """Open the lock's file; the time of its last change says when a command claimed the session."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    return os.fdopen(os.open(resident_folder() / _LOCK, flags, 0o600), "r+b", buffering=0)


_claimed: list[tuple[SparkOptions, SessionClaim]] = []


def claim_early(options: SparkOptions) -> bool:
    """Claim the session for a run with these options; ``take_claim`` returns it."""
    drop_claims()
    claim = claim_session(options)
    if claim is not None:
        _claimed.append((options, claim))
        atexit.register(drop_claims)
    return claim is not None


def is_claimed() -> bool:
    """Tell whether an early claim waits for ``take_claim``."""
    return bool(_claimed)


def take_claim(options: SparkOptions) -> SessionClaim | None:
    """Return the early claim for these options, once, or else try to claim the session now."""
    while _claimed:
        expected, claim = _claimed.pop()
        if expected == options:
            return claim
        claim.release()
    return claim_session(options)


def drop_claims() -> None:
    """Release a claim that nobody took."""
    while _claimed:
        _claimed.pop()[1].release()
