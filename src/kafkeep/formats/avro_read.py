"""Avro object container files, read block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import orjson
import pyarrow as pa

from kafkeep.data.avro_schema import from_avro
from kafkeep.data.avro_values import AvroValues, avro_values
from kafkeep.data.column import Column
from kafkeep.errors import DamagedError, RecordError
from kafkeep.formats.avro_anything import decode_anything
from kafkeep.formats.avro_codecs import LIMIT_BYTES, decompress
from kafkeep.kernel import view_bytes

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_PIECE_BYTES = 1 << 20
_PIECE_ROWS = 1 << 20
"""Rows may take no bytes at all."""
_MAX_HEADER_BYTES = 16 << 20


class _Source:
    """Bytes read forward, never fewer than asked."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source

    def take(self, count: int) -> bytes:
        """Return exactly ``count`` bytes."""
        found = self._source.read(count)
        while len(found) < count:
            more = self._source.read(count - len(found))
            if not more:
                raise DamagedError("an Avro file is cut short")
            found += more
        return found

    def at_end(self) -> bytes:
        """Return the next byte, or none at the end."""
        return self._source.read(1)

    def long(self, first: bytes = b"") -> int:
        """Read a number; ``first`` is its first byte when that was read already."""
        value = 0
        for i in range(10):
            byte = (first if i == 0 and first else self.take(1))[0]
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise DamagedError("an Avro file has a number that is not readable")

    def sized(self, limit: int) -> bytes:
        """Read a length and as many bytes."""
        size = self.long()
        if not 0 <= size <= limit:
            raise DamagedError(f"an Avro file has a part of {size} bytes")
        return self.take(size)


def count_rows(source: BinaryIO) -> int:
    """Return how many rows the blocks of a file say they have; nothing is unpacked."""
    reader = _Source(source)
    if reader.take(len(MAGIC)) != MAGIC:
        raise DamagedError("this is not an Avro file")
    _read_meta(reader)
    sync = reader.take(_SYNC_BYTES)
    rows = 0
    while first := reader.at_end():
        count = reader.long(first)
        reader.sized(LIMIT_BYTES)
        if reader.take(_SYNC_BYTES) != sync:
            raise DamagedError("an Avro block does not end with the marker of its file")
        if count < 0:
            raise DamagedError(f"an Avro block says it has {count} rows")
        rows += count
    return rows


def iter_columns(source: BinaryIO, *, enhanced: bool = True) -> Iterator[Column]:
    """Yield the rows of a file in pieces of about 1 MiB, or of one block when that is larger."""
    reader = _Source(source)
    if reader.take(len(MAGIC)) != MAGIC:
        raise DamagedError("this is not an Avro file")
    meta = _read_meta(reader)
    sync = reader.take(_SYNC_BYTES)
    codec = meta.get("avro.codec", b"null").decode(errors="replace")
    values = _values(meta.get("avro.schema", b""), enhanced)
    waiting: list[bytes] = []
    rows = 0
    for count, data in _iter_blocks(reader, codec, sync):
        waiting.append(data)
        rows += count
        if sum(map(len, waiting)) >= _PIECE_BYTES or rows >= _PIECE_ROWS:
            yield _decode(values, b"".join(waiting), rows)
            waiting, rows = [], 0
    if rows:
        yield _decode(values, b"".join(waiting), rows)


def _values(text: bytes, enhanced: bool) -> AvroValues | None:
    try:
        schema = from_avro(orjson.loads(text), enhanced=enhanced)
        return None if schema is None else avro_values(text.decode(), schema)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedError(f"an Avro file has a schema that is not readable: {error}") from error


def _read_meta(reader: _Source) -> dict[str, bytes]:
    meta = {}
    while count := reader.long():
        if count < 0:
            count = -count
            reader.long()
        for _ in range(count):
            key = reader.sized(_MAX_HEADER_BYTES).decode(errors="replace")
            meta[key] = reader.sized(_MAX_HEADER_BYTES)
    return meta


def _iter_blocks(reader: _Source, codec: str, sync: bytes) -> Iterator[tuple[int, bytes]]:
    while first := reader.at_end():
        count = reader.long(first)
        data = reader.sized(LIMIT_BYTES)
        if reader.take(_SYNC_BYTES) != sync:
            raise DamagedError("an Avro block does not end with the marker of its file")
        unpacked = decompress(codec, data)
        if not 0 <= count <= max(len(unpacked), _PIECE_ROWS):
            raise DamagedError(f"an Avro block of {len(unpacked)} bytes says it has {count} rows")
        yield count, unpacked


def _decode(values: AvroValues | None, data: bytes, rows: int) -> Column:
    if values is None:
        return Column(None, pa.array(decode_anything(data, rows), pa.binary()))
    starts = np.zeros(rows, dtype=np.int64)
    ends = np.full(rows, len(data), dtype=np.int64)
    try:
        column, end = values.decode(view_bytes(data), starts, ends, chained=True)
    except RecordError as error:
        raise DamagedError(error.message) from error
    if end != len(data):
        raise DamagedError("an Avro block has bytes behind its last row")
    return column
