"""JSON objects as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.records.json.edit import (
    JsonMember,
    decode_string,
    encode_string,
    find_member,
    join_object,
    kind_of,
    set_member,
    split_object,
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=6)
STYLES = st.sampled_from([(",", ":"), (", ", ": "), (" , ", "\t:  ")])


@settings(max_examples=40, deadline=None)
@given(OBJECTS, STYLES, st.booleans())
def test_an_object_taken_apart_and_joined_is_the_same(
    value: dict[str, Any], style: tuple[str, str], ascii_only: bool
) -> None:
    text = json.dumps(value, separators=style, ensure_ascii=ascii_only).encode()
    members = split_object(b" " + text + b" ")
    assert [(m.name, json.loads(m.value)) for m in members] == list(value.items())
    assert json.loads(join_object(members)) == value


@settings(max_examples=40, deadline=None)
@given(OBJECTS, st.text(), JSON)
def test_set_member_changes_that_member_alone(value: dict[str, Any], name: str, new: Any) -> None:
    members = split_object(json.dumps(value).encode())
    changed = set_member(members, name, json.dumps(new).encode())
    assert json.loads(join_object(changed)) == {**value, name: new}
    others = [member for member in members if member.name != name]
    assert [member for member in changed if member.name != name] == others


@settings(max_examples=40, deadline=None)
@given(st.text())
def test_strings_come_back(text: str) -> None:
    assert decode_string(encode_string(text)) == text


def test_numbers_escapes_and_blanks_keep_their_bytes() -> None:
    text = rb'{"a": 1.50, "b":1e400,  "c\u0041" : "\/\ud83d", "d": [1, {"x": "}\"]"}]}'
    assert join_object(split_object(text)) == text
    assert find_member(split_object(text), "cA") == rb'"\/\ud83d"'


def test_of_repeated_members_the_last_counts_and_one_remains_when_set() -> None:
    members = split_object(b'{"a":1,"b":2,"a":3}')
    assert find_member(members, "a") == b"3"
    assert join_object(set_member(members, "a", b"0")) == b'{"b":2,"a":0}'


@pytest.mark.parametrize("text", [b"[]", b'"{}"', b"5", b"null", b""])
def test_what_is_no_object_is_not_taken_apart(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        split_object(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b" {}", "object"),
        (b"[1.5]", "array"),
        (b'"1.5"', "string"),
        (b"true", "boolean"),
        (b"null ", "null"),
        (b"-12", "integer"),
        (b"1E5", "float"),
        (b"-0.5", "float"),
    ],
)
def test_kind_of(text: bytes, kind: str) -> None:
    assert kind_of(text) == kind


def test_an_empty_object_takes_a_member() -> None:
    assert split_object(b" { } ") == []
    assert join_object([JsonMember(b'"a"', b"1")]) == b'{"a":1}'
