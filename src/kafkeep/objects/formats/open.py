"""Open a format by its options, detect it by an object's name, and count rows. Pure.

Counting does not decode rows, and needs little memory.
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
"""The part of a record that an object holds."""


def open_format(kind: FormatKind, options: FormatOptions, *, view: View = "value") -> Format:
    """Return the format of that kind. ``view`` sets the schema names in Avro and Parquet."""
    match kind:
        case FormatKind.JSON:
            return JsonFormat(options)
        case FormatKind.BYTES:
            return BytesFormat(options)
        case FormatKind.AVRO:
            # Imported here so that a task that writes JSON does not load the Avro kernels.
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
    """Return the format and compression that a name implies, or None for an unknown extension.

    The compression is that of the whole object. Avro and Parquet compress internally, so theirs is
    NONE.
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
"""The largest ``flush.size``. No file has more rows, even if all rows are empty."""


def most_rows(source: BinaryIO, options: FormatOptions) -> tuple[int, bool]:
    """Return the maximum number of rows of an object, and whether this number is exact.

    For bytes objects it is only an upper bound: a value may contain the separator, and an empty
    value with an empty separator takes no space. Raise DamagedError when the object is not of its
    format. Only the parts needed for counting are checked.
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
