"""The codecs of Avro's object container files."""

from __future__ import annotations

import bz2
import threading
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import zstandard
from isal import isal_zlib

from kafkeep.errors import DamagedError
from kafkeep.objects.formats.bytes import MAX_RECORD_BYTES

LIMIT_BYTES = MAX_RECORD_BYTES
"""A block that unpacks to more than this is taken for an attack: writers end one after some KiB, or
after its first record."""

LOG_NAMES = {
    "null": "none",
    "deflate": "deflate",
    "snappy": "snappy",
    "bzip2": "bzip2",
    "zstandard": "zstd",
}
"""What each codec is called in the log, by its name in Avro files."""


class _Contexts(threading.local):
    """What zstd keeps between calls: one set per thread, as it cannot be shared."""

    def __init__(self) -> None:
        self.reader = zstandard.ZstdDecompressor()
        self.writer = zstandard.ZstdCompressor(level=3)


_contexts = _Contexts()


def compress(codec: str, data: Any) -> Any:
    """Return one block, bytes-like; the same bytes for the same data."""
    return _WRITERS[codec](data)


def decompress(codec: str, data: bytes) -> bytes:
    """Return what a block holds; DamagedError when it is not of this codec, or too large."""
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
    unpacker = zlib.decompressobj(wbits=-15)
    found = unpacker.decompress(data, LIMIT_BYTES + 1)
    if not unpacker.eof and len(found) <= LIMIT_BYTES:
        raise EOFError("cut short")
    return found


def _read_snappy(data: bytes) -> bytes:
    if len(data) < 5:
        raise EOFError("cut short")
    if cramjam.snappy.decompress_raw_len(data[:-4]) > LIMIT_BYTES:
        raise ValueError("it is too large")
    found = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum does not fit")
    return found


def _read_bzip2(data: bytes) -> bytes:
    unpacker = bz2.BZ2Decompressor()
    found = unpacker.decompress(data, LIMIT_BYTES + 1)
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
