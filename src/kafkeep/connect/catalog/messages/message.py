"""What a reader of messages asks for and gets. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.entry import LAST_OFFSET, OffsetRange
from kafkeep.connect.model import RestError
from kafkeep.maintenance.inspect.cat import RecordLine
from kafkeep.numba_setup import Int64s

_CURSOR = re.compile(r"(\d{1,9}:\d{1,19})(,\d{1,9}:\d{1,19})*", re.ASCII)


class SearchIn(StrEnum):
    """Where a search looks."""

    ANY = ""
    KEY = "key"
    VALUE = "value"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class Search:
    """Bytes to find in records; empty finds every record."""

    text: bytes = b""
    within: SearchIn = SearchIn.ANY

    def rows(self, records: pa.RecordBatch) -> list[int]:
        """Return the rows that have the text."""
        if not self.text:
            return list(range(records.num_rows))
        found: set[int] = set()
        for name in ("key", "value"):
            if self.within in (SearchIn.ANY, name):
                found.update(_rows_with(records.column(name), self.text))
        if self.within in (SearchIn.ANY, SearchIn.HEADER):
            headers = records.column("headers")
            parents = pc.list_parent_indices(headers)
            flat = headers.flatten()
            for part in flat.flatten():
                rows = parents.take(pa.array(_rows_with(part, self.text), type=pa.int64()))
                found.update(rows.to_pylist())
        return sorted(found)


def _rows_with(column: pa.Array, text: bytes) -> list[int]:
    mask = pc.fill_null(pc.match_substring(column, pattern=text), False)
    rows: list[int] = pc.indices_nonzero(mask).to_pylist()
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record. A long key, value or header may be cut; the sizes are those of the whole."""

    line: RecordLine
    position: int
    """Its offset, or where it is between the offsets of its object if that is not archived."""
    key_bytes: int = 0
    value_bytes: int = 0
    header_count: int = 0

    @property
    def knows_offset(self) -> bool:
        """Whether the archive holds its offset."""
        return self.line.offset >= 0


@dataclass(frozen=True, slots=True)
class MessageChunk:
    """Some records of one partition; all records up to ``end`` have been read."""

    partition: int
    end: int
    records: pa.RecordBatch | None = None
    positions: Int64s | None = None
    """Of each record, ascending."""


class MessageSource(Protocol):
    """Reads records of one topic; errors are KafkeepErrors."""

    @property
    def topic(self) -> str:
        """The name of the topic."""

    @property
    def ranges(self) -> Mapping[int, OffsetRange]:
        """The positions that can be read, by partition."""

    def read(self, wanted: Mapping[int, OffsetRange]) -> Iterator[MessageChunk]:
        """Yield at least one chunk of a wanted partition, and not much more than one of each."""

    def at_time(self, time_ms: int) -> Mapping[int, int]:
        """Return the position of the first record at or after a time in each partition."""


Cursor = Mapping[int, int]
"""A position in each partition."""


def format_cursor(cursor: Cursor) -> str:
    """Return a cursor as part of an address."""
    return ",".join(f"{partition}:{position}" for partition, position in sorted(cursor.items()))


def parse_cursor(text: str) -> dict[int, int]:
    """Parse a cursor; 400 when it is none."""
    if not _CURSOR.fullmatch(text):
        raise RestError(400, "The position of the page cannot be read")
    pairs = (one.split(":") for one in text.split(","))
    return {int(partition): min(int(position), LAST_OFFSET) for partition, position in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """Some records, and where to continue."""

    messages: tuple[Message, ...]
    first: Cursor
    """The page begins here; reading backwards from here gives the older records."""
    after: Cursor
    """Reading forwards from here gives the newer records."""
    searched: int = 0
    """How many records were compared with the search."""
    at_start: bool = False
    at_end: bool = False
    is_complete: bool = True
    """False when the limits of the work ended the search, so that there may be more to find."""


@dataclass(slots=True)
class Allowance:
    """How much work a page may cause."""

    records: int
    bytes: int
    deadline: float
    searched: int = field(default=0)

    def take(self, records: int, size: int) -> None:
        """Count what was read."""
        self.searched += records
        self.records -= records
        self.bytes -= size

    def is_spent(self, now: float) -> bool:
        """Return whether no more may be read."""
        return self.records <= 0 or self.bytes <= 0 or now >= self.deadline
