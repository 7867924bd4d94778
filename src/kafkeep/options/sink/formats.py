"""The options of the formats of objects."""

# ruff: noqa: RUF009  (``option`` makes a dataclass field, also where the type is an enum)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, one_of, option


class FormatKind(StrEnum):
    """The formats of Connect's S3 sink, by their short names."""

    JSON = "json"
    AVRO = "avro"
    PARQUET = "parquet"
    BYTES = "bytes"


class Compression(StrEnum):
    """The compression of a whole json or bytes object."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class DecimalText(StrEnum):
    """The representation of Connect's Decimal in JSON."""

    BASE64 = "BASE64"
    NUMERIC = "NUMERIC"


CLASS_NAMES = {
    "io.confluent.connect.s3.format.json.JsonFormat": FormatKind.JSON,
    "io.confluent.connect.s3.format.avro.AvroFormat": FormatKind.AVRO,
    "io.confluent.connect.s3.format.parquet.ParquetFormat": FormatKind.PARQUET,
    "io.confluent.connect.s3.format.bytearray.ByteArrayFormat": FormatKind.BYTES,
}
PARQUET_CODECS = {
    "none": "",
    "snappy": ".snappy",
    "gzip": ".gz",
    "brotli": ".br",
    "lz4": ".lz4",
    "zstd": ".zstd",
    "lz4_raw": ".lz4raw",
}
"""The values of ``parquet.codec``, and the extension that each adds before ``.parquet``."""

_WHOLE = (FormatKind.JSON, FormatKind.BYTES)
_TRUTH = {"true": True, "false": False, "auto": None}


def _kind(*kinds: FormatKind) -> Callable[[str], FormatKind]:
    def parse(text: str) -> FormatKind:
        name = text.strip()
        kind = CLASS_NAMES.get(name) or next((k for k in FormatKind if k == name.lower()), None)
        if kind is None or kind not in kinds:
            what = "an unknown format" if kind is None else "not supported here"
            raise UsageError(f"{text!r} is {what}: use {', '.join(kinds)} or Connect's class name")
        return kind

    return parse


def _compression(text: str) -> Compression:
    return Compression(one_of("compression", *Compression)(text.strip().lower()))


def _level(text: str) -> int:
    try:
        level = int(text)
    except ValueError:
        level = -2
    if not -1 <= level <= 9:
        raise UsageError(f"the level is {text!r}, but must be a whole number from -1 to 9")
    return level


def _extension(text: str) -> str:
    if "/" in text or "\\" in text or not text.isprintable():
        raise UsageError(
            f"{text!r} is not a valid extension: it has a slash or a control character"
        )
    return text


def _decimal(text: str) -> DecimalText:
    return DecimalText(one_of("decimal format", *DecimalText)(text.strip().upper()))


def _parquet_codec(text: str) -> str:
    name = text.strip().lower()
    if name == "lzo":
        raise UsageError("'lzo' cannot be written: Arrow's Parquet writer lacks it; use zstd")
    return one_of("parquet codec", *PARQUET_CODECS)(name)


def _envelope(text: str) -> bool | None:
    name = text.strip().lower()
    if name not in _TRUTH:
        raise UsageError(f"{text!r} is neither true, false nor auto")
    return _TRUTH[name]


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """The formats of values, keys and headers, each in its own objects."""

    format_class: FormatKind = option(
        "format.class",
        "Format of values: json, avro, parquet, bytes, or Connect's class name.",
        parse=_kind(*FormatKind),
        metavar="FORMAT",
    )
    keys_format_class: FormatKind = option(
        "keys.format.class",
        "Format of keys, if they are stored.",
        default=FormatKind.AVRO,
        parse=_kind(*FormatKind),
        metavar="FORMAT",
    )
    headers_format_class: FormatKind = option(
        "headers.format.class",
        "Format of headers, if they are stored. bytes is not supported.",
        default=FormatKind.AVRO,
        parse=_kind(FormatKind.JSON, FormatKind.AVRO, FormatKind.PARQUET),
        metavar="FORMAT",
    )
    s3_compression_type: Compression = option(
        "s3.compression.type",
        "Compression of json and bytes objects: none, gzip, snappy, lz4, zstd.",
        default=Compression.NONE,
        parse=_compression,
    )
    s3_compression_level: int = option(
        "s3.compression.level",
        "From 0 (gzip: no compression) to 9 (smallest); -1 is a fast default. Not for snappy.",
        default=-1,
        parse=_level,
        metavar="LEVEL",
    )
    format_bytearray_extension: str = option(
        "format.bytearray.extension",
        "Extension of bytes objects, before the extension of the compression.",
        default=".bin",
        parse=_extension,
        metavar="TEXT",
    )
    format_bytearray_separator: str = option(
        "format.bytearray.separator",
        "Written after every record of a bytes object, exactly as given; may be empty.",
        default="\n",
        metavar="TEXT",
    )
    json_decimal_format: DecimalText = option(
        "json.decimal.format",
        "Format of Connect's decimals in JSON: BASE64 of the unscaled number, or NUMERIC.",
        default=DecimalText.BASE64,
        parse=_decimal,
    )
    avro_codec: str = option(
        "avro.codec",
        "Compression inside Avro objects: null, deflate, snappy, bzip2, zstandard. kafkeep.Backup: "
        "deflate unless set.",
        default="null",
        parse=one_of("avro codec", "null", "deflate", "snappy", "bzip2", "zstandard"),
    )
    parquet_codec: str = option(
        "parquet.codec",
        "Compression inside Parquet objects: none, snappy, gzip, brotli, lz4, lz4_raw, zstd. "
        "kafkeep.Backup: zstd unless set.",
        default="snappy",
        parse=_parquet_codec,
    )
    enhanced_avro_schema_support: bool = option(
        "enhanced.avro.schema.support",
        "Keep names of enumerations and packages in Avro schemas.",
        default=True,
    )
    connect_meta_data: bool = option(
        "connect.meta.data", "Keep Connect's own properties in Avro schemas.", default=True
    )
    allow_optional_map_keys: bool = option(
        "allow.optional.map.keys", "Allow optional keys of maps in Avro schemas.", default=False
    )
    store_envelope: bool | None = option(
        "store.envelope",
        "Whether each row holds the whole Kafka record: true, false, or auto.",
        default=None,
        parse=_envelope,
        metavar="true|false|auto",
    )

    def __post_init__(self) -> None:
        if self.headers_format_class is FormatKind.BYTES:
            raise ConfigErrors({"headers.format.class": "headers cannot be stored as bytes"})
        if self.s3_compression_type is Compression.SNAPPY and self.s3_compression_level != -1:
            raise ConfigErrors({"s3.compression.level": "snappy has no levels"})
        self.check_compression()

    def check_compression(self, *, keys: bool = False, headers: bool = False) -> None:
        """Raise ConfigErrors for whole-object compression of formats that compress internally.

        Values are always checked, keys and headers only if they are stored. These options do not
        say whether they are, so the sink calls this again. ConfigErrors names the keys.
        """
        kind = self.s3_compression_type
        if kind is Compression.NONE:
            return
        asked = {
            "format.class": (True, self.format_class),
            "keys.format.class": (keys, self.keys_format_class),
            "headers.format.class": (headers, self.headers_format_class),
        }
        wrong = {
            key: f"s3.compression.type {kind} is for json and bytes, not for {used}"
            for key, (stored, used) in asked.items()
            if stored and used not in _WHOLE
        }
        if wrong:
            raise ConfigErrors(wrong)
