"""The bytes format: records as they are, with a separator after each. JSON lines build on it.

A separator inside a record is not escaped, as in Connect: such an object cannot be split into the
records it was made of. Objects of one record (``flush.size=1``) can, when the reader says so.
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
from kafkeep.objects.formats.compress import BLOCK_BYTES, SUFFIXES, Blocks, open_decompressed
from kafkeep.options.sink.formats import FormatOptions
from kafkeep.records.arrow import binary_of_buffers, gather, join_with
from kafkeep.records.schema import OPTIONAL_BYTES, Column, Kind, Schema

PIECE_BYTES = 4 * 1024 * 1024
"""What is read at a time; a piece is larger only when one record is."""
MAX_RECORD_BYTES = 192 << 20
"""A record that never ends is damage, not a reason to fill the memory. A broker takes requests of
up to 100 MiB unless it is told otherwise; that is 134 MiB as base64."""

_RETURN = 13


def iter_slices(column: Column) -> Iterator[Column]:
    """Cut a column into parts of about a block each, so that what is made of them stays small."""
    step = max(1, len(column) * BLOCK_BYTES // max(column.array.nbytes, 1))
    for start in range(0, len(column), step):
        yield column.slice(start, min(start + step, len(column)))


def join(array: pa.Array, separator: bytes) -> Bytes:
    """Return the values one after the other, each with ``separator`` behind it.

    ``array`` is binary or string; a null is an empty value.
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
    """Return the records that end in ``data``, and how many of its bytes they took.

    With ``trim`` a carriage return in front of a separator belongs to it. No separator begins
    before ``first``.
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
    """Return where ``separator`` stands, from left to right, none over another."""
    if len(separator) == 1:
        return np.flatnonzero(view[first:] == separator[0]) + first
    found = re.compile(re.escape(separator)).finditer(data, first)
    return np.fromiter((match.start() for match in found), dtype=np.int64)


def iter_split(source: BinaryIO, separator: bytes, *, trim: bool = False) -> Iterator[pa.Array]:
    """Read records up to the end of ``source``; the last one may lack its separator.

    A record that takes many reads is held once, and looked through once.
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
    if held:  # not split again with a separator added: the two could match in another place
        rest = b"".join(parts)
        parts.clear()
        yield _one(rest.removesuffix(b"\r") if trim else rest)


def _last(data: bytes, count: int) -> bytes:
    return data[max(0, len(data) - count) :]


def _one(record: bytes | bytearray) -> pa.Array:
    ends = np.array([0, len(record)], dtype=np.int32)
    return binary_of_buffers(view_bytes(record), ends, None)


class SeparatedEncoder:
    """One object of records with a separator after each; ``texts`` makes bytes of values.

    Unless it ``may_fail``, it makes them of every value.
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
        self._blocks = Blocks(options.s3_compression_type, options.s3_compression_level)
        self._separator = separator
        self._texts = texts
        self._may_fail = may_fail

    def check(self, column: Column) -> None:
        """See Encoder; what could not be read back is not written."""
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
    """Values that are bytes already; a null key is written as an empty one."""

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
        """See Format; RecordError when values of this schema are not bytes."""
        if schema is None:
            raise RecordError("ByteArrayConverter is not compatible with schemaless JSON values")
        if schema.kind is not Kind.BYTES:
            raise RecordError(f"Invalid schema type for ByteArrayConverter: {schema.kind.name}")
        return SeparatedEncoder(self.options, self._separator, _values)

    def read(self, source: BinaryIO, *, single: bool = False) -> Iterator[Column]:
        """See Format. With an empty separator, or when ``single``, the object is one record.

        ``single`` is for those who know from the log that it is.
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
