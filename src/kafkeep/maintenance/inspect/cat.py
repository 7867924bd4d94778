"""Print records of an archive in order, reading no more than requested.

Start positions and output formats (JSON and format strings) are those of kcat.
"""

from __future__ import annotations

import logging
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson
import pyarrow as pa

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.expiry import Expiry
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.clock import now_ms
from kafkeep.errors import DamagedError, KeyMissingError, NoSuchArchiveError, UsageError
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.kernels import plain_kernels
from kafkeep.objects.choose_log import check_partitions, check_topics, choose_incarnation
from kafkeep.objects.segment.reader import iter_segment, plan_frames
from kafkeep.objects.sink.read_windows import UNKNOWN, Window, entries_by_partition, iter_windows
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.options.selection import check_times

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class StartOffset:
    """An offset, absolute or counted back from the archived end."""

    kind: Literal["offset", "from-end"]
    value: int

    def resolve(self, end: int) -> int:
        """Return the first offset to print of a partition that is archived up to ``end``."""
        return self.value if self.kind == "offset" else max(0, end - self.value)


BEGINNING = StartOffset("offset", 0)


def parse_start(text: str) -> StartOffset:
    """Parse ``beginning``, ``end``, an offset, or ``-N`` for the last N offsets."""
    bare = text.strip()
    if bare == "beginning":
        return BEGINNING
    if bare == "end":
        return StartOffset("from-end", 0)
    if not _NUMBER.fullmatch(bare):
        raise UsageError(
            f"{text!r} is not an offset",
            hint="Write a number, beginning, end, or -N for the last N.",
        )
    return (
        StartOffset("from-end", int(bare[1:]))
        if bare[0] == "-"
        else StartOffset("offset", int(bare))
    )


NULL = b"NULL"
_TIME_TYPES = ("create", "logappend")
_PIECE = re.compile(rb"%(.)|\\(x[0-9A-Fa-f]{2}|.)|[^%\\]+|[%\\]", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b"0": b"\0"}


class RecordLine(NamedTuple):
    """One record to print."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Mapping[str, bytes | None]]


ToLine = Callable[[RecordLine], bytes]


def json_line(line: RecordLine) -> bytes:
    """Return a record as one JSON line; see ``record_document``."""
    return orjson.dumps(record_document(line), option=orjson.OPT_APPEND_NEWLINE)


def record_document(line: RecordLine) -> dict[str, Any]:
    """Return a record with the names ``kcat -J`` uses.

    Data that is not UTF-8 is in ``key_b64``, ``payload_b64`` or ``headers_b64`` instead.
    """
    document: dict[str, Any] = {
        "topic": line.topic,
        "partition": line.partition,
        "offset": line.offset,
        "tstype": _TIME_TYPES[line.timestamp_type],
        "ts": line.timestamp,
    }
    if line.headers:
        flat = [part for header in line.headers for part in (header["key"], header["value"])]
        document |= _text_list("headers", flat)
    document |= _text("key", line.key)
    document |= _text("payload", line.value)
    return document


def _text(name: str, data: bytes | None) -> dict[str, Any]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_b64": b64encode(data or b"").decode()}


def _text_list(name: str, parts: Sequence[bytes | None]) -> dict[str, Any]:
    try:
        return {name: [None if part is None else part.decode() for part in parts]}
    except UnicodeDecodeError:
        return {
            f"{name}_b64": [None if part is None else b64encode(part).decode() for part in parts]
        }


def parse_format(text: str) -> ToLine:
    """Parse kcat's format string; UsageError names an unknown token.

    Null keys and values are ``NULL`` and have the length -1, as ``kcat -Z`` prints them. Data
    that is not UTF-8 is printed unchanged.
    """
    pieces = [_piece(match) for match in _PIECE.finditer(os.fsencode(text))]
    # Parts that do not depend on the record are joined once.
    return lambda line: b"".join(p if isinstance(p, bytes) else p(line) for p in pieces)


def _piece(match: re.Match[bytes]) -> bytes | ToLine:
    token, escape = match[1], match[2]
    if token is not None:
        if token == b"%":
            return b"%"
        if token not in _TOKENS:
            raise UsageError(
                f"{match[0].decode(errors='replace')!r} is not a token of --format",
                hint="The tokens are %s %S %k %K %t %p %o %T %h and %%.",
            )
        return _TOKENS[token]
    if escape is not None:
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        if len(escape) == 3:
            return bytes([int(escape[1:], 16)])
        raise UsageError(
            f"{match[0].decode(errors='replace')!r} is not an escape of --format",
            hint=r"The escapes are \n \t \r \0 \\ and \xNN.",
        )
    if match[0] in (b"%", b"\\"):
        raise UsageError(f"--format ends in a lone {match[0].decode()}", hint="Write it twice.")
    return match[0]


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _shown(data: bytes | None) -> bytes:
    return NULL if data is None else data


def _headers(line: RecordLine) -> bytes:
    return b",".join(_shown(h["key"]) + b"=" + _shown(h["value"]) for h in line.headers)


_TOKENS: dict[bytes, ToLine] = {
    b"s": lambda line: _shown(line.value),
    b"S": lambda line: _size(line.value),
    b"k": lambda line: _shown(line.key),
    b"K": lambda line: _size(line.key),
    b"t": lambda line: line.topic.encode(),
    b"p": lambda line: b"%d" % line.partition,
    b"o": lambda line: b"%d" % line.offset,
    b"T": lambda line: b"%d" % line.timestamp,
    b"h": _headers,
}


PIECE_BYTES = 1 << 20
Planned = tuple[Window, OffsetRange]
"""Objects to read, and the offsets to print of each."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatOptions:
    """The records to print; empty means all. Times are ``from_ms <= record time < until_ms``."""

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    start: StartOffset = BEGINNING
    from_ms: int | None = None
    until_ms: int | None = None
    count: int | None = None
    aborted: bool = False
    incarnation: int | None = None
    select: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    """Keeps some of the decoded records, in order."""

    def __post_init__(self) -> None:
        check_times(self.from_ms, self.until_ms)

    def wants_time(self, time_ms: int) -> bool:
        """Return whether the options select a record of that time."""
        return (self.from_ms is None or time_ms >= self.from_ms) and (
            self.until_ms is None or time_ms < self.until_ms
        )

    def may_want(self, entry: Entry) -> bool:
        """Return whether an object may hold selected records, by its entry."""
        return (
            (not self.partitions or entry.partition_id.partition in self.partitions)
            and (self.from_ms is None or entry.max_timestamp >= self.from_ms)
            and (self.until_ms is None or entry.min_timestamp < self.until_ms)
        )


def iter_lines(
    store: ObjectStore, name: str, options: CatOptions, to_line: ToLine
) -> Iterator[bytes]:
    """Yield the selected records as text, several at a time, by topic, partition and offset.

    Of a re-created topic, the newest incarnation is printed by default. Records whose time is not
    archived are printed if the time range of their object is selected. DamagedError names a
    damaged object.
    """
    view = load_view(store, name)
    planned = plan_windows(view, options)
    of_sink = any(not window.is_segment for window, _ in planned)
    read_options = load_read_options(store, view).read_only() if of_sink else NO_OPTIONS
    expiry = Expiry(store, view, now_ms())
    groups = iter_line_groups(store, planned, read_options, options, to_line, expiry=expiry)
    with plain_kernels() if _are_few(planned, options.count) else nullcontext():
        yield from limited(groups, options.count)


_FEW_RECORDS = 5_000
"""Python decodes this many records while numba would still be loading."""


def _are_few(planned: Iterable[Planned], count: int | None) -> bool:
    """Return whether few records have to be decoded to print ``count``, or all if that is None."""
    decoded = printed = 0
    for window, offsets in planned:
        entry = window.entries[0]
        frames = plan_frames(entry) if window.is_segment else None
        if frames is None:
            return False
        ends = [frame.point.records for frame in frames[1:]]
        ends.append(entry.whole_records or entry.records)
        for frame, end in zip(frames, ends, strict=True):
            if frame.offsets.end <= offsets.start:
                continue
            if decoded > _FEW_RECORDS or (count is not None and printed >= count):
                return decoded <= _FEW_RECORDS
            decoded += end - frame.point.records
            printed += end - frame.point.records if frame.offsets.start >= offsets.start else 0
    return decoded <= _FEW_RECORDS


def limited(groups: Iterable[list[bytes]], count: int | None) -> Iterator[bytes]:
    """Yield the lines of each group joined, at most ``count`` lines in total."""
    left = count
    for lines in groups:
        wanted = lines if left is None else lines[:left]
        if wanted:
            yield b"".join(wanted)
        if left is not None:
            left -= len(wanted)
            if left <= 0:
                return


def plan_windows(view: ArchiveView, options: CatOptions) -> list[Planned]:
    """Return the windows that may hold selected records, with the selected offsets."""
    check_topics([view], options.topics or None)
    check_partitions([view], options.topics, options.partitions)
    planned = []
    for topic in sorted(set(options.topics) or {topic for topic, _ in view.topics}):
        info = choose_incarnation(
            view.topics, topic, options.incarnation, refusal=NoSuchArchiveError
        )
        entries = view.entries(topic, info.incarnation)
        for partition_id, mine in entries_by_partition(entries).items():
            first = options.start.resolve(view.positions.get(partition_id, 0))
            for window in iter_windows(mine):
                wanted = any(options.may_want(entry) for entry in window.entries)
                if wanted and first < window.range.end:
                    start = max(first, window.range.start)
                    planned.append((window, OffsetRange(start, window.range.end)))
    return planned


def iter_line_groups(
    store: ObjectStore,
    planned: Iterable[Planned],
    read_options: ReadOptions,
    options: CatOptions,
    to_line: ToLine,
    *,
    expiry: Expiry | None = None,
) -> Iterator[list[bytes]]:
    """Yield the selected records of windows as lines."""
    for window, offsets in planned:
        topic, _, partition = window.entries[0].partition_id
        vague = not window.is_segment
        for decoded in _unless_expired(
            expiry, window, iter_window_records(store, window, offsets, options, read_options)
        ):
            selected = decoded if options.select is None else options.select(decoded)
            columns = [column.to_pylist() for column in selected.columns]
            yield [
                to_line(RecordLine(topic, partition, *row))
                for row in zip(*columns, strict=True)
                if options.wants_time(row[1]) or (vague and row[1] == UNKNOWN)
            ]


def _unless_expired(
    expiry: Expiry | None, window: Window, records: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the records; a window that may have expired yields none and logs a warning."""
    try:
        yield from records
    except DamagedError as error:
        if expiry is None or not isinstance(error.__cause__, KeyMissingError):
            raise
        reasons = [r for entry in window.entries if (r := expiry.reason(entry)) is not None]
        if not reasons:
            raise
        logger.warning("%s; %s", error.message, reasons[0])


def iter_window_records(
    store: ObjectStore,
    window: Window,
    offsets: OffsetRange,
    options: CatOptions,
    read_options: ReadOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield the records that may be selected, checked, without aborted ones."""
    if not window.is_segment:
        # Formats and converters take a while to import; segments need none of them.
        from kafkeep.objects.records import inside, iter_window  # noqa: PLC0415

        files = [file for file in window.files() if options.may_want(file.main)]
        for records in iter_window(store, window, options=read_options, files=files):
            yield from iter_slices(inside(records, offsets), PIECE_BYTES)
        return
    for batches in iter_segment(
        store,
        window.entries[0],
        offsets,
        aborted=options.aborted,
        from_ms=options.from_ms,
        until_ms=options.until_ms,
    ):
        yield from iter_decode(batches, offsets, max_bytes=PIECE_BYTES)


def iter_slices(records: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split records into slices of about ``max_bytes``."""
    rows = max(1, records.num_rows * max_bytes // max(1, records.nbytes))
    for start in range(0, records.num_rows, rows):
        yield records.slice(start, rows)
