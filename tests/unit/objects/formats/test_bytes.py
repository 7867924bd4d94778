from __future__ import annotations

import gzip
import io
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.golden.cases import GoldenRecord, load_case

from kafkeep.errors import DamagedError, RecordError
from kafkeep.objects.formats import bytes as separated
from kafkeep.objects.formats.bytes import BytesFormat
from kafkeep.objects.formats.open import format_of_extension
from kafkeep.options.option import ConfigErrors, parse_group
from kafkeep.options.sink.formats import Compression, DecimalText, FormatKind, FormatOptions
from kafkeep.records.schema import OPTIONAL_BYTES, Column, Kind, Schema


def options(separator: str = "\n", kind: Compression = Compression.NONE) -> FormatOptions:
    return FormatOptions(
        format_class=FormatKind.BYTES,
        format_bytearray_separator=separator,
        s3_compression_type=kind,
    )


def written(form: BytesFormat, values: list[bytes | None]) -> bytes:
    encoder = form.encoder(OPTIONAL_BYTES)
    return encoder.add(Column(OPTIONAL_BYTES, pa.array(values, pa.binary()))) + encoder.finish()


def read(form: BytesFormat, data: bytes, **how: bool) -> list[bytes]:
    parts = list(form.read(io.BytesIO(data), **how))
    assert all(part.schema == OPTIONAL_BYTES for part in parts)
    return [value for part in parts for value in part.array.to_pylist()]


def records_from(number: str, key: str) -> list[GoldenRecord]:
    """The records of an object's partition, from the offset in its name on."""
    _, partition, rest = key.rpartition("/")[2].rsplit("+", 2)
    start = int(rest.split(".")[0])
    found = [
        record
        for record in load_case(number).records
        if record.partition == int(partition) and record.offset >= start
    ]
    return sorted(found, key=lambda record: record.offset)


@pytest.mark.parametrize("number", ["10", "10d", "11", "12"])
def test_objects_are_what_the_real_sink_wrote_byte_for_byte(number: str) -> None:
    case = load_case(number)
    form = BytesFormat(parse_group(FormatOptions, case.config))
    size = int(case.config["flush.size"])
    assert case.objects
    for key, data in case.objects.items():
        assert key.endswith(form.extension)
        values = [record.value for record in records_from(number, key)[:size]]
        out = written(form, values)
        unpack = gzip.decompress if form.codec == "gzip" else bytes
        assert unpack(out) == unpack(data)


def test_keys_are_what_the_real_sink_wrote_byte_for_byte() -> None:
    case = load_case("19b")
    form = BytesFormat(parse_group(FormatOptions, case.config))
    keys = [key for key in case.objects if key.endswith(".keys.bin")]
    assert keys
    for key in keys:
        records = records_from("19b", key)[: int(case.config["flush.size"])]
        assert written(form, [record.key for record in records]) == case.objects[key]


def test_a_separator_is_taken_as_it_stands() -> None:
    form = BytesFormat(parse_group(FormatOptions, load_case("10d").config))
    assert written(form, [b"a", b"b"]) == b"a\\r\\nb\\r\\n"


@pytest.mark.parametrize("kind", Kind)
def test_what_is_not_bytes_is_refused_in_connects_words(kind: Kind) -> None:
    form, schema = BytesFormat(options()), Schema(kind=kind)
    if kind is Kind.BYTES:
        form.encoder(schema)
        return
    with pytest.raises(
        RecordError, match=f"Invalid schema type for ByteArrayConverter: {kind.name}"
    ):
        form.encoder(schema)


def test_the_refusal_of_strings_is_that_of_the_real_sink() -> None:
    case = load_case("10c")
    with pytest.raises(RecordError) as caught:
        BytesFormat(options()).encoder(Schema(kind=Kind.STRING, optional=True))
    assert case.failure is not None
    assert caught.value.message in case.failure


def test_schemaless_json_is_refused() -> None:
    with pytest.raises(RecordError, match="schemaless"):
        BytesFormat(options()).encoder(None)


def test_a_null_key_is_an_empty_record() -> None:
    assert written(BytesFormat(options()), [b"a", None, b""]) == b"a\n\n\n"


def test_what_lies_under_a_null_is_not_written() -> None:
    parts = (b"\x05", bytes([0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0]), b"asecretb")
    array = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(part) for part in parts])
    encoder = BytesFormat(options()).encoder(OPTIONAL_BYTES)
    assert encoder.add(Column(OPTIONAL_BYTES, array)) == b"a\n\nb\n"


@settings(max_examples=300, deadline=None)
@example(separator="aa", data=b"a", piece=1, kind=Compression.NONE)
@given(
    separator=st.text("ab\r\n", min_size=1, max_size=3),
    data=st.text("ab\r\nx").map(str.encode),
    piece=st.integers(1, 9),
    kind=st.sampled_from([Compression.NONE, Compression.GZIP]),
)
def test_an_object_is_split_as_a_whole_however_it_is_read(
    separator: str, data: bytes, piece: int, kind: Compression
) -> None:
    form = BytesFormat(options(separator, kind))
    expected = data.split(separator.encode())
    if expected[-1] == b"":
        expected.pop()
    stored = gzip.compress(data) if kind is Compression.GZIP else data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(separated, "PIECE_BYTES", piece)
        assert read(form, stored) == expected


@pytest.mark.parametrize("kind", Compression)
def test_records_without_the_separator_in_them_come_back(kind: Compression) -> None:
    values = [bytes([i % 256]).replace(b"|", b"") * (i % 700) for i in range(3000)]
    form = BytesFormat(options("|~|", kind))
    assert read(form, written(form, list(values))) == values


def test_with_an_empty_separator_an_object_is_one_record() -> None:
    form = BytesFormat(options(""))
    assert written(form, [b"\x00pay\nload\n"]) == b"\x00pay\nload\n"
    assert read(form, b"\x00pay\nload\n") == [b"\x00pay\nload\n"]
    assert read(form, b"") == [b""]


def test_an_object_known_to_be_one_record_is_not_split() -> None:
    case = load_case("11")
    form = BytesFormat(parse_group(FormatOptions, case.config))
    for key, data in case.objects.items():
        assert read(form, data, single=True) == [records_from("11", key)[0].value]


@pytest.mark.parametrize("separator", ["|", "||", "ab", "aa", "|~|", "abcdefgh"])
@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 4096])
def test_records_come_apart_alike_however_much_is_read_at_a_time(
    monkeypatch: pytest.MonkeyPatch, separator: str, piece_bytes: int
) -> None:
    chance = random.Random(5)
    letters = [ord(c) for c in separator] + [ord("x"), ord("a")]
    data = bytes(chance.choice(letters) for _ in range(600)) + separator.encode() * 3 + b"end"
    monkeypatch.setattr(separated, "PIECE_BYTES", piece_bytes)
    assert read(BytesFormat(options(separator)), data) == data.split(separator.encode())


def test_a_record_that_never_ends_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separated, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(separated, "PIECE_BYTES", 300)
    form = BytesFormat(options())
    assert read(form, b"x" * 1000 + b"\n") == [b"x" * 1000]
    with pytest.raises(DamagedError, match="not one record"):
        read(form, b"x" * 5000)
    with pytest.raises(DamagedError, match="not one record"):
        read(BytesFormat(options("")), b"x" * 5000)


@pytest.mark.parametrize(
    ("kind", "extension"),
    [
        (Compression.NONE, ".bin"),
        (Compression.GZIP, ".bin.gz"),
        (Compression.ZSTD, ".bin.zst"),
        (Compression.LZ4, ".bin.lz4"),
        (Compression.SNAPPY, ".bin.sz"),
    ],
)
def test_names_end_with_the_extension_and_the_compression(
    kind: Compression, extension: str
) -> None:
    assert BytesFormat(options("", kind)).extension == extension
    assert BytesFormat(options("", kind)).codec == kind


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("t+0+0000000000.json", (FormatKind.JSON, Compression.NONE)),
        ("t+0+0000000000.keys.json.gz", (FormatKind.JSON, Compression.GZIP)),
        ("t+0+0000000000.json.zst", (FormatKind.JSON, Compression.ZSTD)),
        ("t+0+0000000000.headers.json.lz4", (FormatKind.JSON, Compression.LZ4)),
        ("t+0+0000000000.json.sz", (FormatKind.JSON, Compression.SNAPPY)),
        ("t+0+0000000000.bin.zst", (FormatKind.BYTES, Compression.ZSTD)),
        ("t+0+0000000000.avro", (FormatKind.AVRO, Compression.NONE)),
        ("t+0+0000000000.snappy.parquet", (FormatKind.PARQUET, Compression.NONE)),
        ("t+0+0000000000.log.zst", None),
        ("t+0+0000000000.txt", None),
    ],
)
def test_the_name_of_an_object_determines_its_format(name: str, found: Any) -> None:
    assert format_of_extension(name) == found


def test_bytes_objects_are_known_by_the_extension_that_was_set() -> None:
    found = format_of_extension("t+0+1-timestamp.txt.gz", bytes_extension="-timestamp.txt")
    assert found == (FormatKind.BYTES, Compression.GZIP)


def test_options_are_read_from_a_connector_configuration() -> None:
    options = parse_group(
        FormatOptions,
        {
            "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
            "headers.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
            "s3.compression.type": "gzip",
            "s3.compression.level": "-1",
            "json.decimal.format": "numeric",
            "store.envelope": "true",
            "topics": "somebody else's",
        },
    )
    assert options.format_class is FormatKind.BYTES
    assert options.keys_format_class is FormatKind.AVRO
    assert options.headers_format_class is FormatKind.JSON
    assert options.json_decimal_format is DecimalText.NUMERIC
    assert (options.s3_compression_type, options.store_envelope) == (Compression.GZIP, True)
    assert options.format_bytearray_separator == "\n"


@pytest.mark.parametrize(
    ("given", "key", "why"),
    [
        ({}, "format.class", "missing"),
        ({"format.class": "xml"}, "format.class", "format"),
        ({"headers.format.class": "bytes"}, "headers.format.class", "not supported"),
        ({"s3.compression.type": "rar"}, "s3.compression.type", "one of"),
        ({"s3.compression.level": "10"}, "s3.compression.level", "from -1 to 9"),
        (
            {"s3.compression.type": "snappy", "s3.compression.level": "1"},
            "s3.compression.level",
            "no levels",
        ),
        ({"parquet.codec": "lzo"}, "parquet.codec", "'lzo' cannot be written"),
        ({"avro.codec": "xz"}, "avro.codec", "one of"),
        ({"format.bytearray.extension": "/../x"}, "format.bytearray.extension", "slash"),
        ({"store.envelope": "maybe"}, "store.envelope", "neither"),
        ({"format.class": "avro", "s3.compression.type": "zstd"}, "format.class", "not for avro"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    given: dict[str, str], key: str, why: str
) -> None:
    config = {"format.class": "json", **given} if given else given
    with pytest.raises(ConfigErrors) as caught:
        parse_group(FormatOptions, config)
    assert why in caught.value.by_key[key]
    assert list(caught.value.by_key) == [key]


def test_compression_of_stored_keys_and_headers_needs_a_format_that_allows_it() -> None:
    options = parse_group(FormatOptions, {"format.class": "json", "s3.compression.type": "gzip"})
    options.check_compression()
    with pytest.raises(ConfigErrors) as caught:
        options.check_compression(keys=True, headers=True)
    assert list(caught.value.by_key) == ["keys.format.class", "headers.format.class"]
