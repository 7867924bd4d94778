"""Open a format by the options of a writer, or recognise it by an object's name; count rows.

Rows are counted without decoding them, in little memory.
"""

from __future__ import annotations

from typing import BinaryIO, Literal, assert_never

import pyarrow as pa
import pyarrow.parquet as pq

from kafkeep.errors import DamagedError
from kafkeep.objects.formats.bytes import BytesFormat
from kafkeep.objects.formats.compress import SUFFIXES, open_decompressed
from kafkeep.objects.formats.format import Format
from kafkeep.objects.formats.json import JsonFormat
from kafkeep.options.sink.formats import PARQUET_CODECS, Compression, FormatKind, FormatOptions

View = Literal["value", "keys", "headers"]
"""Which part of a record an object holds."""


def open_format(kind: FormatKind, options: FormatOptions, *, view: View = "value") -> Format:
    """Return the format of that kind; Avro and Parquet name and wrap what they hold by ``view``."""
    match kind:
        case FormatKind.JSON:
            return JsonFormat(options)
        case FormatKind.BYTES:
            return BytesFormat(options)
        case FormatKind.AVRO:
            # Imported here: a task that writes JSON does not load the kernels of Avro.
            from kafkeep.objects.formats.avro import AvroFormat  # noqa: PLC0415

            return AvroFormat(options, view=view)
        case FormatKind.PARQUET:
            from kafkeep.objects.formats.parquet import ParquetFormat  # noqa: PLC0415

            return ParquetFormat(options, view=view)
        case _:
            assert_never(kind)


def format_of_extension(
    name: str, *, bytes_extension: str = ".bin"
) -> tuple[FormatKind, Compression] | None:
    """Tell what an object's name says of its content, or None when it is none of the formats.

    The compression is that of the object as a whole: Avro and Parquet compress inside.
    """
    for compression, suffix in SUFFIXES.items():
        if bytes_extension and name.endswith(bytes_extension + suffix):
            return FormatKind.BYTES, compression
    for compression, suffix in SUFFIXES.items():
        if name.endswith(".json" + suffix):
            return FormatKind.JSON, compression
    if name.endswith(".avro"):
        return FormatKind.AVRO, Compression.NONE
    if name.endswith(tuple(f"{codec}.parquet" for codec in PARQUET_CODECS.values())):
        return FormatKind.PARQUET, Compression.NONE
    return None


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
            from kafkeep.objects.formats.avro import count_rows  # noqa: PLC0415

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
