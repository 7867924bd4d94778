"""Compression of whole objects as a sequence of independent blocks. Pure.

A block is a gzip member, a zstd or lz4 frame, or a snappy stream in the framing format. Standard
tools read the concatenated blocks as one file. No compressor state is held between blocks.
"""

from __future__ import annotations

import io
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import cramjam
import google_crc32c
import lz4.frame
import pyarrow as pa
import zstandard
from isal import isal_zlib

from kafkeep.errors import DamagedError
from kafkeep.options.sink.formats import Compression

BLOCK_BYTES = 1024 * 1024
"""The number of raw bytes in a block. Larger blocks hardly compress better."""
SUFFIXES = {
    Compression.NONE: "",
    Compression.GZIP: ".gz",
    Compression.ZSTD: ".zst",
    Compression.LZ4: ".lz4",
    Compression.SNAPPY: ".sz",
}
"""The file extension of each compression."""

_READ_BYTES = 256 * 1024
_GZIP = 31  # wbits: a member with header and trailer
# zlib's level → isal's level. Level 0 is missing, because isal's level 0 still compresses.
_ISAL_LEVELS = {-1: 1, 1: 1, 2: 2, 3: 3}
_ZSTD_DEFAULT = 3
_SNAPPY_NAME = b"sNaPpY"
_SNAPPY_START = b"\xff\x06\x00\x00" + _SNAPPY_NAME
_SNAPPY_CHUNK_BYTES = 65536


class _Contexts(threading.local):
    """The zstd compressors: one per thread and level, as each takes a megabyte or more."""

    def __init__(self) -> None:
        self.by_level: dict[int, zstandard.ZstdCompressor] = {}

    def writer(self, level: int) -> zstandard.ZstdCompressor:
        if level not in self.by_level:
            made = zstandard.ZstdCompressor(level=level, write_checksum=True)
            self.by_level[level] = made
        return self.by_level[level]


_contexts = _Contexts()


def _write_gzip(data: Any, level: int) -> bytes:
    if level in _ISAL_LEVELS:
        return isal_zlib.compress(data, _ISAL_LEVELS[level], _GZIP)
    return zlib.compress(data, level, _GZIP)


def _write_zstd(data: Any, level: int) -> bytes:
    return _contexts.writer(_ZSTD_DEFAULT if level < 1 else level).compress(data)


def _write_lz4(data: Any, level: int) -> bytes:
    out: bytes = lz4.frame.compress(
        data,
        compression_level=max(level, 0),
        block_size=lz4.frame.BLOCKSIZE_MAX1MB,
        content_checksum=True,
    )
    return out


def _write_snappy(data: Any, level: int) -> bytes:
    return bytes(cramjam.snappy.compress(data)) or _SNAPPY_START


_WRITERS: dict[Compression, Callable[[Any, int], bytes]] = {
    Compression.NONE: lambda data, level: bytes(data),
    Compression.GZIP: _write_gzip,
    Compression.ZSTD: _write_zstd,
    Compression.LZ4: _write_lz4,
    Compression.SNAPPY: _write_snappy,
}


def compress_block(data: Any, kind: Compression, level: int = -1) -> bytes:
    """Compress bytes-like ``data`` into one block. Equal data gives equal bytes.

    Levels are those of gzip, -1 to 9. Other codecs use the same number as their own level. Snappy
    has no levels.
    """
    return _WRITERS[kind](data, level)


class BlockCompressor:
    """Turns raw bytes into complete blocks, for the encoders of JSON and bytes."""

    def __init__(self, kind: Compression, level: int = -1) -> None:
        self._kind = kind
        self._level = level
        self._waiting = bytearray()
        self._begun = False

    @property
    def buffered_bytes(self) -> int:
        """The number of raw bytes not in a block yet. Always less than ``BLOCK_BYTES``."""
        return len(self._waiting)

    def add(self, data: Any) -> bytes:
        """Add bytes-like data. Return the full blocks, which are often empty.

        Without compression it returns ``data`` at once.
        """
        if self._kind is Compression.NONE:
            return bytes(data)
        with memoryview(data) as view:
            return b"".join(self._full_blocks(view))

    def _full_blocks(self, view: memoryview) -> Iterator[bytes]:
        at = 0
        if self._waiting:
            at = min(BLOCK_BYTES - len(self._waiting), len(view))
            self._waiting += view[:at]
            if len(self._waiting) == BLOCK_BYTES:
                yield self.flush()
        while len(view) - at >= BLOCK_BYTES:
            yield self._block(view[at : at + BLOCK_BYTES])
            at += BLOCK_BYTES
        self._waiting += view[at:]

    def flush(self) -> bytes:
        """Return the buffered bytes as a block of any size."""
        if not self._waiting:
            return b""
        block = self._block(self._waiting)
        self._waiting = bytearray()
        return block

    def finish(self) -> bytes:
        """Return the rest. An empty object is one empty block, which standard tools accept."""
        return self.flush() if self._begun or self._waiting else self._block(b"")

    def _block(self, data: Any) -> bytes:
        self._begun = True
        return compress_block(data, self._kind, self._level)


def _read_gzip(source: BinaryIO) -> Iterator[bytes]:
    data = source.read(_READ_BYTES)
    while True:
        member = isal_zlib.decompressobj(_GZIP)
        while not member.eof:
            got = member.decompress(data, BLOCK_BYTES)
            data = member.unconsumed_tail
            yield got
            if not member.eof and not data:
                data = source.read(_READ_BYTES)
                if not data and not got:
                    raise EOFError("it is cut short")
        data = member.unused_data or source.read(_READ_BYTES)
        if not data:
            return


def _read_with_arrow(source: BinaryIO, codec: str) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), codec)
    while piece := stream.read(_READ_BYTES):
        yield piece


def _exactly(source: BinaryIO, size: int) -> bytes:
    parts = []
    while size and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    if size:
        raise EOFError("it is cut short")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_piece(body: bytes, packed: bool) -> bytes:
    data = body[4:]
    if packed:
        if cramjam.snappy.decompress_raw_len(data) > _SNAPPY_CHUNK_BYTES:
            raise ValueError("a chunk is larger than its format allows")
        data = bytes(cramjam.snappy.decompress_raw(data))
    crc = google_crc32c.value(data)
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != int.from_bytes(body[:4], "little"):
        raise ValueError("a checksum does not fit")
    return data


def _read_snappy(source: BinaryIO) -> Iterator[bytes]:
    begun = False
    while head := source.read(1):
        kind = head[0]
        body = _exactly(source, int.from_bytes(_exactly(source, 3), "little"))
        if kind == 0xFF and body == _SNAPPY_NAME:
            begun = True
        elif not begun or kind == 0xFF or 2 <= kind < 0x80:
            raise ValueError("it is not in snappy's framing format")
        elif kind < 2:
            yield _snappy_piece(body, kind == 0)


_READERS: dict[Compression, Callable[[BinaryIO], Iterator[bytes]]] = {
    Compression.GZIP: _read_gzip,
    Compression.ZSTD: lambda source: _read_with_arrow(source, "zstd"),
    Compression.LZ4: lambda source: _read_with_arrow(source, "lz4"),
    Compression.SNAPPY: _read_snappy,
}


_TROUBLE: tuple[type[Exception], ...] = (
    isal_zlib.error,  # type: ignore[assignment]  # its stub says it is an instance
    pa.ArrowException,
    cramjam.DecompressionError,
    OSError,
    EOFError,
    ValueError,
)


class _Source:
    """Wraps the source, to distinguish its errors from those of the codec."""

    closed = False

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.empty = True
        self.failure: BaseException | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._source.read(size)
        except BaseException as error:
            self.failure = error
            raise
        self.empty = self.empty and not data
        return data

    def close(self) -> None:
        """Do nothing: Arrow closes its input, but the caller owns the source."""


class _Plain(io.RawIOBase):
    """Decompresses on demand."""

    def __init__(self, source: BinaryIO, kind: Compression) -> None:
        self._kind = kind
        self._source = _Source(source)
        self._pieces = _READERS[kind](self._source)  # type: ignore[arg-type]
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            try:
                self._rest = memoryview(next(self._pieces))
            except StopIteration:
                if self._source.empty:
                    raise self._damaged("it is empty") from None
                return 0
            except _TROUBLE as error:
                if self._source.failure is not None:
                    raise self._source.failure from None
                raise self._damaged(error) from error
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def _damaged(self, why: object) -> DamagedError:
        return DamagedError(f"an object does not unpack as {self._kind}: {why}")


def open_decompressed(source: BinaryIO, kind: Compression) -> BinaryIO:
    """Return a file that decompresses ``source`` from start to end, in little memory.

    It reads any number of blocks, also from other writers. Its reads raise DamagedError when the
    data has another compression or is cut short. ``source`` stays open.
    """
    if kind is Compression.NONE:
        return source
    return io.BufferedReader(_Plain(source, kind), _READ_BYTES)
