"""The pipeline of a sink: convert, transform, drop nulls, assign directories. Runs in tasks.

A record that fails becomes a ``BadRecord``. The caller decides whether to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.archive.entry import PartitionId
from kafkeep.errors import RecordError
from kafkeep.objects.sink.naming import NameCheck
from kafkeep.options.sink.converters import ConverterClass
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.records.arrow import view_numbers, view_valid
from kafkeep.records.converters.converter import ConvertedRange, Converter, Result, iter_aligned
from kafkeep.records.converters.open import open_converter
from kafkeep.records.converters.sinetstream import fill_times
from kafkeep.records.partitioners.partitioners import RowDirectories, open_partitioner
from kafkeep.records.rows import Rows, weigh_records
from kafkeep.records.schema import OPTIONAL_BYTES, Column
from kafkeep.records.transforms.chain import open_chain

T = TypeVar("T")


class Stage(StrEnum):
    """The stage at which a record failed, with the names that Connect uses."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be stored."""

    offset: int
    stage: Stage
    error: RecordError

    def error_in(self, pid: PartitionId) -> RecordError:
        """Return the error, with the partition and the offset in its message."""
        named = f"{pid} offset {self.offset}: "
        return RecordError(named + self.error.message.removeprefix(named), hint=self.error.hint)


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows to write, with the directory and the Kafka size of each."""

    rows: Rows
    placed: RowDirectories
    sizes: NDArray[np.int64]


class Pipeline:
    """Turns decoded batches into placed rows. Keeps no state between calls."""

    def __init__(self, sink: SinkOptions, names: NameCheck) -> None:
        # An envelope can hold a null value, so behavior.on.null.values does not apply.
        self._nulls = "write" if sink.has_envelope else sink.nulls.behavior_on_null_values
        self._reports_nulls = (
            sink.nulls.report_null_values_to_dlq
            and sink.errors.errors_tolerance == "all"
            and bool(sink.errors.dead_letter_topic)
        )
        self._chain = open_chain(sink.transforms)
        self._partitioner = open_partitioner(sink.partition)
        self._tombstones = sink.nulls.tombstone_encoded_partition
        self._names = names
        self._value = open_converter("value", sink.value)
        self._fills_times = sink.value.kind is ConverterClass.SINETSTREAM
        needs_key = sink.naming.store_kafka_keys or not self._chain.is_empty
        needs_key = (needs_key or sink.places_by_key) and not sink.has_envelope
        self._key = open_converter("key", sink.key) if needs_key else None

    def run(
        self,
        batch: pa.RecordBatch,
        source: PartitionId,
        *,
        at_ms: int,
        on_bad: Callable[[BadRecord], None],
    ) -> Iterator[PlacedRows]:
        """Yield a decoded batch (``kafka.batch.decode.RECORD_SCHEMA``) as placed rows, in order.

        ``source`` is the ``folder_id`` of the planned range.
        """
        offsets = view_numbers(batch.column("offset"), np.int64)
        sizes = weigh_records(*(batch.column(name) for name in ("key", "value", "headers")))
        for rows in self._converted(batch, source, offsets, on_bad):
            for changed in self._transformed(rows, on_bad):
                for kept in self._without_nulls(changed, on_bad):
                    for whole, placed in self._placed(kept, source, at_ms, on_bad):
                        weights = sizes
                        if len(whole) < len(offsets):
                            weights = sizes[np.searchsorted(offsets, whole.offsets)]
                        yield PlacedRows(whole, placed, weights)

    def _converted(
        self,
        batch: pa.RecordBatch,
        source: PartitionId,
        offsets: NDArray[np.int64],
        on_bad: Callable[[BadRecord], None],
    ) -> Iterator[Rows]:
        times = view_numbers(batch.column("timestamp"), np.int64)
        values = list(self._value.convert(batch.column("value")))
        keys = _convert_keys(self._key, batch.column("key"))
        for start, stop, key, value in iter_aligned(keys, values, len(offsets)):
            bad = _bad(key, Stage.KEY_CONVERTER) or _bad(value, Stage.VALUE_CONVERTER)
            if bad is not None:
                for row in range(start, stop):
                    on_bad(BadRecord(int(offsets[row]), *bad))
                continue
            assert isinstance(key, Column) and isinstance(value, Column)
            rows = Rows(
                topic=source.topic,
                partition=source.partition,
                offsets=offsets[start:stop],
                timestamps=times[start:stop],
                key=key,
                value=value,
                headers=batch.column("headers").slice(start, stop - start),
            )
            yield fill_times(rows) if self._fills_times else rows

    def _transformed(self, rows: Rows, on_bad: Callable[[BadRecord], None]) -> Iterator[Rows]:
        if self._chain.is_empty:
            yield rows
            return
        for _, piece in _careful(rows, self._chain.apply, Stage.TRANSFORMATION, on_bad):
            yield piece

    def _without_nulls(self, rows: Rows, on_bad: Callable[[BadRecord], None]) -> Iterator[Rows]:
        """Drop records with a null value, unless the options say to write them."""
        if self._nulls == "write" or rows.value.array.null_count == 0:
            yield rows
            return
        absent = view_valid(rows.value.array) == 0
        reported = self._nulls == "fail" or self._reports_nulls
        for offset in rows.offsets[absent].tolist() if reported else ():
            on_bad(BadRecord(offset, Stage.TASK_PUT, _null_error(rows.topic)))
        kept = np.flatnonzero(~absent)
        if len(kept):
            yield rows.take(kept)

    def _placed(
        self, rows: Rows, source: PartitionId, at_ms: int, on_bad: Callable[[BadRecord], None]
    ) -> Iterator[tuple[Rows, RowDirectories]]:
        def place(part: Rows) -> Iterator[RowDirectories]:
            placed = self._partitioner.place(part, at_ms=at_ms)
            yield _apart(part, placed, self._tombstones) if self._tombstones else placed

        for whole, placed in _careful(rows, place, Stage.TASK_PUT, on_bad):
            yield from self._named(whole, placed, source, on_bad)

    def _named(
        self,
        rows: Rows,
        placed: RowDirectories,
        source: PartitionId,
        on_bad: Callable[[BadRecord], None],
    ) -> Iterator[tuple[Rows, RowDirectories]]:
        """Report and drop records whose directory makes an invalid object name."""
        reasons = self._names.refusals(source, rows.topic, placed.paths)
        if not any(reasons):
            yield rows, placed
            return
        is_bad = np.array([reason is not None for reason in reasons])[placed.codes]
        for row in np.flatnonzero(is_bad).tolist():
            reason = reasons[placed.codes[row]]
            assert reason is not None
            on_bad(BadRecord(int(rows.offsets[row]), Stage.TASK_PUT, reason))
        kept = np.flatnonzero(~is_bad)
        if len(kept):
            yield rows.take(kept), placed.take(kept)


def _apart(rows: Rows, placed: RowDirectories, folder: str) -> RowDirectories:
    """Move tombstones to the directory ``folder``."""
    if rows.value.array.null_count == 0:
        return placed
    absent, code = view_valid(rows.value.array) == 0, len(placed.paths)
    codes = np.where(absent, np.int32(code), placed.codes).astype(np.int32)
    return replace(placed, codes=codes, paths=(*placed.paths, folder), tombstones=code)


def _null_error(topic: str) -> RecordError:
    return RecordError(
        f"a record of {topic} has no value",
        hint="Set behavior.on.null.values to ignore or write.",
    )


def _careful(
    rows: Rows,
    step: Callable[[Rows], Iterator[T]],
    stage: Stage,
    on_bad: Callable[[BadRecord], None],
) -> Iterator[tuple[Rows, T]]:
    """Run ``step`` on rows, and report the bad records that bisection finds."""
    if len(rows) == 0:
        return
    try:
        results = list(step(rows))
    except RecordError as error:
        if len(rows) == 1:
            on_bad(BadRecord(int(rows.offsets[0]), stage, error))
            return
        middle = len(rows) // 2
        yield from _careful(rows.slice(0, middle), step, stage, on_bad)
        yield from _careful(rows.slice(middle, len(rows)), step, stage, on_bad)
        return
    for result in results:
        yield rows, result


def _convert_keys(converter: Converter | None, keys: pa.BinaryArray) -> list[ConvertedRange]:
    """Convert keys. Without a converter keys stay bytes, so a bad key causes no error."""
    if converter is None:
        return [ConvertedRange(0, len(keys), Column(OPTIONAL_BYTES, keys))]
    return list(converter.convert(keys))


def _bad(result: Result, stage: Stage) -> tuple[Stage, RecordError] | None:
    return (stage, result) if isinstance(result, RecordError) else None
