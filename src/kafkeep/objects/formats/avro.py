"""The Avro format: object container files, written and read block by block. Pure.

The bytes of an object depend only on its schema and rows, not on how rows are split over calls: a
block ends after the row that fills it, and the sync marker is a digest of the schema and the first
rows. Only ``flush`` ends a block earlier. The block codecs are at the end of this module.
"""

from __future__ import annotations

import bz2
import hashlib
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import cramjam
import numpy as np
import orjson
import pyarrow as pa
import zstandard
from isal import isal_zlib

from kafkeep.errors import DamagedError, RecordError
from kafkeep.numba_setup import Bytes, Int64s, view_bytes, zigzag_varint
from kafkeep.objects.formats.avro_anything import AnythingRows, decode_anything
from kafkeep.objects.formats.bytes import MAX_RECORD_BYTES
from kafkeep.objects.formats.format import Encoder
from kafkeep.options.sink.formats import FormatOptions
from kafkeep.records.avro.schema import dump_avro, to_avro
from kafkeep.records.avro.schema_reader import from_avro
from kafkeep.records.avro.values import AvroValues, avro_values
from kafkeep.records.schema import Column, Schema

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_PIECE_BYTES = 1 << 20
_PIECE_ROWS = 1 << 20
"""The maximum number of rows in a piece, because rows may take no bytes at all."""
_MAX_HEADER_BYTES = 16 << 20
BLOCK_BYTES = 256 * 1024
"""The size before compression at which a block ends."""
_MARKED_BYTES = 4096
"""The number of bytes of the first block that the sync marker covers."""
LIMIT_BYTES = MAX_RECORD_BYTES
"""The largest valid block after decompression. Writers end a block after some KiB or after one
record, so a larger block is damaged or malicious."""

LOG_NAMES = {
    "null": "none",
    "deflate": "deflate",
    "snappy": "snappy",
    "bzip2": "bzip2",
    "zstandard": "zstd",
}
"""Codec name in Avro files → codec name in the log."""


@dataclass(frozen=True)
class AvroFormat:
    """Avro objects of values, keys or headers. All use the schema of their rows."""

    options: FormatOptions
    view: str = "value"

    @property
    def extension(self) -> str:
        """``.avro`` for every codec, as in Connect."""
        return ".avro"

    @property
    def codec(self) -> str:
        """The name of the codec in the log."""
        return LOG_NAMES[self.options.avro_codec]

    def encoder(self, schema: Schema | None) -> Encoder:
        """Return the encoder of a new object."""
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
        """Read any Avro file with a schema that Connect supports, also of Confluent's sink."""
        return iter_columns(source, enhanced=self.options.enhanced_avro_schema_support)


class _RowsToWrite(Protocol):
    sizes: Int64s

    def write(self, start: int, stop: int, out: Bytes) -> int:
        """Write rows ``[start, stop)`` to the beginning of ``out``."""


class AvroEncoder:
    """Encodes one Avro object. Holds less than one block of encoded rows."""

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
        """Add rows. Return the blocks that are full."""
        if column.schema != self._schema:
            raise RecordError("a row of another schema than its Avro object has")
        if not len(column):
            return b""
        rows: _RowsToWrite = (
            AnythingRows(column.array)
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
        """End and return the open block."""
        if not self._waiting_rows:
            return b""
        data = np.frombuffer(self._waiting, dtype=np.uint8)
        return b"".join(self._block(data, self._waiting_rows))

    def finish(self) -> bytes:
        """Return the rest. An object without rows consists of the header."""
        return self.flush() if self._waiting_rows or self._sync else self._header(b"")

    def _join(self, rows: _RowsToWrite, start: int, stop: int, size: int) -> tuple[Bytes, int]:
        """Return the buffered rows followed by the given rows, and the number of rows."""
        before = len(self._waiting)
        out = np.empty(before + size, dtype=np.uint8)
        out[:before] = np.frombuffer(self._waiting, dtype=np.uint8)
        rows.write(start, stop, out[before:])
        return out, self._waiting_rows + stop - start

    def _block(self, data: Bytes, count: int) -> list[bytes]:
        """Return the pieces of one block. The first block of the file follows the header."""
        self._waiting, self._waiting_rows, self.buffered_bytes = b"", 0, 0
        header = b"" if self._sync else self._header(data[:_MARKED_BYTES].tobytes())
        packed = _compress(self._codec, data.data)
        return [header, zigzag_varint(count), zigzag_varint(len(packed)), packed, self._sync]

    def _header(self, first: bytes) -> bytes:
        meta = {"avro.schema": self._avro.encode(), "avro.codec": self._codec.encode()}
        parts = [MAGIC, zigzag_varint(len(meta))]
        for key, value in meta.items():
            parts += (zigzag_varint(len(key)), key.encode(), zigzag_varint(len(value)), value)
        parts.append(b"\x00")
        digest = hashlib.blake2b(b"".join(parts) + first, digest_size=16)
        self._sync = digest.digest()
        return b"".join(parts) + self._sync


def count_rows(source: BinaryIO) -> int:
    """Return the sum of the row counts in the block headers. Decompress nothing."""
    reader = _Source(source)
    _, sync = _read_header(reader)
    rows = 0
    for count, _ in _iter_packed(reader, sync):
        if count < 0:
            raise DamagedError(f"an Avro block says it has {count} rows")
        rows += count
    return rows


def iter_columns(source: BinaryIO, *, enhanced: bool = True) -> Iterator[Column]:
    """Yield the rows of a file in pieces of about 1 MiB, or of one larger block."""
    reader = _Source(source)
    meta, sync = _read_header(reader)
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


def _read_header(reader: _Source) -> tuple[dict[str, bytes], bytes]:
    """Return the metadata of a file and its sync marker."""
    if reader.take(len(MAGIC)) != MAGIC:
        raise DamagedError("this is not an Avro file")
    meta = {}
    while count := reader.long():
        if count < 0:
            count = -count
            reader.long()
        for _ in range(count):
            key = reader.sized(_MAX_HEADER_BYTES).decode(errors="replace")
            meta[key] = reader.sized(_MAX_HEADER_BYTES)
    return meta, reader.take(_SYNC_BYTES)


def _iter_packed(reader: _Source, sync: bytes) -> Iterator[tuple[int, bytes]]:
    while first := reader.at_end():
        count = reader.long(first)
        data = reader.sized(LIMIT_BYTES)
        if reader.take(_SYNC_BYTES) != sync:
            raise DamagedError("an Avro block does not end with the marker of its file")
        yield count, data


def _iter_blocks(reader: _Source, codec: str, sync: bytes) -> Iterator[tuple[int, bytes]]:
    for count, data in _iter_packed(reader, sync):
        unpacked = _decompress(codec, data)
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


class _Source:
    """Reads exactly the requested number of bytes, from start to end."""

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
        """Return the next byte, or empty bytes at the end."""
        return self._source.read(1)

    def long(self, first: bytes = b"") -> int:
        """Read a number. ``first`` is its first byte if the caller has already read it."""
        value = 0
        for i in range(10):
            byte = (first if i == 0 and first else self.take(1))[0]
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise DamagedError("an Avro file has a number that is not readable")

    def sized(self, limit: int) -> bytes:
        """Read a length, and that many bytes."""
        size = self.long()
        if not 0 <= size <= limit:
            raise DamagedError(f"an Avro file has a part of {size} bytes")
        return self.take(size)


class _Contexts(threading.local):
    """The zstd contexts of a thread. Threads cannot share them."""

    def __init__(self) -> None:
        self.reader = zstandard.ZstdDecompressor()
        self.writer = zstandard.ZstdCompressor(level=3)


_contexts = _Contexts()


def _compress(codec: str, data: Any) -> Any:
    """Compress one block to a bytes-like object. Equal data gives equal bytes."""
    return _WRITERS[codec](data)


def _decompress(codec: str, data: bytes) -> bytes:
    """Decompress a block. Raise DamagedError when it has another codec or is too large."""
    if codec not in _READERS:
        raise DamagedError(f"an Avro file has the codec {codec!r}, which is not known")
    try:
        found = bytes(_READERS[codec](data))
    except (
        zlib.error,
        zstandard.ZstdError,
        cramjam.DecompressionError,
        ValueError,
        OSError,
        EOFError,
    ) as error:
        raise DamagedError(f"an Avro block does not unpack as {codec}: {error}") from error
    if len(found) > LIMIT_BYTES:
        raise DamagedError(f"an Avro block unpacks to more than {LIMIT_BYTES} bytes")
    return found


def _write_deflate(data: Any) -> bytes:
    packer = isal_zlib.compressobj(2, wbits=-15)
    return bytes(packer.compress(data) + packer.flush())


def _write_zstd(data: Any) -> bytes:
    return _contexts.writer.compress(data)


def _write_snappy(data: Any) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")


def _read_deflate(data: bytes) -> bytes:
    return _unpack(zlib.decompressobj(wbits=-15), data)


def _read_snappy(data: bytes) -> bytes:
    if len(data) < 5:
        raise EOFError("cut short")
    if cramjam.snappy.decompress_raw_len(data[:-4]) > LIMIT_BYTES:
        raise ValueError("it is too large")
    found = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum does not match")
    return found


def _read_bzip2(data: bytes) -> bytes:
    return _unpack(bz2.BZ2Decompressor(), data)


def _unpack(unpacker: Any, data: bytes) -> bytes:
    found: bytes = unpacker.decompress(data, LIMIT_BYTES + 1)
    if not unpacker.eof and len(found) <= LIMIT_BYTES:
        raise EOFError("cut short")
    return found


def _read_zstd(data: bytes) -> bytes:
    with _contexts.reader.stream_reader(data, read_across_frames=True) as reader:
        return reader.read(LIMIT_BYTES + 1)


_READERS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": _read_deflate,
    "snappy": _read_snappy,
    "bzip2": _read_bzip2,
    "zstandard": _read_zstd,
}
_WRITERS: dict[str, Callable[[Any], Any]] = {
    "null": lambda data: data,
    "deflate": _write_deflate,
    "snappy": _write_snappy,
    "bzip2": bz2.compress,
    "zstandard": _write_zstd,
}
