"""Texts in paths: no two alike, none leaves its directory, and all can be read back."""

from __future__ import annotations

import posixpath
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.partition_rows import make_rows, struct_column

from kafkeep.options.sink.partitioners import PartitionOptions
from kafkeep.records.partitioners.field_values import MAX_BYTES, encode_part, name_part
from kafkeep.records.partitioners.partitioners import open_partitioner
from kafkeep.records.schema import Field, Kind, Schema

QUICK = settings(max_examples=150, deadline=None)
NASTY = st.text(
    st.sampled_from("ab/\\.%=0126EFenultmpy~ \x00\x1f\x7f\x85\ufffe\uffffü😀"), max_size=12
)
TEXTS = st.one_of(NASTY, st.text(max_size=300), NASTY.map(lambda text: text * 60))
PAIR = Schema(
    kind=Kind.STRUCT,
    fields=tuple(Field(n, Schema(kind=Kind.STRING, optional=True)) for n in ("a", "b")),
)


def is_safe(part: str) -> bool:
    """Whether a part is one part of a path, whatever stands around it."""
    return (
        part not in ("", ".", "..")
        and not any(letter in "/\\\ufffe\uffff" or ord(letter) < 32 for letter in part)
        and not any(127 <= ord(letter) < 160 for letter in part)
    )


def decode_part(part: str) -> str:
    """Return the text that ``encode_part`` was given, unless it was cut."""
    if part == "%empty":
        return ""
    escapes = re.compile(r"((?:%[0-9A-F]{2})+)")
    return escapes.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode(), part)


@QUICK
@given(TEXTS)
@example("null")
@example("")
@example("..")
@example("%empty")
@example("%6Eull")
@example("a%~0123")
@example("x" * 201)
def test_a_part_is_safe_short_and_can_be_read_back(text: str) -> None:
    part = encode_part(text)
    assert is_safe(part)
    assert part != "null"
    assert len(part.encode()) <= MAX_BYTES
    if "%~" not in part:
        assert decode_part(part) == text
    else:
        assert len(encode_part(text, max_bytes=10**6).encode()) > MAX_BYTES


@QUICK
@given(st.lists(TEXTS, min_size=2, max_size=20, unique=True), st.sampled_from([64, 120, MAX_BYTES]))
def test_different_texts_give_different_parts_whatever_room_they_have(
    texts: list[str], room: int
) -> None:
    parts = {encode_part(text, max_bytes=room if i % 2 else 200) for i, text in enumerate(texts)}
    assert len(parts) == len(texts)


@QUICK
@given(TEXTS, TEXTS)
def test_texts_that_differ_in_their_end_only_differ_when_cut(start: str, end: str) -> None:
    long = "ü/" * 100 + start
    assert (encode_part(long) == encode_part(long + end)) == (end == "")


@QUICK
@given(st.lists(st.tuples(*[st.none() | TEXTS] * 2), min_size=1, max_size=8))
def test_directories_stay_under_their_prefix_and_never_meet(
    values: list[tuple[str | None, str | None]],
) -> None:
    rows = make_rows(struct_column(PAIR, [{"a": a, "b": b} for a, b in values]))
    options = PartitionOptions(partitioner_class="field", partition_field_name=("a", "b"))
    placed = open_partitioner(options).place(rows, at_ms=0)
    found = {}
    for value, code in zip(values, placed.codes.tolist(), strict=True):
        path = placed.paths[code]
        assert posixpath.normpath(f"top/{path}") == f"top/{path}"
        assert [part[:2] for part in path.split("/")] == ["a=", "b="]
        assert found.setdefault(path, value) == value
    assert len(found) == len(set(values)) == len(placed.paths)


@QUICK
@given(st.text(min_size=1, max_size=20), st.none() | TEXTS)
def test_a_label_cannot_change_the_path_either(label: str, text: str | None) -> None:
    part = name_part(label, text, raw=False)
    assert is_safe(part)
    name, _, value = part.partition("=")
    assert decode_part(name) == label
    assert (value == "null") == (text is None)
