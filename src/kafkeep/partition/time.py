"""Directories made of times: ``year=2024/month=12/day=03/hour=10``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkeep.data.rows import Rows
from kafkeep.partition.distinct import Int64s, find_distinct, join_codes
from kafkeep.partition.extract import Extractor
from kafkeep.partition.field import FieldPaths
from kafkeep.partition.joda import PathFormat
from kafkeep.partition.partitioner import Placed


class TimePaths:
    """Writes times, rounded down to a duration in local time, with a Joda pattern.

    Times before 1970 are rounded down too; Confluent's sink rounds them up.
    """

    def __init__(self, path_format: PathFormat, duration_ms: int) -> None:
        self._format = path_format
        self._zone = path_format.zone
        self._duration_ms = duration_ms
        unit = path_format.unit_ms
        self._step_ms = unit if unit % duration_ms == 0 else duration_ms

    def read(self, times: Int64s) -> tuple[Int64s, list[str]]:
        """Return for each time its place in a list of paths, no two of them equal."""
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
        """Tell whether all times of a step are written alike: no change of the offset in it."""
        if self._step_ms == self._duration_ms:
            return True
        first, last = step * self._step_ms, (step + 1) * self._step_ms - self._duration_ms
        return self._zone.to_utc(last) - self._zone.to_utc(first) == last - first

    def _write_all(self, local: Int64s, paths: dict[str, int]) -> Int64s:
        """Return the places of local times in ``paths``, which grows by those not yet in it."""
        texts = (self._format.write(self._zone.to_utc(time)) for time in local.tolist())
        return np.array([paths.setdefault(text, len(paths)) for text in texts], np.int64)


@dataclass(frozen=True, slots=True)
class TimePartitioner:
    """Directories made of times, under those of fields if there are any."""

    paths: TimePaths
    extractor: Extractor
    fields: FieldPaths | None = None

    def place(self, rows: Rows, *, at_ms: int) -> Placed:
        """Place by time; RecordError names the record that has none."""
        times = self.extractor.read(rows, at_ms=at_ms)
        codes, paths = self.paths.read(times)
        if self.fields is not None:
            codes, paths = join_codes(*self.fields.read(rows), codes, paths)
        return Placed(codes.astype(np.int32), tuple(paths), times)
