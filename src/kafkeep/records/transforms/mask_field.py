"""The transform MaskField; pure.

Replaces sensitive values with zero, an empty text, or a fixed replacement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.options.sink.transform_options import MaskFieldOptions
from kafkeep.records.arrow import number_array, valid_flags
from kafkeep.records.json.edit import (
    encode_string,
    find_member,
    join_object,
    kind_of,
    set_member,
)
from kafkeep.records.rows import Rows
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Column, Kind, Schema
from kafkeep.records.transforms.cast import (
    INT_BITS,
    encode_decimal,
    format_double,
    narrow_integer,
    scale_of,
)
from kafkeep.records.transforms.transform import (
    get_column,
    get_fields,
    java_class,
    json_class,
    members_of,
    require_struct,
    set_column,
    with_children,
)

_MASKING = "mask fields"

_JSON_MASKS = {
    "string": b'""',
    "integer": b"0",
    "float": b"0.0",
    "boolean": b"false",
    "array": b"[]",
    "object": b"{}",
    "null": b"null",
}
_DATES = frozenset({DATE, TIME, TIMESTAMP})


@dataclass(frozen=True, slots=True)
class MaskField:
    """Null fields stay null. A record without a value is an error, as in Connect."""

    side: str
    options: MaskFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with masked fields."""
        column = get_column(rows, self.side)
        masked = self._mask_texts(column) if column.schema is None else self._mask_typed(column)
        yield set_column(rows, self.side, masked)

    def _mask_typed(self, column: Column) -> Column:
        schema = require_struct(column, _MASKING, nulls=False)
        children = get_fields(column, defaults=self.options.replace_null_with_default)
        for i, field in enumerate(schema.fields):
            if field.name in self.options.fields and children[i].null_count < len(column):
                children[i] = _repeat(self._mask_of(field.schema), children[i])
        return with_children(schema, children, column.array)

    def _mask_texts(self, column: Column) -> Column:
        texts = []
        for text in column.array.to_pylist():
            members = members_of(text, _MASKING)
            for name in dict.fromkeys(self.options.fields):
                old = find_member(members, name)
                members = set_member(members, name, b"null" if old is None else self._mask(old))
            texts.append(join_object(members))
        return Column(None, pa.array(texts, type=pa.binary()))

    def _mask(self, text: bytes) -> bytes:
        kind, replacement = kind_of(text), self.options.replacement
        if replacement is None or kind == "null":
            return _JSON_MASKS[kind]
        if kind == "string":
            return encode_string(replacement)
        if kind == "integer":
            return str(narrow_integer(int(_number(replacement)), 64)).encode()
        if kind == "float":
            return format_double(float(_number(replacement))).encode()
        raise _no_replacement(json_class(text))

    def _mask_of(self, schema: Schema) -> Any:
        if schema.kind is Kind.STRUCT or (schema.kind is Kind.BYTES and schema.name != DECIMAL):
            raise RecordError(f"cannot mask value of type: class {java_class(schema)}")
        if self.options.replacement is None:
            return _zero(schema)
        return _replacement(schema, self.options.replacement)


def _zero(schema: Schema) -> Any:
    match schema.kind:
        case Kind.BOOLEAN:
            return False
        case Kind.STRING:
            return ""
        case Kind.BYTES:
            return b"\x00"
        case Kind.ARRAY | Kind.MAP:
            return []
    return 0


def _replacement(schema: Schema, text: str) -> Any:
    if schema.name in _DATES:
        raise _no_replacement(java_class(schema))
    if schema.name == DECIMAL:
        return encode_decimal(_number(text), scale_of(schema))
    match schema.kind:
        case Kind.STRING:
            return text
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64:
            return narrow_integer(int(_number(text)), INT_BITS[schema.kind])
        case Kind.FLOAT32 | Kind.FLOAT64:
            return float(_number(text))
    raise _no_replacement(java_class(schema))


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise RecordError(f"unable to convert {text} (class java.lang.String) to number")
    return number


def _no_replacement(name: str) -> RecordError:
    return RecordError(f"cannot mask value of type class {name} with custom replacement")


def _repeat(value: Any, like: pa.Array) -> pa.Array:
    """Return ``value`` where ``like`` is not null, and null elsewhere."""
    one = pa.array([value, None], type=like.type)
    return one.take(number_array(pa.int64(), np.where(valid_flags(like), 0, 1)))
