"""The partitioner protocol, and partitioners by Kafka partition, field, time and schema; pure.

Examples of directories are ``partition=0``, ``country=de/tenant=acme`` and
``year=2024/month=12/day=03/hour=10``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kafkeep.numba_setup import Int64s
from kafkeep.options.sink.partitioners import PartitionOptions, field_label
from kafkeep.records.arrow import find_distinct
from kafkeep.records.calendar import Zone
from kafkeep.records.partitioners.field_values import (
    MAX_BYTES,
    CodedTexts,
    RowProblem,
    name_part,
    read_column,
    read_header,
)
from kafkeep.records.partitioners.joda import PathFormat
from kafkeep.records.partitioners.record_time import Extractor
from kafkeep.records.rows import Rows


@dataclass(frozen=True, slots=True)
class RowDirectories:
    """The directories of records: the directory of record ``i`` is ``paths[codes[i]]``.

    A directory is the part of the key between the topic and the file name, such as ``partition=0``
    or ``year=2024/month=12``. It is separated with ``/``, which the writer replaces with
    ``directory.delim``.
    """

    codes: NDArray[np.int32]
    paths: tuple[str, ...]
    times: NDArray[np.int64] | None
    """The time in milliseconds that each record is partitioned by, or None if time is not used."""
    tombstones: int | None = None
    """The index in ``paths`` of the directory for tombstones, or None if there is none."""

    def take(self, rows: NDArray[np.int64]) -> RowDirectories:
        """Return the directories of the records at ``rows``."""
        times = None if self.times is None else self.times[rows]
        return replace(self, codes=self.codes[rows], times=times)


class Partitioner(Protocol):
    """Assigns directories to records. The same rows and clock reading give the same directories."""

    def place(self, rows: Rows, *, at_ms: int) -> RowDirectories:
        """Assign a directory to each record; ``at_ms`` is the clock reading for Wallclock.

        Raise RecordError if a record has no directory. The caller then retries with smaller
        batches.
        """


@dataclass(frozen=True, slots=True)
class DefaultPartitioner:
    """Assigns ``partition=0`` and so on, by Kafka partition."""

    extractor: Extractor
    """Reads the times that file rotation uses. A record without a time does not fail."""

    def place(self, rows: Rows, *, at_ms: int) -> RowDirectories:
        times = self.extractor.read_or_kafka(rows, at_ms=at_ms)
        return RowDirectories(
            np.zeros(len(rows), np.int32), (f"partition={rows.partition}",), times
        )


@dataclass(frozen=True, slots=True)
class SchemaNamePartitioner:
    """Adds ``schema_name=<name>`` before or after the directories of another partitioner."""

    inner: Partitioner
    is_prefix: bool
    raw: bool

    def place(self, rows: Rows, *, at_ms: int) -> RowDirectories:
        """Assign the directories of ``inner``; the schema name is ``null`` if there is none."""
        placed = self.inner.place(rows, at_ms=at_ms)
        name = rows.value.schema.name if rows.value.schema is not None else None
        part = name_part("schema_name", name, raw=self.raw)
        paths = (f"{part}/{p}" if self.is_prefix else f"{p}/{part}" for p in placed.paths)
        return RowDirectories(placed.codes, tuple(paths), placed.times)


_TOGETHER_BYTES = 480


@dataclass(frozen=True, slots=True)
class FieldPaths:
    """Formats fields of a record as a path, in the configured order."""

    names: tuple[str, ...]
    """The names from ``partition.field.name``."""
    raw: bool

    def read(self, rows: Rows) -> tuple[Int64s, list[str]]:
        """Return the index of each record's path, and the list of distinct paths.

        Raise RecordError if a record has no path.
        """
        codes: Int64s = np.zeros(len(rows), np.int64)
        paths: list[str] = []
        room = max(64, min(MAX_BYTES, _TOGETHER_BYTES // len(self.names)))
        for name in self.names:
            try:
                texts = _read(rows, name)
                label = field_label(name)
                parts = [name_part(label, t, raw=self.raw, max_bytes=room) for t in texts.texts]
            except RowProblem as problem:
                raise problem.to_error(rows) from problem
            if not paths:
                codes, paths = _merge_equal(texts.codes, parts)
            else:
                codes, paths = _join_codes(codes, paths, texts.codes, parts)
        return codes, paths


def _join_codes(
    first: Int64s, first_paths: Sequence[str], second: Int64s, second_paths: Sequence[str]
) -> tuple[Int64s, list[str]]:
    """Append the second path to the first; create only the combinations that occur."""
    pairs, codes = find_distinct(first * len(second_paths) + second)
    joined = [
        f"{first_paths[pair // len(second_paths)]}/{second_paths[pair % len(second_paths)]}"
        for pair in pairs.tolist()
    ]
    return _merge_equal(codes, joined)


def _merge_equal(codes: Int64s, paths: list[str]) -> tuple[Int64s, list[str]]:
    """Remove duplicate paths, so that equal paths do not become two directories."""
    places: dict[str, int] = {}
    renamed = [places.setdefault(path, len(places)) for path in paths]
    if len(places) == len(paths):
        return codes, paths
    return np.array(renamed, np.int64)[codes], list(places)


def _read(rows: Rows, name: str) -> CodedTexts:
    source, colon, rest = name.partition(":")
    if colon and source == "header":
        return read_header(rows.headers, rest)
    if colon and source == "key":
        return read_column(rows.key, rest)
    return read_column(rows.value, name)


@dataclass(frozen=True, slots=True)
class FieldPartitioner:
    """Assigns directories from field values only."""

    fields: FieldPaths
    extractor: Extractor
    """Reads the times that file rotation uses. A record without a time does not fail."""

    def place(self, rows: Rows, *, at_ms: int) -> RowDirectories:
        """Assign directories by field; raise RecordError for a record that lacks a field."""
        codes, paths = self.fields.read(rows)
        times = self.extractor.read_or_kafka(rows, at_ms=at_ms)
        return RowDirectories(codes.astype(np.int32), tuple(paths), times)


class TimePaths:
    """Formats times with a Joda pattern, rounded down to a duration in local time.

    Times before 1970 are rounded down too. Confluent's sink rounds them up.
    """

    def __init__(self, path_format: PathFormat, duration_ms: int) -> None:
        self._format = path_format
        self._zone = path_format.zone
        self._duration_ms = duration_ms
        unit = path_format.unit_ms
        self._step_ms = unit if unit % duration_ms == 0 else duration_ms

    def read(self, times: Int64s) -> tuple[Int64s, list[str]]:
        """Return the index of each time's path, and the list of distinct paths."""
        local = times + self._zone.offsets_ms(times)
        steps, codes = find_distinct(local // self._step_ms)
        paths: dict[str, int] = {}
        even = np.array([self._is_even(step) for step in steps.tolist()], np.bool_)
        renamed = np.zeros(len(steps), np.int64)
        renamed[even] = self._write_all(steps[even] * self._step_ms, paths)
        result = renamed[codes]
        for place in np.flatnonzero(~even).tolist():
            rows = np.flatnonzero(codes == place)
            cells, inner = find_distinct(local[rows] // self._duration_ms)
            result[rows] = self._write_all(cells * self._duration_ms, paths)[inner]
        return result, list(paths)

    def _is_even(self, step: int) -> bool:
        """Return whether all times of a step have one path: the offset does not change in it."""
        if self._step_ms == self._duration_ms:
            return True
        first, last = step * self._step_ms, (step + 1) * self._step_ms - self._duration_ms
        return self._zone.to_utc(last) - self._zone.to_utc(first) == last - first

    def _write_all(self, local: Int64s, paths: dict[str, int]) -> Int64s:
        """Return the index in ``paths`` of each local time, and add the paths that are new."""
        texts = (self._format.write(self._zone.to_utc(time)) for time in local.tolist())
        return np.array([paths.setdefault(text, len(paths)) for text in texts], np.int64)


@dataclass(frozen=True, slots=True)
class TimePartitioner:
    """Assigns directories from times, nested in the directories of fields if there are any."""

    paths: TimePaths
    extractor: Extractor
    fields: FieldPaths | None = None

    def place(self, rows: Rows, *, at_ms: int) -> RowDirectories:
        """Assign directories by time; raise RecordError for a record without a time."""
        times = self.extractor.read(rows, at_ms=at_ms)
        codes, paths = self.paths.read(times)
        if self.fields is not None:
            codes, paths = _join_codes(*self.fields.read(rows), codes, paths)
        return RowDirectories(codes.astype(np.int32), tuple(paths), times)


def open_partitioner(options: PartitionOptions) -> Partitioner:
    """Return the partitioner for the options; this is cheap, so each task calls it."""
    raw = options.partition_path_encoding == "raw"
    affix = options.s3_schema_partition_affix_type
    inner = _open_inner(options, raw=raw)
    if affix == "NONE":
        return inner
    return SchemaNamePartitioner(inner, is_prefix=affix == "PREFIX", raw=raw)


def _open_inner(options: PartitionOptions, *, raw: bool) -> Partitioner:
    extractor = Extractor(options.extractor, options.timestamp_field)
    fields = FieldPaths(options.partition_field_name, raw) if options.is_field else None
    if options.is_time_based:
        path_format = PathFormat(options.pattern, Zone(options.timezone), options.locale)
        return TimePartitioner(TimePaths(path_format, options.duration_ms), extractor, fields)
    if fields is not None:
        return FieldPartitioner(fields, extractor)
    return DefaultPartitioner(extractor)
