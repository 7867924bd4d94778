"""Cut the wanted part of an archive into slices, pack them into bundles, and decode their records.

Records have the schema of Spark's own Kafka source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange
from kafkeep.objects.segment.format import wanted_frames
from kafkeep.objects.sink.read_windows import StoredFile, entries_by_partition, iter_windows
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions
from kafkeep.spark.datasource.selection import PushedFilters

MIN_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """Neighbouring frames of one object: bytes ``[index[0].position, end)`` of ``key``."""

    key: str
    topic: str
    partition: int
    range: OffsetRange
    index: Sequence[IndexPoint]
    end: int
    aborted: tuple[OffsetRange, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Stored bytes to read."""
        return self.end - self.index[0].position


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One file of a sink: its values, with the keys and headers beside them."""

    file: StoredFile
    range: OffsetRange
    reading: ReadOptions

    @property
    def topic(self) -> str:
        """The topic it is of."""
        return self.file.main.partition_id.topic

    @property
    def partition(self) -> int:
        """The partition it is of."""
        return self.file.main.partition_id.partition

    @property
    def size_bytes(self) -> int:
        """Stored bytes to read."""
        return sum(entry.size_bytes for entry in self.file.entries)


AnySlice = SegmentSlice | FileSlice


def plan_slices(
    entries: Iterable[Entry],
    wanted: PushedFilters,
    bundles: int,
    reading: Mapping[str, ReadOptions] | None = None,
) -> list[tuple[AnySlice, ...]]:
    """Return at most about ``bundles`` bundles of alike size, in the order of the entries.

    Frames and files without wanted records are in none of them. ``reading`` has, for each topic
    that a sink wrote, how.
    """
    stretches = list(_iter_pieces(entries, wanted, reading or {}))
    total = sum(piece.size_bytes for piece in stretches)
    goal = max(MIN_PIECE_BYTES, -(-total // max(1, bundles)))
    packed: list[tuple[AnySlice, ...]] = []
    open_bundle: list[AnySlice] = []
    size = 0
    for piece in (part for stretch in stretches for part in _iter_cut(stretch, goal)):
        if open_bundle and size + piece.size_bytes > goal:
            packed.append(tuple(open_bundle))
            open_bundle, size = [], 0
        open_bundle.append(piece)
        size += piece.size_bytes
    return [*packed, tuple(open_bundle)] if open_bundle else packed


def _iter_pieces(
    entries: Iterable[Entry], wanted: PushedFilters, reading: Mapping[str, ReadOptions]
) -> Iterator[AnySlice]:
    for partition_id, mine in entries_by_partition(entries).items():
        read_options = reading.get(partition_id.topic, NO_OPTIONS)
        for window in iter_windows(mine):
            if window.is_segment:
                yield from _iter_stretches(window.entries[0], wanted)
                continue
            asked = wanted.offsets(window.range)
            if asked is not None and any(wanted.wants(entry) for entry in window.entries):
                for file in window.files():
                    if wanted.wants(file.main):
                        yield FileSlice(file, asked, read_options)


def _iter_stretches(entry: Entry, wanted: PushedFilters) -> Iterator[SegmentSlice]:
    """Yield the runs of neighbouring wanted frames of one object."""
    asked = wanted.offsets(entry.range) if wanted.wants(entry) else None
    if asked is None:
        return
    frames = [
        frame
        for frame in wanted_frames(entry.index, asked)
        if wanted.wants_point(entry.index[frame])
    ]
    run: list[int] = []
    for frame in frames:
        if run and frame != run[-1] + 1:
            yield _piece(entry, run, asked)
            run = []
        run.append(frame)
    if run:
        yield _piece(entry, run, asked)


def _piece(entry: Entry, run: list[int], asked: OffsetRange) -> SegmentSlice:
    following = run[-1] + 1
    end = entry.index[following].position if following < len(entry.index) else entry.size_bytes
    return SegmentSlice(
        key=entry.key,
        topic=entry.partition_id.topic,
        partition=entry.partition_id.partition,
        range=asked,
        index=entry.index[run[0] : following],
        end=end,
        aborted=entry.aborted,
    )


def _iter_cut(piece: AnySlice, goal: int) -> Iterator[AnySlice]:
    """Cut a piece at frames into parts of about ``goal`` bytes; files stay whole.

    A batch lies in one frame, so parts share no record though they share the range.
    """
    if isinstance(piece, FileSlice):
        yield piece
        return
    first = 0
    ends = [point.position for point in piece.index[1:]] + [piece.end]
    for number, end in enumerate(ends):
        if end - piece.index[first].position >= goal or number == len(ends) - 1:
            yield SegmentSlice(
                piece.key,
                piece.topic,
                piece.partition,
                piece.range,
                piece.index[first : number + 1],
                end,
                piece.aborted,
            )
            first = number + 1


SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int, headers array<struct<key: string, value: binary>>"
)
EXACT_TIME = "timestampMs"

_TIME = pa.timestamp("us", tz="UTC")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIME),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(_HEADER)),
    ]
)
# Years 1 to 9999: what Spark prints and Python's datetime holds.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def to_spark(
    records: pa.RecordBatch, topic: str, partition: int, *, exact_time: bool = False
) -> pa.RecordBatch:
    """Return records of ``RECORD_SCHEMA`` as Spark's Kafka source would give them.

    A time outside of the years 1 to 9999 (nanoseconds taken for milliseconds, say) is NULL, and
    with ``exact_time`` each number is in a column of its own. No headers are NULL, as there.
    """
    rows = records.num_rows
    times = records.column("timestamp")
    columns = [
        records.column("key"),
        records.column("value"),
        pa.repeat(pa.scalar(topic), rows),
        pa.repeat(pa.scalar(partition, pa.int32()), rows),
        records.column("offset"),
        _to_timestamps(times),
        records.column("timestamp_type").cast(pa.int32()),
        _to_headers(records.column("headers")),
    ]
    schema = _COLUMNS
    if exact_time:
        schema = _COLUMNS.append(pa.field(EXACT_TIME, pa.int64()))
        columns.append(times)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _to_timestamps(times: pa.Array) -> pa.Array:
    sane = pc.and_(pc.greater_equal(times, _FIRST_MS), pc.less_equal(times, _LAST_MS))
    kept = pc.if_else(sane, times, pa.scalar(None, pa.int64()))
    return pc.multiply(kept, 1000).cast(_TIME)


def _to_headers(headers: pa.ListArray) -> pa.ListArray:
    pairs = headers.values
    keys, values = pairs.field("key"), pairs.field("value")
    named = pa.StructArray.from_arrays([_to_text(keys), values], fields=list(_HEADER))
    none = pc.equal(pc.list_value_length(headers), 0)
    return pa.ListArray.from_arrays(headers.offsets, named, type=pa.list_(_HEADER), mask=none)


def _to_text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: rare, and better shown mended than not at all
        texts = [None if key is None else key.decode(errors="replace") for key in keys.to_pylist()]
        return pa.array(texts, pa.string())
