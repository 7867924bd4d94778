"""Which side of a record a transform works on: its key or its value.

What a transform is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.records.json.edit import JsonMember, kind_of, split_object
from kafkeep.records.rows import Rows
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Column, Kind, Schema


class Transform(Protocol):
    """One step of a chain. Pure: rows in, rows out."""

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows that remain, in order, as pieces of one schema and topic each.

        RecordError when some record cannot be transformed: the caller then tries smaller pieces
        until it is known which one, so nothing may be remembered between calls.
        """


class Predicate(Protocol):
    """Chooses the records a transform is for."""

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell for each record whether it is chosen."""


_JSON_CLASSES = {
    "array": "java.util.ArrayList",
    "string": "java.lang.String",
    "boolean": "java.lang.Boolean",
    "integer": "java.lang.Long",
    "float": "java.lang.Double",
    "object": "java.util.HashMap",
    "null": "null",
}
_CLASSES = {
    Kind.INT8: "java.lang.Byte",
    Kind.INT16: "java.lang.Short",
    Kind.INT32: "java.lang.Integer",
    Kind.INT64: "java.lang.Long",
    Kind.FLOAT32: "java.lang.Float",
    Kind.FLOAT64: "java.lang.Double",
    Kind.BOOLEAN: "java.lang.Boolean",
    Kind.STRING: "java.lang.String",
    Kind.BYTES: "[B",
    Kind.ARRAY: "java.util.ArrayList",
    Kind.MAP: "java.util.HashMap",
    Kind.STRUCT: "org.apache.kafka.connect.data.Struct",
}
_LOGICAL_CLASSES = {
    DECIMAL: "java.math.BigDecimal",
    TIMESTAMP: "java.util.Date",
    DATE: "java.util.Date",
    TIME: "java.util.Date",
}


def get_column(rows: Rows, side: str) -> Column:
    """Return the keys or the values."""
    return rows.key if side == "Key" else rows.value


def set_column(rows: Rows, side: str, column: Column) -> Rows:
    """Return the rows with other keys or values."""
    return replace(rows, key=column) if side == "Key" else replace(rows, value=column)


def java_class(schema: Schema) -> str:
    """Return the class Connect has for such values: its messages name it, so ours do."""
    return _LOGICAL_CLASSES.get(schema.name or "", _CLASSES[schema.kind])


def json_class(text: bytes) -> str:
    """Return the class Connect has for a schemaless value."""
    return _JSON_CLASSES[kind_of(text)]


def is_json_null(text: bytes) -> bool:
    """Tell whether a document is ``null``, which Connect does not tell from no value at all."""
    return len(text) < 16 and text.strip() == b"null"


def members_of(text: bytes | None, purpose: str) -> list[JsonMember]:
    """Take a schemaless value apart; RecordError when it is not an object."""
    if text is not None and kind_of(text) == "object":
        return split_object(text)
    found = "null" if text is None else json_class(text)
    raise RecordError(
        f"only Map objects supported in absence of schema for [{purpose}], found: {found}"
    )


def edit_texts(column: Column, edit: Callable[[bytes], bytes | None]) -> Column:
    """Edit every schemaless value that is neither null nor ``null``."""
    texts = [
        text if text is None or is_json_null(text) else edit(text)
        for text in column.array.to_pylist()
    ]
    return Column(None, pa.array(texts, type=pa.binary()))
