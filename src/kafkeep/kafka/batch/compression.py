"""The codecs of record batches: decompression within a limit, and compression."""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import cramjam
import lz4.frame
import zstandard

from kafkeep.errors import DamagedError

DEFAULT_LIMIT_BYTES = 1 << 30
"""A batch that decompresses to more is refused; brokers allow 1 MB batches by default."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_GZIP_LEVEL = 4
_LZ4_MAX_RATIO = 256


class _Contexts(threading.local):
    """The contexts of zstd: one set per thread, because they are not thread-safe."""

    def __init__(self) -> None:
        self.reader = zstandard.ZstdDecompressor()
        self.writer = zstandard.ZstdCompressor(level=3)


_contexts = _Contexts()


class Codec(IntEnum):
    """The compression codec of a batch, numbered as in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class _TooLargeError(Exception):
    """The output would be larger than the limit."""


def decompress(codec: int, data: Any, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Any:
    """Return the decompressed ``data``, bytes-like.

    Memory use is bounded by about ``limit_bytes``: decompression stops at the limit. DamagedError
    beyond the limit, and when ``data`` is not of this codec.
    """
    try:
        return _READERS[codec](data, limit_bytes)
    except _TooLargeError:
        raise DamagedError(
            f"a {Codec(codec).name.lower()} batch decompresses to more than {limit_bytes} bytes"
        ) from None
    except (
        zlib.error,
        zstandard.ZstdError,
        cramjam.DecompressionError,
        RuntimeError,
        ValueError,
        EOFError,
        struct.error,
    ) as error:
        raise DamagedError(
            f"a batch cannot be decompressed as {Codec(codec).name.lower()}: {error}"
        ) from error


def compress(codec: int, data: Any) -> Any:
    """Return ``data`` compressed, bytes-like, readable by the Java client and librdkafka."""
    return _WRITERS[codec](data)


def _read_gzip(data: Any, limit: int) -> bytes:
    parts: list[bytes] = []
    room = limit
    rest = bytes(data)
    while rest:  # a gzip file may have several members
        member = zlib.decompressobj(wbits=31)
        part = member.decompress(rest, room + 1)
        if len(part) > room:
            raise _TooLargeError
        if not member.eof:
            raise EOFError("cut short")
        parts.append(part)
        room -= len(part)
        rest = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_raw_snappy(data: Any, limit: int) -> Any:
    if cramjam.snappy.decompress_raw_len(data) > limit:
        raise _TooLargeError
    return cramjam.snappy.decompress_raw(data)


def _read_snappy(data: Any, limit: int) -> Any:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _read_raw_snappy(view, limit)
    parts = []
    room, at = limit, len(_XERIAL_HEADER)
    while at < len(view):
        (size,) = struct.unpack_from(">i", view, at)
        if size < 0 or at + 4 + size > len(view):
            raise EOFError("cut short")
        part = _read_raw_snappy(view[at + 4 : at + 4 + size], room)
        parts.append(part)
        room -= len(part)
        at += 4 + size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_lz4(data: Any, limit: int) -> bytes:
    head = bytes(data[:14])
    if len(head) == 14 and head[4] & 0x08 and int.from_bytes(head[6:], "little") > limit:
        raise _TooLargeError  # the size in the frame header would be allocated at once
    if len(data) * _LZ4_MAX_RATIO <= limit:  # within the limit in any case, and 20 times faster
        whole: bytes = lz4.frame.decompress(data)
        return whole
    frame = lz4.frame.LZ4FrameDecompressor()
    out: bytes = frame.decompress(data, max_length=limit + 1)
    if len(out) > limit:
        raise _TooLargeError
    if not frame.eof:
        raise EOFError("cut short")
    return out


def _read_zstd(data: Any, limit: int) -> Any:
    size = zstandard.frame_content_size(data)
    if size > limit:
        raise _TooLargeError
    # Producers stream, so most of their frames do not state the decompressed size.
    guess = min(size + 1, 256 * len(data)) if size >= 0 else 6 * len(data)
    out = bytearray(min(limit + 1, max(4096, guess)))
    filled = 0
    with _contexts.reader.stream_reader(data, read_across_frames=True) as reader:
        while got := reader.readinto(memoryview(out)[filled:]):
            filled += got
            if filled > limit:
                raise _TooLargeError
            if filled == len(out):
                out.extend(bytes(min(len(out), limit + 1 - filled)))
    whole = memoryview(out)[:filled]
    return (
        whole if 2 * filled >= len(out) else bytes(whole)
    )  # do not keep a large buffer for small data


def _write_gzip(data: Any) -> bytes:
    member = zlib.compressobj(_GZIP_LEVEL, wbits=31)
    return member.compress(data) + member.flush()


def _write_snappy(data: Any) -> bytes:
    view = memoryview(data)
    parts: list[Any] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES])
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _write_lz4(data: Any) -> bytes:
    # The Java client refuses frames with linked blocks.
    out: bytes = lz4.frame.compress(data, block_linked=False, store_size=False)
    return out


def _write_zstd(data: Any) -> bytes:
    return _contexts.writer.compress(data)


_READERS: dict[int, Callable[[Any, int], Any]] = {
    Codec.NONE: lambda data, limit: data,
    Codec.GZIP: _read_gzip,
    Codec.SNAPPY: _read_snappy,
    Codec.LZ4: _read_lz4,
    Codec.ZSTD: _read_zstd,
}
_WRITERS: dict[int, Callable[[Any], Any]] = {
    Codec.NONE: lambda data: data,
    Codec.GZIP: _write_gzip,
    Codec.SNAPPY: _write_snappy,
    Codec.LZ4: _write_lz4,
    Codec.ZSTD: _write_zstd,
}
