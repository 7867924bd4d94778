"""LongConverter and its siblings: numbers as Java writes them, big-endian and of fixed width."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.converters.arrays import binary_array
from kafkeep.converters.converter import Piece
from kafkeep.data.column import Column
from kafkeep.data.schema import Kind, Schema, arrow_type
from kafkeep.errors import RecordError

_FORMS = {
    Kind.INT16: ">i2",
    Kind.INT32: ">i4",
    Kind.INT64: ">i8",
    Kind.FLOAT32: ">f4",
    Kind.FLOAT64: ">f8",
    Kind.BOOLEAN: "u1",
}


class NumberConverter:
    """Values of one width; a value of another width is an error."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.form = np.dtype(_FORMS[kind])
        self.schema = Schema(kind=kind, optional=True)

    def convert(self, values: pa.BinaryArray) -> Iterator[Piece]:
        """Give one column for each stretch between values of another width."""
        rows = values.to_pylist()
        bad = [i for i, value in enumerate(rows) if not self._fits(value)]
        for before, after in pairwise([-1, *bad, len(rows)]):
            if before >= 0:
                yield Piece(before, before + 1, self._error(rows[before]))
            if after > before + 1:
                array = self._numbers(rows[before + 1 : after])
                yield Piece(before + 1, after, Column(self.schema, array))

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the numbers in Java's form; RecordError when the column has another type."""
        if column.schema is None or column.schema.kind is not self.kind:
            kind = "without a schema" if column.schema is None else column.schema.kind
            raise RecordError(f"a value {kind} is not of type {self.kind}")
        encoded = [
            None if value is None else np.array(value, self.form).tobytes()
            for value in column.array.to_pylist()
        ]
        return binary_array(encoded)

    def _fits(self, value: bytes | None) -> bool:
        if value is None:
            return True
        if self.kind is Kind.BOOLEAN:
            return value in (b"\x00", b"\x01")
        return len(value) == self.form.itemsize

    def _error(self, value: bytes) -> RecordError:
        if self.kind is Kind.BOOLEAN:
            return RecordError(f"{value[:8].hex()} is not a boolean: one byte, 0 or 1")
        width = self.form.itemsize
        return RecordError(f"{len(value)} bytes are not of type {self.kind}, which has {width}")

    def _numbers(self, rows: list[bytes | None]) -> pa.Array:
        blank = bytes(self.form.itemsize)
        joined = b"".join(blank if value is None else value for value in rows)
        numbers: NDArray[np.generic] = np.frombuffer(joined, self.form)
        if self.kind is Kind.BOOLEAN:
            data: NDArray[np.generic] = np.packbits(numbers.astype(bool), bitorder="little")
        else:
            data = numbers.astype(self.form.newbyteorder("="))
        valid = np.packbits([value is not None for value in rows], bitorder="little")
        buffers = [pa.py_buffer(valid), pa.py_buffer(data)]
        return pa.Array.from_buffers(arrow_type(self.schema), len(rows), buffers)
