"""ExtractField: one field in place of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafkeep.config.field_path import parse_field_path
from kafkeep.config.transform_options import ExtractFieldOptions
from kafkeep.data.column import Column
from kafkeep.data.json_edit import find_member
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Kind, Schema
from kafkeep.errors import RecordError
from kafkeep.transforms.arrays import number_array, valid_flags
from kafkeep.transforms.sides import get_column, is_json_null, members_of, set_column
from kafkeep.transforms.structs import fill_default, get_children, require_struct

_PURPOSE = "field extraction"
_NESTED = "nested field access"


@dataclass(frozen=True, slots=True)
class ExtractField:
    """A field that is missing or null gives no value at all; schemaless ones stay JSON texts."""

    side: str
    options: ExtractFieldOptions

    @property
    def _path(self) -> tuple[str, ...]:
        return parse_field_path(self.options.field, self.options.field_syntax_version)

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the field for their key or value."""
        column = get_column(rows, self.side)
        taken = self._from_texts(column) if column.schema is None else self._from_typed(column)
        yield set_column(rows, self.side, taken)

    def _from_typed(self, column: Column) -> Column:
        current = column
        path = self._path
        for depth, name in enumerate(path):
            schema = require_struct(current, _NESTED if depth else _PURPOSE)
            names = [field.name for field in schema.fields]
            if schema.kind is not Kind.STRUCT or name not in names:
                raise RecordError(f"unknown field: {self.options.field}")
            place = names.index(name)
            child = get_children(current.array)[place]
            field = schema.fields[place].schema
            if depth < len(path) - 1 or self.options.replace_null_with_default:
                child = _fill_inside(child, field, current.array)
            current = Column(field, child)
        return current

    def _from_texts(self, column: Column) -> Column:
        path = self._path
        texts = [_dig(text, path) for text in column.array.to_pylist()]
        return Column(None, pa.array(texts, type=pa.binary()))


def _fill_inside(child: pa.Array, field: Schema, parent: pa.Array) -> pa.Array:
    """Put the default in where the field is null, but not where its parent is."""
    filled = fill_default(child, field)
    if filled is child or not parent.null_count:
        return filled
    places = np.where(valid_flags(parent), np.arange(len(parent)), len(parent))
    nothing = pa.nulls(1, type=child.type)
    return pa.concat_arrays([filled, nothing]).take(number_array(pa.int64(), places))


def _dig(text: bytes | None, path: tuple[str, ...]) -> bytes | None:
    """Return the text of the field, or None when it or something on the way is missing."""
    for depth, name in enumerate(path):
        if text is None or is_json_null(text):
            return None
        text = find_member(members_of(text, _NESTED if depth else _PURPOSE), name)
    return None if text is None or is_json_null(text) else text
