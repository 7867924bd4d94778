"""Flatten: fields of nested values become fields of the root, their names joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kafkeep.config.transform_options import FlattenOptions
from kafkeep.data.column import Column
from kafkeep.data.json_edit import Member, encode_string, join_object, kind_of
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Field, Kind, Schema
from kafkeep.errors import RecordError
from kafkeep.transforms.sides import edit_texts, get_column, members_of, set_column
from kafkeep.transforms.structs import (
    copy_fields,
    fill_default,
    get_children,
    require_struct,
    with_children,
)

_PURPOSE = "flattening"


@dataclass(frozen=True, slots=True)
class Flatten:
    """Arrays stay whole; nulls pass as they are."""

    side: str
    options: FlattenOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows, flat."""
        column = get_column(rows, self.side)
        if column.array.null_count == len(column):
            yield rows
        elif column.schema is None:
            yield set_column(rows, self.side, edit_texts(column, self._flatten_text))
        else:
            yield set_column(rows, self.side, self._flatten_typed(column))

    def _flatten_typed(self, column: Column) -> Column:
        schema = require_struct(column, _PURPOSE)
        flat = list(self._walk(schema, column.array, "", schema.optional, schema.default))
        new = copy_fields(schema, [field for field, _ in flat])
        return with_children(new, [child for _, child in flat], column.array)

    def _walk(
        self, schema: Schema, array: pa.Array, prefix: str, optional: bool, default: Any
    ) -> Iterator[tuple[Field, pa.Array]]:
        """Yield fields and columns; what lies above decides with them about null and default."""
        for place, (field, child) in enumerate(
            zip(schema.fields, get_children(array), strict=True)
        ):
            name = self._name(prefix, field.name)
            own = field.schema.default
            if own is None and default is not None:
                own = default[place]
            inner = replace(field.schema, optional=optional or field.schema.optional, default=own)
            if inner.kind is Kind.STRUCT:
                yield from self._walk(inner, child, name, inner.optional, own)
            elif inner.kind is Kind.MAP:
                raise RecordError(
                    f"Flatten transformation does not support MAP for record with schemas"
                    f" (for field {name})"
                )
            else:
                yield Field(name, inner), fill_default(child, inner)

    def _flatten_text(self, text: bytes) -> bytes:
        flat: dict[str, bytes] = {}
        try:
            self._collect(members_of(text, _PURPOSE), "", flat)
        except RecursionError as error:
            raise RecordError("the value is nested too deeply to be flattened") from error
        return join_object(Member(encode_string(name), value) for name, value in flat.items())

    def _collect(self, members: list[Member], prefix: str, flat: dict[str, bytes]) -> None:
        for member in members:
            name = self._name(prefix, member.name)
            if kind_of(member.value) == "object":
                self._collect(members_of(member.value, _PURPOSE), name, flat)
            else:
                flat[name] = member.value

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.options.delimiter}{name}" if prefix else name
