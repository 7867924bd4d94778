"""An object brought here whole and checked, before anything of it is used. In tasks."""

from __future__ import annotations

import hashlib
import io
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from kafkeep.archive.entry import Entry
from kafkeep.archive.readings import WHOLE_READS, Readings
from kafkeep.contents.ahead import Ranges
from kafkeep.errors import DamagedError, KeyMissingError, RecordError

logger = logging.getLogger(__name__)
PIECE_BYTES = 8 << 20
MEMORY_BYTES = 32 << 20
HINT = "See what is lost with kafkeep verify; restore --allow-missing goes on without it."


@contextmanager
def open_object(
    store: Ranges, entry: Entry, *, memory_bytes: int = MEMORY_BYTES
) -> Iterator[BinaryIO]:
    """Give the object's bytes as a file that can be read from any place.

    Up to ``memory_bytes`` stay in memory, larger ones lie on disk meanwhile. It is read again
    unless size and SHA-256 are those of the log: formats like JSON have no checksum of their own.
    Then it is a DamagedError, or a TransientError where each reading differs.
    """
    with _spool(entry.size_bytes, memory_bytes) as spool:
        readings = Readings(entry.key, WHOLE_READS)
        while (found := _fill(spool, store, entry)) is not None:
            problem, reading = found
            if readings.lies_so(reading):
                raise DamagedError(f"{entry.key}: {problem}; {lost_with(entry)}", hint=HINT)
            logger.warning("%s came damaged: %s", entry.key, problem)
        spool.seek(0)
        yield spool


def _fill(spool: BinaryIO, store: Ranges, entry: Entry) -> tuple[str, bytes] | None:
    """Write the object's bytes into ``spool``; None when they are the log's.

    Else what is wrong with them, and what tells this reading from another.
    """
    spool.seek(0)
    digest = hashlib.sha256()
    for start in range(0, entry.size_bytes, PIECE_BYTES):
        end = min(start + PIECE_BYTES, entry.size_bytes)
        data = _get(store, entry, start, end)
        digest.update(data)
        if len(data) != end - start:
            return f"asked for bytes {start}..{end}, {len(data)} came", digest.digest()
        spool.write(data)
    same = digest.hexdigest() == entry.sha256
    return None if same else ("its SHA-256 is not that of the log", digest.digest())


def lost_with(entry: Entry) -> str:
    """Say what nobody can read when the object of ``entry`` cannot be read."""
    return (
        f"it held {entry.records} records of {entry.partition_id}, "
        f"offsets {entry.range.start} to {entry.range.end - 1}"
    )


@contextmanager
def naming(entry: Entry) -> Iterator[None]:
    """Put the object's name in front of what is wrong with its content."""
    try:
        yield
    except DamagedError as error:
        if error.message.startswith(entry.key):
            raise
        raise DamagedError(f"{entry.key}: {error.message}", hint=error.hint or HINT) from error
    except RecordError as error:
        raise DamagedError(f"{entry.key}: {error.message}", hint=error.hint) from error


def _spool(size_bytes: int, memory_bytes: int) -> BinaryIO:
    if size_bytes <= memory_bytes:
        return io.BytesIO()
    return cast(BinaryIO, tempfile.TemporaryFile(prefix="kafkeep-object-"))


def _get(store: Ranges, entry: Entry, start: int, end: int) -> bytes:
    try:
        return store.get_range(entry.key, start, end)
    except KeyMissingError as error:
        raise DamagedError(f"{entry.key} is missing: {lost_with(entry)}", hint=HINT) from error
