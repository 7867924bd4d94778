"""The time of a record: the clock's, Kafka's, or one of its fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkeep.data.rows import Rows
from kafkeep.partition.arrow import true_rows
from kafkeep.partition.distinct import Int64s
from kafkeep.partition.field_times import FieldTimes, read_field_times
from kafkeep.partition.problem import RowProblem

MAX_TIME_MS = 8 * 10**18
"""250 million years; what lies outside has no local time in 64 bits."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """Reads the time of each record; ``kind`` is Wallclock, Record or RecordField.

    A tombstone has no fields: its time is Kafka's.
    """

    kind: str
    field: str

    def read(self, rows: Rows, *, at_ms: int) -> Int64s:
        """Return the times in ms; RecordError when a record has none."""
        if self.kind == "Wallclock":
            return np.full(len(rows), at_ms, np.int64)
        found = self._read_fields(rows) if self.kind == "RecordField" else None
        times = found.times if found else rows.timestamps
        bad = (times == -1) if found is None else found.missing | (found.is_kafka & (times == -1))
        bad = bad | (times > MAX_TIME_MS) | (times < -MAX_TIME_MS)
        if bad.any():
            row = int(np.argmax(bad))
            why = found.why if found and found.missing[row] else _explain(int(times[row]))
            raise RowProblem(row, why).to_error(rows)
        return times

    def read_or_kafka(self, rows: Rows, *, at_ms: int) -> Int64s:
        """Return the times in ms; Kafka's, which may be -1, for a record that has none."""
        if self.kind == "Wallclock":
            return np.full(len(rows), at_ms, np.int64)
        if self.kind == "Record":
            return rows.timestamps
        found = self._read_fields(rows)
        return np.where(found.missing, rows.timestamps, found.times)

    def _read_fields(self, rows: Rows) -> FieldTimes:
        found = read_field_times(rows.value, self.field)
        nulls = true_rows(rows.value.array.is_null())
        if len(nulls):
            found.times[nulls] = rows.timestamps[nulls]
            found.missing[nulls] = False
            found.is_kafka[nulls] = True
        return found


def _explain(time: int) -> str:
    return "it has no timestamp" if time == -1 else f"the time {time} is in no calendar"
