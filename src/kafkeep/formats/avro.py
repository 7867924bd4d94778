"""Avro object container files.

The bytes of an object are a function of its schema and rows alone, however the rows were handed
over: blocks are cut after the row that fills them, and the sync marker is a digest of the schema
and the first rows. Only ``flush`` makes a block end earlier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa

from kafkeep.config.formats import FormatOptions
from kafkeep.data.avro_schema import dump_avro, to_avro
from kafkeep.data.avro_values import avro_values
from kafkeep.data.column import Column
from kafkeep.data.schema import Schema
from kafkeep.errors import RecordError
from kafkeep.formats.avro_anything import encode_anything
from kafkeep.formats.avro_codecs import LOG_NAMES, compress
from kafkeep.formats.avro_read import MAGIC, iter_columns
from kafkeep.formats.format import Encoder
from kafkeep.kernel import Bytes, Int64s

BLOCK_BYTES = 256 * 1024
"""A block ends after the row that makes it this large, before compression."""

_MARKED_BYTES = 4096
"""How much of the first block goes into the sync marker."""


@dataclass(frozen=True)
class AvroFormat:
    """Avro objects of values, keys or headers: all three have the schema they come with."""

    options: FormatOptions
    view: str = "value"

    @property
    def extension(self) -> str:
        """``.avro`` with every codec, as Connect has it."""
        return ".avro"

    @property
    def codec(self) -> str:
        """The codec's name in the log."""
        return LOG_NAMES[self.options.avro_codec]

    def encoder(self, schema: Schema | None) -> Encoder:
        """Begin an object."""
        options = self.options
        text = dump_avro(
            to_avro(
                schema,
                enhanced=options.enhanced_avro_schema_support,
                connect_meta=options.connect_meta_data,
                allow_optional_map_keys=options.allow_optional_map_keys,
            )
        )
        return AvroEncoder(schema, text, options.avro_codec)

    def read(self, source: BinaryIO) -> Iterator[Column]:
        """Read any Avro file whose schema Connect can express, also Confluent's."""
        return iter_columns(source, enhanced=self.options.enhanced_avro_schema_support)


class _RowsToWrite(Protocol):
    sizes: Int64s

    def write(self, start: int, stop: int, out: Bytes) -> int:
        """Write rows ``[start, stop)`` to the beginning of ``out``."""


class _AnythingRows:
    """Schemaless rows, encoded one by one."""

    def __init__(self, array: pa.Array) -> None:
        self._rows = [encode_anything(text) for text in array.to_pylist()]
        self.sizes: Int64s = np.array([len(row) for row in self._rows], dtype=np.int64)

    def write(self, start: int, stop: int, out: Bytes) -> int:
        whole = b"".join(self._rows[start:stop])
        out[: len(whole)] = np.frombuffer(whole, dtype=np.uint8)
        return len(whole)


class AvroEncoder:
    """One Avro object in the making: holds less than one block of rows, already encoded."""

    def __init__(self, schema: Schema | None, avro: str, codec: str) -> None:
        self._schema = schema
        self._avro = avro
        self._codec = codec
        self._values = None if schema is None else avro_values(avro, schema)
        self._waiting = b""
        self._waiting_rows = 0
        self._sync = b""
        self.buffered_bytes = 0

    def check(self, column: Column) -> None:
        """See Encoder."""
        if column.schema != self._schema:
            raise RecordError("a row of another schema than its Avro object has")
        if self._values is not None:
            self._values.check_rows(column.array)

    def add(self, column: Column) -> bytes:
        """Take rows; return the blocks they fill."""
        if column.schema != self._schema:
            raise RecordError("a row of another schema than its Avro object has")
        if not len(column):
            return b""
        rows: _RowsToWrite = (
            _AnythingRows(column.array)
            if self._values is None
            else self._values.encode(column.array)
        )
        ends = np.cumsum(rows.sizes)
        done, done_bytes, blocks = 0, 0, []
        while True:
            room = BLOCK_BYTES - len(self._waiting)
            filled = int(np.searchsorted(ends, done_bytes + room))
            if filled >= len(ends):
                break
            size = int(ends[filled]) - done_bytes
            blocks += self._block(*self._join(rows, done, filled + 1, size))
            done, done_bytes = filled + 1, int(ends[filled])
        joined, count = self._join(rows, done, len(ends), int(ends[-1]) - done_bytes)
        self._waiting, self._waiting_rows = joined.tobytes(), count
        self.buffered_bytes = len(self._waiting)
        return b"".join(blocks)

    def flush(self) -> bytes:
        """End the block at hand."""
        if not self._waiting_rows:
            return b""
        data = np.frombuffer(self._waiting, dtype=np.uint8)
        return b"".join(self._block(data, self._waiting_rows))

    def finish(self) -> bytes:
        """Return the rest; an object without rows is a header alone."""
        return self.flush() if self._waiting_rows or self._sync else self._header(b"")

    def _join(self, rows: _RowsToWrite, start: int, stop: int, size: int) -> tuple[Bytes, int]:
        """Return what waits and some rows behind it, and how many rows that is."""
        before = len(self._waiting)
        out = np.empty(before + size, dtype=np.uint8)
        out[:before] = np.frombuffer(self._waiting, dtype=np.uint8)
        rows.write(start, stop, out[before:])
        return out, self._waiting_rows + stop - start

    def _block(self, data: Bytes, count: int) -> list[bytes]:
        """Return the pieces of one block, with the header in front of the first."""
        self._waiting, self._waiting_rows, self.buffered_bytes = b"", 0, 0
        header = b"" if self._sync else self._header(data[:_MARKED_BYTES].tobytes())
        packed = compress(self._codec, data.data)
        return [header, avro_long(count), avro_long(len(packed)), packed, self._sync]

    def _header(self, first: bytes) -> bytes:
        meta = {"avro.schema": self._avro.encode(), "avro.codec": self._codec.encode()}
        parts = [MAGIC, avro_long(len(meta))]
        for key, value in meta.items():
            parts += (avro_long(len(key)), key.encode(), avro_long(len(value)), value)
        parts.append(b"\x00")
        digest = hashlib.blake2b(b"".join(parts) + first, digest_size=16)
        self._sync = digest.digest()
        return b"".join(parts) + self._sync


def avro_long(number: int) -> bytes:
    """Return a number that is not negative in Avro's form."""
    rest = number << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
