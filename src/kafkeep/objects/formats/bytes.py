"""The bytes format: unchanged values with a separator after each. JSON lines build on it. Pure.

As in Connect, a separator inside a value is not escaped. An object with such a value cannot be
split into its records again. It can be read if it holds one record (``flush.size=1``) and the
reader sets ``single``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.errors import DamagedError, RecordError
from kafkeep.numba_setup import Bytes, Int64s, view_bytes
from kafkeep.objects.formats.compress import (
    BLOCK_BYTES,
    SUFFIXES,
    BlockCompressor,
    open_decompressed,
)
from kafkeep.options.sink.formats import FormatOptions
from kafkeep.records.arrow import binary_of_buffers, gather, join_with
from kafkeep.records.schema import OPTIONAL_BYTES, Column, Kind, Schema

PIECE_BYTES = 4 * 1024 * 1024
"""The number of bytes to read at a time. A piece is larger only if a single record is."""
MAX_RECORD_BYTES = 192 << 20
"""The largest valid record. A longer one counts as damage, so that it cannot exhaust memory. By
default a broker accepts requests of up to 100 MiB, which is 134 MiB as base64."""

_RETURN = 13


def iter_slices(column: Column) -> Iterator[Column]:
    """Cut a column into slices of about one block each, to limit the memory of encoding."""
    step = max(1, len(column) * BLOCK_BYTES // max(column.array.nbytes, 1))
    for start in range(0, len(column), step):
        yield column.slice(start, min(start + step, len(column)))


def join(array: pa.Array, separator: bytes) -> Bytes:
    """Concatenate the values, with ``separator`` after each.

    ``array`` is binary or string. A null is written as an empty value.
    """
    if array.null_count:
        array = array.fill_null(_empty(array.type))
    return join_with(array, separator)


def _empty(kind: pa.DataType) -> pa.Scalar:
    # pa.scalar would import pandas, which takes half a second.
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")])[0]


def split(
    data: bytes, separator: bytes, *, trim: bool = False, first: int = 0
) -> tuple[pa.Array, int]:
    """Return the records that end in ``data``, and the number of bytes they take.

    With ``trim``, a carriage return before a separator is part of the separator. The search for
    separators starts at ``first``.
    """
    view = view_bytes(data)
    ends = _places(view, data, separator, first)
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + len(separator)
    taken = int(ends[-1]) + len(separator) if len(ends) else 0
    if trim and len(ends):
        ends = ends - ((ends > starts) & (view[ends - 1] == _RETURN))
    return gather(view, starts, ends), taken


def _places(view: Bytes, data: bytes, separator: bytes, first: int) -> Int64s:
    """Return the positions of ``separator`` in ascending order, without overlaps."""
    if len(separator) == 1:
        return np.flatnonzero(view[first:] == separator[0]) + first
    found = re.compile(re.escape(separator)).finditer(data, first)
    return np.fromiter((match.start() for match in found), dtype=np.int64)


def iter_split(source: BinaryIO, separator: bytes, *, trim: bool = False) -> Iterator[pa.Array]:
    """Yield the records of ``source``. The last one may lack its separator.

    A record that takes several reads is held in memory once and searched once.
    """
    parts: list[bytes] = []
    held, edge = 0, b""
    while data := source.read(PIECE_BYTES):
        is_found = separator in data or separator in edge + data[: len(separator) - 1]
        looked_through = max(0, held - len(separator) + 1)
        edge = _last(edge + data, len(separator) - 1)
        parts.append(data)
        held += len(data)
        if is_found:
            whole = b"".join(parts)
            parts.clear()
            records, taken = split(whole, separator, trim=trim, first=looked_through)
            parts, held = [whole[taken:]], len(whole) - taken
            edge = _last(parts[0], len(separator) - 1)
            del whole, data
            yield records
        if held > MAX_RECORD_BYTES:
            raise DamagedError(f"no separator in {held} bytes: this is not one record")
    if held:  # do not append a separator and split again: it could match at another position
        rest = b"".join(parts)
        parts.clear()
        yield _one(rest.removesuffix(b"\r") if trim else rest)


def _last(data: bytes, count: int) -> bytes:
    return data[max(0, len(data) - count) :]


def _one(record: bytes | bytearray) -> pa.Array:
    ends = np.array([0, len(record)], dtype=np.int32)
    return binary_of_buffers(view_bytes(record), ends, None)


class SeparatedEncoder:
    """Encodes one object of values with a separator after each. ``texts`` encodes the values.

    ``may_fail`` states that ``texts`` may raise RecordError.
    """

    def __init__(
        self,
        options: FormatOptions,
        separator: bytes,
        texts: Callable[[Column], pa.Array],
        *,
        may_fail: bool = False,
    ) -> None:
        self.buffered_bytes = 0
        self._blocks = BlockCompressor(options.s3_compression_type, options.s3_compression_level)
        self._separator = separator
        self._texts = texts
        self._may_fail = may_fail

    def check(self, column: Column) -> None:
        """See Encoder. Records that are too long to be read back are rejected."""
        if not self._may_fail and column.array.nbytes < MAX_RECORD_BYTES // 2:
            return
        longest = pc.max(pc.binary_length(self._texts(column))).as_py() or 0
        if longest > MAX_RECORD_BYTES:
            raise RecordError(f"a record of {longest} bytes: none over {MAX_RECORD_BYTES} is read")

    def add(self, column: Column) -> bytes:
        """See Encoder."""
        parts = [
            self._blocks.add(join(self._texts(part), self._separator))
            for part in iter_slices(column)
        ]
        self.buffered_bytes = self._blocks.buffered_bytes
        return b"".join(parts)

    def flush(self) -> bytes:
        """See Encoder."""
        self.buffered_bytes = 0
        return self._blocks.flush()

    def finish(self) -> bytes:
        """See Encoder."""
        self.buffered_bytes = 0
        return self._blocks.finish()


def _values(column: Column) -> pa.Array:
    return column.array


@dataclass(frozen=True)
class BytesFormat:
    """Objects of plain bytes. A null key is written as an empty one."""

    options: FormatOptions

    @property
    def extension(self) -> str:
        """See Format."""
        return self.options.format_bytearray_extension + SUFFIXES[self.options.s3_compression_type]

    @property
    def codec(self) -> str:
        """See Format."""
        return self.options.s3_compression_type.value

    @property
    def _separator(self) -> bytes:
        return self.options.format_bytearray_separator.encode()

    def encoder(self, schema: Schema | None) -> SeparatedEncoder:
        """See Format. Raise RecordError when values of this schema are not bytes."""
        if schema is None:
            raise RecordError("ByteArrayConverter is not compatible with schemaless JSON values")
        if schema.kind is not Kind.BYTES:
            raise RecordError(f"Invalid schema type for ByteArrayConverter: {schema.kind.name}")
        return SeparatedEncoder(self.options, self._separator, _values)

    def read(self, source: BinaryIO, *, single: bool = False) -> Iterator[Column]:
        """See Format. With an empty separator or ``single``, the whole object is one record.

        Callers set ``single`` when the log says that the object holds one record.
        """
        plain = open_decompressed(source, self.options.s3_compression_type)
        if self._separator and not single:
            for records in iter_split(plain, self._separator):
                yield Column(OPTIONAL_BYTES, records)
        else:
            yield Column(OPTIONAL_BYTES, _whole(plain, self._separator))


def _whole(plain: BinaryIO, separator: bytes) -> pa.Array:
    data = bytearray()
    while piece := plain.read(PIECE_BYTES):
        data += piece
        if len(data) > MAX_RECORD_BYTES:
            raise DamagedError(f"an object of over {MAX_RECORD_BYTES} bytes is not one record")
    return _one(data.removesuffix(separator))
