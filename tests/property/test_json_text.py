"""JSON texts: what is taken and refused, and where fields are found, beside Python's own json."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.records.json.text import check_texts, field_texts, join_with

KEYS = st.sampled_from(["a", "b", "é", 'q"\\', "", "\u2028", "😀", "a\n"]) | st.text(max_size=5)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=60)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
ODD_BYTES = st.sampled_from(
    [bytes([i]) for i in b'{}[]:,"\\/ \t\n\r0123456789.-+eEutrfalsn\x00\x1f\x7f']
    + [
        b"\xff",
        b"\xc0\xaf",
        b"\xc3",
        b"\xa9",
        b"\xed\xa0\x80",
        b"\xe2\x80\xa8",
        b"\xf0\x9f\x98\x80",
    ]
    + [
        b"\xf4\x90\x80\x80",
        b"\xe0\x80\xaf",
        b"NaN",
        b"Infinity",
        b"null",
        b"\\ud83d",
        b"\xef\xbb\xbf",
    ]
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    text = json.dumps(
        draw(VALUES),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, None, 1])),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")])),
    )
    space = st.sampled_from(["", "", " ", "\n", "\r\n\t"])
    return (draw(space) + text + draw(space)).encode("utf-8", "surrogatepass")


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    text = draw(documents())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 3))
        text = text[:at] + draw(ODD_BYTES | st.just(b"")) + text[at + cut :]
    return text


def refuse(name: str) -> Any:
    raise ValueError(name)


def is_json(text: bytes) -> bool:
    try:
        json.loads(text.decode("utf-8"), parse_constant=refuse, parse_int=str, parse_float=str)
    except ValueError:
        return False
    return True


def as_array(rows: list[bytes | None], slack: int) -> pa.Array:
    """Return rows as a slice from the middle of a longer array."""
    around: list[bytes | None] = [b'"' * 3] * slack
    return pa.array([*around, *rows, *around], pa.binary()).slice(slack, len(rows))


@settings(max_examples=250, deadline=None)
@given(st.lists(st.none() | mutated(), max_size=6), st.integers(0, 9))
def test_exactly_the_documents_python_reads_are_good(rows: list[bytes | None], slack: int) -> None:
    checked = check_texts(as_array(rows, slack))
    expected = [i for i, row in enumerate(rows) if row is not None and not is_json(row)]
    assert checked.bad.tolist() == expected
    for row in expected:
        assert "at byte" in checked.why(row)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.none() | documents(), max_size=6), st.integers(0, 9))
def test_good_documents_lose_their_line_breaks_and_nothing_else(
    rows: list[bytes | None], slack: int
) -> None:
    texts = check_texts(as_array(rows, slack)).texts
    texts.validate(full=True)
    for row, text in zip(rows, texts.to_pylist(), strict=True):
        if row is None:
            assert text is None
        elif is_json(row):
            assert text == row.replace(b"\n", b"").replace(b"\r", b"")


@settings(max_examples=120, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 9))
def test_no_bytes_at_all_get_it_wrong(noise: bytes, slack: int) -> None:
    assert (len(check_texts(as_array([noise], slack)).bad) == 0) == is_json(noise)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.none() | documents().filter(is_json), max_size=5),
    st.lists(KEYS, max_size=3),
    st.integers(0, 9),
)
def test_fields_are_those_python_finds(
    rows: list[bytes | None], path: list[str], slack: int
) -> None:
    found = field_texts(as_array(rows, slack), path).to_pylist()
    for row, text in zip(rows, found, strict=True):
        value: Any = None if row is None else json.loads(row)
        there = row is not None
        for key in path:
            there = there and isinstance(value, dict) and key in value
            value = value[key] if there else None
        assert (text is not None) == there
        if text is not None:
            assert json.loads(text) == value
            assert text == text.strip()


@settings(max_examples=80, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=40)), st.binary(max_size=4), st.integers(0, 9))
def test_joined_values_are_all_there_in_order(
    rows: list[bytes | None], separator: bytes, slack: int
) -> None:
    joined = bytes(join_with(as_array(rows, slack), separator))
    assert joined == b"".join(row + separator for row in rows if row is not None)
