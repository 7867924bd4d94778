"""Converters: which one a configuration names; texts, bytes, numbers, SINETStream."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.converting import assert_covers, binary, columns, one_column
from tests.support.golden.cases import load_case

from kafkeep.errors import RecordError, UsageError
from kafkeep.options.option import ConfigErrors
from kafkeep.options.sink.converter_settings import AvroSettings
from kafkeep.options.sink.converters import (
    ConverterClass,
    is_secret_key,
    known_subkeys,
    parse_class,
    parse_converter,
    unknown_subkeys,
)
from kafkeep.records.converters.converter import Converter
from kafkeep.records.converters.open import open_converter
from kafkeep.records.converters.sinetstream import MESSAGE, SinetStreamConverter, fill_times
from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import OPTIONAL_BYTES, OPTIONAL_STRING


def opened(name: str, **more: str) -> Converter:
    given_keys = {"value.converter": name} | {
        f"value.converter.{key}": text for key, text in more.items()
    }
    options = parse_converter("value", given_keys)
    assert options is not None
    return open_converter("value", options)


def test_every_known_class_is_found_by_its_name_and_by_its_last_part() -> None:
    for kind in ConverterClass:
        assert parse_class(kind.value) is kind
        assert parse_class(kind.value.rpartition(".")[2]) is kind


def test_sinetstreams_class_is_found_in_any_package() -> None:
    assert parse_class("jp.ad.sinet.stream.x.SinetStreamConverter") is ConverterClass.SINETSTREAM


@pytest.mark.parametrize("name", ["com.acme.JsonConverter", "nonsense", ""])
def test_an_unknown_class_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_class(name)

    assert name in refusal.value.message
    assert ConverterClass.AVRO.value in (refusal.value.hint or "")


def test_a_subkey_without_a_meaning_is_refused_by_name_unless_allowed() -> None:
    config = {
        "value.converter": ConverterClass.STRING.value,
        "value.converter.schemas.enable": "false",
    }

    with pytest.raises(ConfigErrors) as refusal:
        parse_converter("value", config)
    allowed = parse_converter("value", config, unknown="allow")

    assert list(refusal.value.by_key) == ["value.converter.schemas.enable"]
    assert unknown_subkeys("value", config) == ("value.converter.schemas.enable",)
    assert allowed is not None and allowed.output == {}
    assert "schemas.enable" in known_subkeys(ConverterClass.JSON)


def test_secrets_stand_apart_from_what_shapes_objects() -> None:
    options = parse_converter(
        "value",
        {
            "value.converter": ConverterClass.AVRO.value,
            "value.converter.schema.registry.url": "http://registry:8081",
            "value.converter.basic.auth.credentials.source": "USER_INFO",
            "value.converter.basic.auth.user.info": "me:hidden",
            "value.converter.enhanced.avro.schema.support": "true",
        },
    )

    assert options is not None
    assert options.output == {"enhanced.avro.schema.support": "true"}
    assert options.place.keys() == {"schema.registry.url", "basic.auth.credentials.source"}
    assert options.secrets == {"basic.auth.user.info": "me:hidden"}
    assert "hidden" not in repr(options) + repr(options.settings(AvroSettings))
    assert is_secret_key("value.converter.basic.auth.user.info")
    assert not is_secret_key("value.converter.schema.registry.url")


def test_a_password_in_an_address_is_a_secret_too() -> None:
    url = "http://me:hidden@registry:8081"
    config = {
        "key.converter": ConverterClass.AVRO.value,
        "key.converter.schema.registry.url": url,
    }

    options = parse_converter("key", config)

    assert options is not None and options.secrets == {"schema.registry.url": url}
    assert "hidden" not in repr(options) + repr(options.settings(AvroSettings))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("schema.registry.url", "registry:8081"),
        ("use.latest.version", "true"),
        ("basic.auth.credentials.source", "SASL_INHERIT"),
        ("basic.auth.credentials.source", "USER_INFO"),
        ("bearer.auth.credentials.source", "STATIC_TOKEN"),
        ("schema.registry.ssl.truststore.type", "JKS"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(key: str, text: str) -> None:
    config = {
        "value.converter": ConverterClass.AVRO.value,
        "value.converter.schema.registry.url": "http://registry:8081",
        f"value.converter.{key}": text,
    }

    with pytest.raises(ConfigErrors) as refusal:
        parse_converter("value", config)

    assert all(name.startswith("value.converter.") for name in refusal.value.by_key)


def test_a_registry_must_be_named() -> None:
    with pytest.raises(ConfigErrors, match=r"value\.converter\.schema\.registry\.url"):
        parse_converter("value", {"value.converter": ConverterClass.PROTOBUF.value})


@pytest.mark.parametrize(
    ("role", "name"),
    [("header", ConverterClass.AVRO), ("value", ConverterClass.SIMPLE_HEADER)],
)
def test_a_converter_of_another_role_is_refused(role: Any, name: ConverterClass) -> None:
    with pytest.raises(ConfigErrors, match=rf"{role}\.converter"):
        parse_converter(role, {f"{role}.converter": name.value})


def test_no_class_is_no_converter() -> None:
    assert parse_converter("header", {}) is None


def test_strings_are_those_of_the_real_sink() -> None:
    case = load_case("09")
    by_offset = {(record.partition, record.offset): record for record in case.records}
    converter, seen = opened(ConverterClass.STRING), 0

    for key in case.objects:
        partition, start = (int(part) for part in key.rpartition(".")[0].split("+")[-2:])
        for i, text in enumerate(case.rows(key).rows):
            column = one_column(converter, by_offset[partition, start + i].value)
            assert column.schema == OPTIONAL_STRING
            assert column.array.to_pylist() == [text]
            seen += 1

    assert seen == 70


def test_strings_of_another_encoding_come_and_go() -> None:
    converter = opened(ConverterClass.STRING, **{"converter.encoding": "ISO-8859-1"})

    column = one_column(converter, b"na\xefve", None)

    assert column.array.to_pylist() == ["naïve", None]
    assert converter.restore(column).to_pylist() == [b"na\xefve", None]


def test_utf16_is_that_of_java() -> None:
    converter = opened(ConverterClass.STRING, **{"converter.encoding": "UTF-16"})
    marked, little = b"\xfe\xff\x00h\xd8=\xde\x00", b"\xff\xfeh\x00"

    column = one_column(converter, marked, marked[2:], little, b"")

    assert column.array.to_pylist() == ["h\U0001f600", "h\U0001f600", "h", ""]
    assert converter.restore(column).to_pylist()[::3] == [marked, b""]


def test_utf32_is_that_of_java() -> None:
    converter = opened(ConverterClass.STRING, **{"converter.encoding": "UTF-32"})
    plain, little = b"\x00\x00\x00h\x00\x01\xf6\x00", b"\xff\xfe\x00\x00h\x00\x00\x00"

    column = one_column(converter, plain, b"\x00\x00\xfe\xff" + plain, little, b"")

    assert column.array.to_pylist() == ["h\U0001f600", "h\U0001f600", "h", ""]
    assert converter.restore(column).to_pylist() == [plain, plain, plain[:4], b""]


@pytest.mark.parametrize("name", ["hex", "rot13", "none-such", "a\0b", ""])
def test_what_is_no_encoding_of_texts_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not an encoding"):
        opened(ConverterClass.STRING, **{"converter.encoding": name})


@given(st.lists(st.none() | st.text().map(str.encode)))
def test_utf8_strings_come_back_as_they_were(values: list[bytes | None]) -> None:
    converter = opened(ConverterClass.STRING)

    for column in columns(converter, *values):
        assert converter.restore(column).to_pylist() == values


@pytest.mark.parametrize("name", [ConverterClass.BYTES, "x.y.AlreadyBytesConverter"])
def test_bytes_stay_as_they_are(name: str) -> None:
    column = one_column(opened(name), b"\xff\x00", None, b"")

    assert column.schema == OPTIONAL_BYTES
    assert opened(name).restore(column).to_pylist() == [b"\xff\x00", None, b""]


@pytest.mark.parametrize(
    ("name", "form", "values"),
    [
        (ConverterClass.LONG, ">q", [-(2**63), 0, 2**63 - 1]),
        (ConverterClass.INTEGER, ">i", [-(2**31), 7]),
        (ConverterClass.SHORT, ">h", [-32768, 7]),
        (ConverterClass.FLOAT, ">f", [1.5, -0.25]),
        (ConverterClass.DOUBLE, ">d", [1.1, -1e300]),
        (ConverterClass.BOOLEAN, ">?", [True, False, True]),
    ],
)
def test_numbers_are_javas_and_come_back(name: str, form: str, values: list[Any]) -> None:
    encoded = [*(struct.pack(form, value) for value in values), None]
    converter = opened(name)

    column = one_column(converter, *encoded)

    assert column.array.to_pylist() == [*values, None]
    assert converter.restore(column).to_pylist() == encoded


def test_a_number_of_another_width_is_an_error_of_its_own() -> None:
    good = struct.pack(">q", 5)

    pieces = list(opened(ConverterClass.LONG).convert(binary(b"abc", good, None, b"", good)))

    assert_covers(pieces, 5)
    assert [isinstance(piece.result, RecordError) for piece in pieces] == [True, False, True, False]


ENVELOPE = bytes.fromhex("c3011f9c0c91eb33664f8096c4c7eb5b126d6573736167652030")
"""A message of SINETStream's own tests: "message 0", sent at 1577804400000."""


def test_sinetstream_envelopes_are_opened_and_closed() -> None:
    newer = b"\xdf\x03\x00\x00\x00\x00" + ENVELOPE
    column = one_column(SinetStreamConverter(), ENVELOPE, newer, None, b"plain", ENVELOPE[:-1])

    assert column.schema == MESSAGE
    assert column.array.to_pylist() == [
        {"tstamp": 1577804400000, "msg": b"message 0"},
        {"tstamp": 1577804400000, "msg": b"message 0"},
        None,
        {"tstamp": None, "msg": b"plain"},
        {"tstamp": None, "msg": ENVELOPE[:-1]},
    ]
    restored = SinetStreamConverter().restore(column).to_pylist()
    assert restored == [ENVELOPE, ENVELOPE, None, b"plain", ENVELOPE[:-1]]


def test_a_message_in_no_envelope_gets_kafkas_time() -> None:
    value = one_column(SinetStreamConverter(), ENVELOPE, b"plain")
    rows = Rows(
        topic="t",
        partition=0,
        offsets=np.array([0, 1]),
        timestamps=np.array([5, 1_700_000_000_123]),
        key=one_column(opened(ConverterClass.BYTES), None, None),
        value=value,
        headers=pa.array([[], []], HEADERS_TYPE),
    )

    times = fill_times(rows).value.array.field("tstamp").to_pylist()

    assert times == [1577804400000, 1_700_000_000_123_000]
