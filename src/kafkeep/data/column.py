"""A column of keys, values or headers: an Arrow array, and Connect's schema if there is one."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kafkeep.data.schema import Kind, Schema, arrow_type

OPTIONAL_BYTES = Schema(kind=Kind.BYTES, optional=True)
OPTIONAL_STRING = Schema(kind=Kind.STRING, optional=True)


@dataclass(frozen=True, slots=True)
class Column:
    """Values of one schema.

    With a schema, ``array`` has ``arrow_type(schema)``. Without one the values are schemaless:
    ``array`` is ``pa.binary()``, each value one valid JSON document as UTF-8 without a line break,
    exactly as it came otherwise. Null is null in either case (a tombstone, a missing key), and is
    not the JSON document ``null``.
    """

    schema: Schema | None
    array: pa.Array

    def __post_init__(self) -> None:
        wanted = pa.binary() if self.schema is None else arrow_type(self.schema)
        if self.array.type != wanted:
            raise TypeError(f"a column of {self.schema} is {wanted}, not {self.array.type}")

    def __len__(self) -> int:
        return len(self.array)

    def slice(self, start: int, stop: int) -> Column:
        """Return some rows, without a copy."""
        return Column(self.schema, self.array.slice(start, stop - start))

    def take(self, indices: pa.Array) -> Column:
        """Return the rows at ``indices``, in that order."""
        return Column(self.schema, self.array.take(indices))
