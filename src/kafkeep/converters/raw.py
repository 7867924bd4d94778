"""ByteArrayConverter: bytes as they are."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafkeep.converters.converter import Piece
from kafkeep.data.column import OPTIONAL_BYTES, Column
from kafkeep.data.schema import Kind
from kafkeep.errors import RecordError


class RawConverter:
    """Bytes in, the same bytes out. Never fails."""

    def convert(self, values: pa.BinaryArray) -> Iterator[Piece]:
        """Give all values as one column of optional bytes, without a copy."""
        if len(values):
            yield Piece(0, len(values), Column(OPTIONAL_BYTES, values))

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the bytes; of a column without a schema, its JSON texts."""
        if column.schema is not None and column.schema.kind is not Kind.BYTES:
            raise RecordError(f"a value of type {column.schema.kind} is not bytes")
        return column.array
