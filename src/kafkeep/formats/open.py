"""Which format: by the options of a writer, or by the name of an object that is there."""

from __future__ import annotations

from typing import Literal, assert_never

from kafkeep.config.formats import PARQUET_CODECS, Compression, FormatKind, FormatOptions
from kafkeep.formats.bytes import BytesFormat
from kafkeep.formats.compress import SUFFIXES
from kafkeep.formats.format import Format
from kafkeep.formats.json import JsonFormat

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
            # Here, so that a task that writes JSON does not load the Avro library.
            from kafkeep.formats.avro import AvroFormat  # noqa: PLC0415

            return AvroFormat(options, view=view)
        case FormatKind.PARQUET:
            from kafkeep.formats.parquet import ParquetFormat  # noqa: PLC0415

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
