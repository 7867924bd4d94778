"""The rows of a sink's object, read one and all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry
from kafkeep.care.finding import Finding, Kind, Severity, damage
from kafkeep.contents.options import NO_OPTIONS, ReadOptions
from kafkeep.contents.windows import ENVELOPE, Offsets
from kafkeep.data.arrow_parts import view_numbers
from kafkeep.errors import DamagedError, PreflightError


def iter_count_findings(source: BinaryIO, log: str, entry: Entry) -> Iterator[Finding]:
    """Yield damage when an object has another number of rows than the log says.

    Rows are counted, not decoded: a count that was forged is found without ``--deep``.
    """
    from kafkeep.formats.count import most_rows  # noqa: PLC0415 - as below

    try:
        found, is_exact = most_rows(source, NO_OPTIONS.format(entry))
    except DamagedError as error:
        text = f"unchanged since it was written, but not sound: {error.message}"
        yield damage(Kind.UNDECODABLE, log, entry, text, entry.range)
        return
    if found < entry.records or (is_exact and found != entry.records):
        most = "" if is_exact else "at most "
        text = f"{most}{found} rows, the log says {entry.records}"
        yield damage(Kind.MISCOUNTED, log, entry, text, entry.range)


def iter_row_findings(
    source: BinaryIO, log: str, entry: Entry, options: ReadOptions
) -> Iterator[Finding]:
    """Yield what is wrong with the rows of an object whose bytes are those that were written.

    Rows are counted; JSON must be JSON, and whole records have the offsets and times of the log.
    """
    # Formats and converters take a while to import; segments need none of them.
    from kafkeep.contents.rows import from_whole, iter_source  # noqa: PLC0415

    facts = _Facts(entry)
    try:
        for column in iter_source(source, entry, options):
            if entry.converter == ENVELOPE:
                facts.take(from_whole(column))
    except DamagedError as error:
        text = f"unchanged since it was written, but not sound: {error.message}"
        yield damage(Kind.UNDECODABLE, log, entry, text, entry.range)
        return
    except PreflightError as error:
        found = damage(Kind.UNDECODABLE, log, entry, error.message.removeprefix(f"{entry.key}: "))
        yield replace(found, severity=Severity.WARNING)
        return
    if (problem := facts.problem) is not None:
        yield damage(Kind.MISCOUNTED, log, entry, problem, entry.range)


class _Facts:
    """Offsets and times of whole records, held against the log."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._offsets = Offsets(entry)
        self._rows = 0
        self._low: int | None = None
        self._high: int | None = None
        self._wrong: str | None = None

    def take(self, records: pa.RecordBatch) -> None:
        offsets = view_numbers(records.column("offset"), np.int64)
        times = view_numbers(records.column("timestamp"), np.int64)
        expected = self._offsets.rows(self._rows, self._rows + len(offsets))
        if self._wrong is None and self._offsets.known and np.any(offsets != expected):
            row = int(np.flatnonzero(offsets != expected)[0])
            self._wrong = f"offset {offsets[row]} where the log has {expected[row]}"
        self._rows += len(offsets)
        low, high = int(times.min()), int(times.max())
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    @property
    def problem(self) -> str | None:
        """What does not agree, or None."""
        logged = (self._entry.min_timestamp, self._entry.max_timestamp)
        if self._wrong is None and self._low is not None and (self._low, self._high) != logged:
            return f"record times are {self._low} to {self._high}, the log says otherwise"
        return self._wrong
