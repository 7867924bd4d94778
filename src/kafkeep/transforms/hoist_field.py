"""HoistField: the whole key or value as the one field of a new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafkeep.config.transform_options import HoistFieldOptions
from kafkeep.data.column import Column
from kafkeep.data.json_edit import encode_string
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Field
from kafkeep.transforms.arrays import number_array, run_bounds, valid_flags
from kafkeep.transforms.sides import get_column, set_column
from kafkeep.transforms.structs import struct_schema, with_children


@dataclass(frozen=True, slots=True)
class HoistField:
    """Nulls are wrapped too; where the schema allows none, they are wrapped without one."""

    side: str
    options: HoistFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with wrapped keys or values."""
        column = get_column(rows, self.side)
        schema = column.schema
        if schema is None or schema.optional or not column.array.null_count:
            yield set_column(rows, self.side, self._wrap(column))
            return
        for start, stop in run_bounds(valid_flags(column.array)):
            piece = column.slice(start, stop)
            if piece.array.null_count:
                piece = Column(None, pa.nulls(stop - start, type=pa.binary()))
            yield set_column(rows.slice(start, stop), self.side, self._wrap(piece))

    def _wrap(self, column: Column) -> Column:
        if column.schema is not None:
            schema = struct_schema([Field(self.options.field, column.schema)])
            whole = number_array(pa.int64(), np.zeros(len(column), dtype=np.int64))
            return with_children(schema, [column.array], whole)
        head = b"{" + encode_string(self.options.field) + b":"
        texts = [head + (text or b"null") + b"}" for text in column.array.to_pylist()]
        return Column(None, pa.array(texts, type=pa.binary()))
