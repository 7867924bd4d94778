"""Determine the time of a record: the clock reading, the Kafka timestamp or a field; pure.

A field of the value holds a time as a number, as one of Connect's logical types, or as a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.numba_setup import Int64s
from kafkeep.records.arrow import codes_of, numbers, true_rows
from kafkeep.records.calendar import DAY_MS
from kafkeep.records.json.text import FieldKind
from kafkeep.records.partitioners.field_values import RowProblem, find_json, read_typed, unescape
from kafkeep.records.partitioners.joda import parse_text_ms
from kafkeep.records.rows import Rows
from kafkeep.records.schema import DATE, TIME, Column, Kind, Schema

_DIGITS = "^-?[0-9]{1,18}$"
_PLAIN_ISO = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?"
    "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class FieldTimes:
    """The times read from a field, and flags for the records without one."""

    times: Int64s
    missing: NDArray[np.bool_]
    is_kafka: NDArray[np.bool_]
    """True for the records that use the Kafka timestamp, which the caller fills in."""
    why: str


def read_field_times(value: Column, path: str) -> FieldTimes:
    """Return the times in a field of values with or without a schema; dots nest."""
    names = tuple(path.split("."))
    why = f"the field {path!r} does not exist"
    if value.schema is None:
        times, missing, absent = _read_json(value.array, names)
        why = why if absent else f"the field {path!r} is not a time"
    else:
        try:
            schema, leaf = read_typed(value, names)
        except RowProblem as problem:
            why = problem.why
            times, missing = np.zeros(len(value), np.int64), np.ones(len(value), np.bool_)
        else:
            times, missing = _read_leaf(schema, leaf)
            why = f"the field {path!r} is not a time"
    return FieldTimes(times, missing, np.zeros(len(value), np.bool_), why)


def _read_leaf(schema: Schema, leaf: pa.Array) -> tuple[Int64s, NDArray[np.bool_]]:
    missing = np.zeros(len(leaf), np.bool_)
    missing[true_rows(leaf.is_null())] = True
    if schema.kind is Kind.STRING:
        return read_texts(leaf)
    if schema.kind is Kind.INT64:
        return numbers(leaf, np.int64), missing
    if schema.kind is Kind.INT32 and schema.name != TIME:
        unit = DAY_MS if schema.name == DATE else 1
        return numbers(leaf, np.int32) * unit, missing
    return np.zeros(len(leaf), np.int64), np.ones(len(leaf), np.bool_)


def _read_json(
    texts: pa.BinaryArray, names: tuple[str, ...]
) -> tuple[Int64s, NDArray[np.bool_], bool]:
    """Return times, missing flags, and whether the first missing row lacks the field itself."""
    found = find_json(texts, names)
    kinds = found.spans.kinds
    contents = found.contents().cast(pa.string())
    plain = (kinds == FieldKind.STRING).all() and not _has_escapes(contents)
    if plain or ((kinds == FieldKind.NUMBER).all() and _all_match(contents, _DIGITS)):
        times, missing = read_texts(contents)
    else:
        read = [_read_one(k, c) for k, c in zip(kinds.tolist(), contents.to_pylist(), strict=True)]
        times, missing = _split(read)
    return times, missing, bool(missing.any() and found.missing[np.argmax(missing)])


def _has_escapes(contents: pa.StringArray) -> bool:
    return bool(pc.any(pc.match_substring(contents, "\\")).as_py())


def _read_one(kind: int, content: str | None) -> int | None:
    if kind == FieldKind.STRING and content is not None:
        try:
            return parse_text_ms(unescape(f'"{content}"'.encode()))
        except ValueError:
            return None
    if kind == FieldKind.NUMBER and content is not None:
        return _read_number(content)
    return None


def _read_number(text: str) -> int | None:
    """Return a number without its fraction, or None if it is too large to be a time."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    # This check comes first, because int() of 1e999999999 exhausts the memory.
    if number.adjusted() > 19:
        return None
    return int(number) if _INT64.min <= int(number) <= _INT64.max else None


def _split(read: list[int | None]) -> tuple[Int64s, NDArray[np.bool_]]:
    times = np.array([time or 0 for time in read], np.int64)
    return times, np.array([time is None for time in read], np.bool_)


def _all_match(texts: pa.StringArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), skip_nulls=False).as_py())


def read_texts(texts: pa.StringArray) -> tuple[Int64s, NDArray[np.bool_]]:
    """Return the times of texts (digits or ISO 8601), and flags for the texts that are no times.

    If all texts have the same common form, they are read in bulk. Otherwise each distinct text is
    parsed.
    """
    none = np.zeros(len(texts), np.bool_)
    if _all_match(texts, _DIGITS):
        return numbers(texts.cast(pa.int64()), np.int64), none
    if _all_match(texts, _PLAIN_ISO):
        try:
            return _cast_times(texts), none
        except pa.ArrowInvalid:
            pass
    encoded = pc.dictionary_encode(texts, null_encoding="encode")
    read = [
        None if text is None else parse_text_ms(text) for text in encoded.dictionary.to_pylist()
    ]
    times, missing = _split(read)
    codes = codes_of(encoded)
    return times[codes], missing[codes]


def _cast_times(texts: pa.StringArray) -> Int64s:
    kind = pa.timestamp("ms", "UTC")
    try:
        return numbers(texts.cast(kind), np.int64)
    except pa.ArrowInvalid:
        # Joda drops extra digits of a fraction. Arrow rejects them.
        cut = pc.replace_substring_regex(texts, r"([.][0-9]{3})[0-9]+", r"\1")
        return numbers(cut.cast(kind), np.int64)


MAX_TIME_MS = 8 * 10**18
"""About 250 million years. Beyond this, a local time does not fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """Reads the time of each record; ``kind`` is Wallclock, Record or RecordField.

    A tombstone has no fields, so it uses the Kafka timestamp.
    """

    kind: str
    field: str

    def read(self, rows: Rows, *, at_ms: int) -> Int64s:
        """Return the times in milliseconds; raise RecordError if a record has none."""
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
        """Return the times in milliseconds.

        Use the Kafka timestamp, possibly -1, where none exists.
        """
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
