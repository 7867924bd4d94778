"""Content as text: decoded, cut, and harmless to look at."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.connect.catalog.messages.show import (
    ContentDecoder,
    Decoding,
    ShownContent,
    hex_dump,
    indent_json,
    is_json,
    visible,
)
from kafkeep.errors import RecordError, TransientError
from kafkeep.options.sink.converter_settings import RegistrySettings
from kafkeep.registry.client import Registry

AVRO = RegisteredSchema("AVRO", '{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}')
SETTINGS = RegistrySettings(urls=("http://user:pw@registry:8081",))


def show(
    data: bytes | None,
    decoding: Decoding = Decoding.AUTO,
    *,
    most: int = 1000,
    size: int | None = None,
    decoder: ContentDecoder | None = None,
) -> ShownContent:
    decoder = decoder or ContentDecoder(list)
    whole = len(data or b"") if size is None else size
    return decoder.show(data, whole, decoding, role="value", most=most)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", "null"),
        (b"", "text", ""),
        (b"hello", "text", "hello"),
        (b'{"a":[1,{}],"b":"x:,y"}', "json", '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": "x:,y"\n}'),
        (b"[1.000000000000000000001]", "json", "[\n  1.000000000000000000001\n]"),
        (b"{broken", "text", "{broken"),
        (b"\xff\xfe", "hex", "00000000  ff fe" + " " * 44 + ".."),
        (b"\x00\x01", "hex", "00000000  00 01" + " " * 44 + ".."),
        ("\u202eevil".encode(), "text", "⟨U+202E⟩evil"),
        (b"<script>", "text", "<script>"),
    ],
)
def test_auto_finds_the_kind(data: bytes | None, kind: str, text: str) -> None:
    found = show(data)
    assert (found.kind, found.text, found.is_cut) == (kind, text, False)


def test_a_decoding_that_does_not_fit_says_why() -> None:
    assert show(b"\xff", Decoding.TEXT).text == "\\xff"
    assert "not UTF-8" in show(b"\xff", Decoding.TEXT).note
    assert show(b"\xff", Decoding.JSON).kind == "hex"
    assert show(b"plain", Decoding.JSON).note == "not a JSON object or array"
    assert show(b"plain", Decoding.AVRO).note == "no schema id in front"
    assert show(b"plain", Decoding.HEX).text.endswith("plain")
    assert "no connector names a schema registry" in show(b"\0\0\0\0\1x", Decoding.AVRO).note


def test_long_content_is_cut_and_what_is_cut_is_not_parsed() -> None:
    found = show(b"x" * 5000)
    assert (len(found.text), found.is_cut) == (1000, True)
    begun = show(b'{"a": ' + b"1" * 100, size=5_000_000)
    assert (begun.kind, begun.is_cut) == ("text", True)
    assert show("é".encode() * 100, most=33, size=10_000).kind == "text"
    assert show(b"\xff\x00" * 100, most=40, size=10_000).kind == "hex"
    assert show(b"\xff" * 100_000, Decoding.HEX).is_cut


@given(st.text())
def test_nothing_invisible_is_left(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert not any(ord(c) < 0x20 and c not in "\t\n" for c in shown)
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff"
    )


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(values) | st.dictionaries(st.text(), values))
def test_indenting_keeps_what_json_says(value: object) -> None:
    text = json.dumps(value)
    assert is_json(text)
    assert json.loads(indent_json(text)) == value
    assert indent_json(indent_json(text)) == indent_json(text)


def test_json_that_is_nested_too_deeply_stays_text() -> None:
    assert show(b"[" * 100_000 + b"]" * 100_000, most=100).kind == "text"
    assert show(b"[" * 100 + b"]" * 100).kind == "text"


def test_a_hex_dump_has_offset_bytes_and_signs() -> None:
    assert hex_dump(bytes(range(0x41, 0x53))).splitlines() == [
        "00000000  41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50  ABCDEFGHIJKLMNOP",
        "00000010  51 52" + " " * 44 + "QR",
    ]


def test_avro_is_decoded_by_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def schema(self: Registry, schema_id: int) -> RegisteredSchema:
        asked.append(schema_id)
        if schema_id != 7:
            raise RecordError(f"schema id {schema_id} is not in the registry")
        return AVRO

    monkeypatch.setattr(Registry, "schema", schema)
    monkeypatch.setattr(Registry, "versions", lambda self, id: {"t-value": 1})
    decoder = ContentDecoder(lambda: [SETTINGS])
    for decoding in (Decoding.AUTO, Decoding.AVRO):
        found = show(b"\0\0\0\0\x07\x54", decoding, decoder=decoder)
        assert (found.kind, found.text, found.note) == ("avro", '{\n  "n": 42\n}', "schema id 7")
    wrong = show(b"\0\0\0\0\x08\x54", decoder=decoder)
    assert (wrong.kind, wrong.note) == ("hex", "schema id 8 is not in the registry")
    damaged = show(b"\0\0\0\0\x07", decoder=decoder)
    assert damaged.kind == "hex"
    assert "Avro schema says" in damaged.note
    assert asked


def test_a_registry_that_is_down_is_not_asked_for_every_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, now = [], [0.0]

    def schema(self: Registry, schema_id: int) -> RegisteredSchema:
        asked.append(schema_id)
        raise TransientError("the schema registry at http://registry:8081 fails: no answer")

    monkeypatch.setattr(Registry, "schema", schema)
    decoder = ContentDecoder(lambda: [SETTINGS], monotonic=lambda: now[0])
    notes = [show(b"\0\0\0\0\x07\x54", decoder=decoder).note for _ in range(5)]
    assert len(asked) == 1
    assert all("registry:8081" in note and "pw" not in note for note in notes)
    now[0] += 60
    show(b"\0\0\0\0\x07\x54", decoder=decoder)
    assert len(asked) == 2
