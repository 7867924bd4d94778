"""TimestampConverter: convert times between texts, numbers and Connect's logical types; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.options.sink.transform_options import TimestampConverterOptions
from kafkeep.records.calendar import DAY_MS
from kafkeep.records.json.edit import (
    decode_string,
    encode_string,
    find_member,
    join_object,
    kind_of,
    set_member,
)
from kafkeep.records.rows import Rows
from kafkeep.records.schema import DATE, TIME, TIMESTAMP, Column, Field, Kind, Schema, arrow_type
from kafkeep.records.transforms.date_format import DateFormat
from kafkeep.records.transforms.transform import (
    copy_fields,
    edit_texts,
    get_column,
    get_fields,
    json_class,
    members_of,
    require_struct,
    set_column,
    with_children,
)

_PURPOSE = "converting timestamp formats"
_TARGETS = {
    "string": Schema(kind=Kind.STRING),
    "unix": Schema(kind=Kind.INT64),
    "Date": Schema(kind=Kind.INT32, name=DATE, version=1),
    "Time": Schema(kind=Kind.INT32, name=TIME, version=1),
    "Timestamp": Schema(kind=Kind.INT64, name=TIMESTAMP, version=1),
}
_SOURCES = {DATE: "Date", TIME: "Time", TIMESTAMP: "Timestamp"}
# Pairs of milliseconds per unit and units per millisecond.
_UNITS = {
    "seconds": (1000, 1),
    "milliseconds": (1, 1),
    "microseconds": (1, 1000),
    "nanoseconds": (1, 1_000_000),
}
_LONG_MAX = 2**63 - 1


def _divide(value: int, by: int) -> int:
    """Divide towards zero, as Java does."""
    return value // by if value >= 0 else -(-value // by)


def _limit(value: int) -> int:
    return min(max(value, -_LONG_MAX - 1), _LONG_MAX)


@dataclass(frozen=True, slots=True)
class TimestampConverter:
    """Texts without a zone are in UTC. Nulls are unchanged."""

    side: str
    options: TimestampConverterOptions
    format: DateFormat | None

    @classmethod
    def of(cls, side: str, options: TimestampConverterOptions) -> TimestampConverter:
        """Return a converter; the pattern is parsed once."""
        text = options.format
        return cls(side, options, DateFormat.of(text) if text.strip() else None)

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with converted times."""
        column = get_column(rows, self.side)
        if column.schema is None:
            converted = edit_texts(column, self._convert_text)
        elif self.options.field:
            converted = self._convert_field(column)
        else:
            converted = Column(*self._convert_array(column.schema, column.array))
        yield set_column(rows, self.side, converted)

    def _convert_field(self, column: Column) -> Column:
        schema = require_struct(column, _PURPOSE)
        if schema.kind is not Kind.STRUCT:
            return column
        children = get_fields(column, defaults=self.options.replace_null_with_default)
        fields = list(schema.fields)
        for i, field in enumerate(fields):
            if field.name == self.options.field:
                new, children[i] = self._convert_array(field.schema, children[i])
                fields[i] = Field(field.name, new)
        new = copy_fields(schema, fields).as_optional(schema.optional)
        return with_children(new, children, column.array)

    def _convert_array(self, schema: Schema, array: pa.Array) -> tuple[Schema, pa.Array]:
        source = _source_of(schema)
        new = _TARGETS[self.options.target_type].as_optional(schema.optional)
        values = [
            None if value is None else self._to_target(self._to_ms(value, source))
            for value in array.to_pylist()
        ]
        return new, pa.array(values, type=arrow_type(new))

    def _convert_text(self, text: bytes) -> bytes:
        if not self.options.field:
            return self._convert_json(text)
        members = members_of(text, _PURPOSE)
        old = find_member(members, self.options.field)
        new = b"null" if old is None else self._convert_json(old)
        return join_object(set_member(members, self.options.field, new))

    def _convert_json(self, text: bytes) -> bytes:
        """Convert a schemaless time; dates become milliseconds."""
        match kind_of(text):
            case "null":
                return b"null"
            case "integer":
                ms = self._to_ms(int(text), "unix")
            case "string":
                ms = self._to_ms(decode_string(text), "string")
            case _:
                raise RecordError(
                    "TimestampConverter does not support class"
                    f" {json_class(text)} objects as timestamps"
                )
        target = self.options.target_type
        if target == "Date":
            ms -= ms % DAY_MS
        made = ms if target == "Date" else self._to_target(ms)
        return encode_string(made) if isinstance(made, str) else str(made).encode()

    def _to_ms(self, value: Any, source: str) -> int:
        if source == "string":
            return self._parse(value)
        if source == "Date":
            return int(value) * DAY_MS
        if source == "unix":
            times, parts = _UNITS[self.options.unix_precision]
            return _limit(_divide(value * times, parts))
        return int(value)

    def _parse(self, text: str) -> int:
        if self.format is None:
            raise RecordError("TimestampConverter requires format option to read string timestamps")
        try:
            return self.format.parse(text)
        except ValueError as error:
            raise RecordError(
                f"could not parse timestamp: value ({text[:100]}) does not match pattern"
                f" ({self.format.text}): {error}"
            ) from error

    def _to_target(self, ms: int) -> Any:
        match self.options.target_type:
            case "string":
                assert self.format is not None
                return self.format.format(ms)
            case "unix":
                times, parts = _UNITS[self.options.unix_precision]
                return _limit(_divide(ms * parts, times))
            case "Date":
                return _checked_days(ms // DAY_MS)
            case "Time":
                return ms % DAY_MS
        return ms


def _checked_days(days: int) -> int:
    if not -(2**31) <= days < 2**31:
        raise RecordError(f"a time {days} days from 1970 does not fit into a Date")
    return days


def _source_of(schema: Schema) -> str:
    if schema.name in _SOURCES:
        return _SOURCES[schema.name]
    if schema.kind is Kind.STRING:
        return "string"
    if schema.kind is Kind.INT64:
        return "unix"
    raise RecordError(
        f"schema {schema.name or schema.kind.name} does not correspond to a known timestamp type"
    )
