"""The options that say how records become the bytes of an object."""

# ruff: noqa: RUF009  (``option`` makes a dataclass field, also where the type is an enum)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, one_of, option


class FormatKind(StrEnum):
    """The formats Connect's S3 sink has, by their short names."""

    JSON = "json"
    AVRO = "avro"
    PARQUET = "parquet"
    BYTES = "bytes"


class Compression(StrEnum):
    """How a text or bytes object is compressed as a whole."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class DecimalText(StrEnum):
    """How Connect's Decimal stands in JSON."""

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
"""What ``parquet.codec`` may be, and what it puts in front of ``.parquet``."""

_WHOLE = (FormatKind.JSON, FormatKind.BYTES)
_TRUTH = {"true": True, "false": False, "auto": None}


def _kind(*kinds: FormatKind) -> Callable[[str], FormatKind]:
    def parse(text: str) -> FormatKind:
        name = text.strip()
        kind = CLASS_NAMES.get(name) or next((k for k in FormatKind if k == name.lower()), None)
        if kind is None or kind not in kinds:
            what = "no format kafkeep knows" if kind is None else "not possible here"
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
        raise UsageError(f"{text!r} has a slash or a control character in it: it ends a file name")
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
    """How values, keys and headers are written, each in objects of their own."""

    format_class: FormatKind = option(
        "format.class",
        "How values are written: json, avro, parquet, bytes, or Connect's class name.",
        parse=_kind(*FormatKind),
        metavar="FORMAT",
    )
    keys_format_class: FormatKind = option(
        "keys.format.class",
        "How keys are written when they are stored.",
        default=FormatKind.AVRO,
        parse=_kind(*FormatKind),
        metavar="FORMAT",
    )
    headers_format_class: FormatKind = option(
        "headers.format.class",
        "How headers are written when they are stored; they have no form as plain bytes.",
        default=FormatKind.AVRO,
        parse=_kind(FormatKind.JSON, FormatKind.AVRO, FormatKind.PARQUET),
        metavar="FORMAT",
    )
    s3_compression_type: Compression = option(
        "s3.compression.type",
        "How json and bytes objects are compressed: none, gzip, snappy, lz4, zstd.",
        default=Compression.NONE,
        parse=_compression,
    )
    s3_compression_level: int = option(
        "s3.compression.level",
        "From 0 (gzip: stored as it is) to 9 (smallest); -1 is a fast middle. Not for snappy.",
        default=-1,
        parse=_level,
        metavar="LEVEL",
    )
    format_bytearray_extension: str = option(
        "format.bytearray.extension",
        "How names of bytes objects end, before what compression adds.",
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
        "Connect's decimals in JSON: BASE64 of the unscaled number, or NUMERIC.",
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
        "allow.optional.map.keys", "Let keys of maps be optional in Avro schemas.", default=False
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
            raise ConfigErrors({"headers.format.class": "headers have no form as plain bytes"})
        if self.s3_compression_type is Compression.SNAPPY and self.s3_compression_level != -1:
            raise ConfigErrors({"s3.compression.level": "snappy has no levels"})
        self.check_compression()

    def check_compression(self, *, keys: bool = False, headers: bool = False) -> None:
        """Refuse whole-object compression of formats that compress inside.

        Of values always; of keys and headers when they are stored, which is not known here: so
        whoever knows calls this again. ConfigErrors names the keys.
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
