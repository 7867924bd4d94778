"""How many rows an object has, found without decoding them and in little memory."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from kafkeep.config.formats import FormatKind, FormatOptions
from kafkeep.errors import DamagedError
from kafkeep.formats.compress import open_decompressed

_READ_BYTES = 1 << 20
_MOST_IN_FILE = 2**31 - 1
"""The largest ``flush.size``: no file has more rows, even if they take no bytes at all."""


def most_rows(source: BinaryIO, options: FormatOptions) -> tuple[int, bool]:
    """Return how many rows an object has, and whether they are no fewer.

    Bytes may hold their separator, and where it is empty, an empty value takes no room: of them
    only the largest number possible is known.
    DamagedError when the object is not of its format as far as it is looked at.
    """
    match options.format_class:
        case FormatKind.JSON:
            return _count_lines(open_decompressed(source, options.s3_compression_type)), True
        case FormatKind.BYTES:
            size = _count_bytes(open_decompressed(source, options.s3_compression_type))
            return max(size + 1, _MOST_IN_FILE), False
        case FormatKind.AVRO:
            from kafkeep.formats.avro_read import count_rows  # noqa: PLC0415 - loads the library

            return count_rows(source), True
        case FormatKind.PARQUET:
            return _count_parquet(source), True


def _count_lines(plain: BinaryIO) -> int:
    lines, last = 0, b"\n"
    while piece := plain.read(_READ_BYTES):
        lines += piece.count(b"\n")
        last = piece[-1:]
    return lines + (last != b"\n")


def _count_bytes(plain: BinaryIO) -> int:
    size = 0
    while piece := plain.read(_READ_BYTES):
        size += len(piece)
    return size


def _count_parquet(source: BinaryIO) -> int:
    try:
        return int(pq.read_metadata(source).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(f"a Parquet file is not readable: {error}") from error
