from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.objects.formats.parquet_footer import (
    ThriftValue,
    i32,
    listed,
    read_struct,
    split_list,
    split_struct,
    struct,
    text,
)


class Reader:
    """Thrift's compact protocol, read by its specification."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        found, shift = 0, 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def value(self, kind: int) -> Any:
        if kind in {5, 6}:
            raw = self.varint()
            return (raw >> 1) ^ -(raw & 1)
        if kind == 8:
            size = self.varint()
            self.at += size
            return self.data[self.at - size : self.at]
        if kind == 9:
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(count)]
        assert kind == 12
        found, number = {}, 0
        while head := self.byte():
            number += head >> 4
            found[number] = self.value(head & 15)
        return found


def read(value: ThriftValue) -> Any:
    reader = Reader(value.body)
    found = reader.value(value.kind)
    assert reader.at == len(value.body)
    return found


simple = st.integers(-(1 << 31), (1 << 31) - 1).map(lambda n: (n, i32(n))) | st.text(
    max_size=200
).map(lambda given: (given.encode(), text(given)))


def to_struct(pairs: list[tuple[Any, ThriftValue]]) -> tuple[Any, ThriftValue]:
    fields = {3 * i + 1: value for i, (_, value) in enumerate(pairs)}
    return {3 * i + 1: plain for i, (plain, _) in enumerate(pairs)}, struct(fields)


def to_list(pairs: list[tuple[Any, ThriftValue]]) -> tuple[Any, ThriftValue]:
    alike = [pair for pair in pairs if pair[1].kind == pairs[0][1].kind]
    return [plain for plain, _ in alike], listed([value for _, value in alike])


values = st.recursive(
    simple,
    lambda inner: (
        st.lists(inner, max_size=6).map(to_struct) | st.lists(inner, max_size=20).map(to_list)
    ),
    max_leaves=30,
)


@given(pair=values)
def test_values_are_read_as_they_were_given(pair: tuple[Any, ThriftValue]) -> None:
    plain, value = pair
    assert read(value) == plain


@given(pairs=st.lists(values, max_size=6))
def test_structs_and_lists_are_split_into_the_values_they_were_made_of(
    pairs: list[tuple[Any, ThriftValue]],
) -> None:
    _, whole = to_struct(pairs)
    assert read_struct(whole.body + b"more") == whole
    assert list(split_struct(whole).values()) == [value for _, value in pairs]
    same = [value for _, value in pairs if value.kind == pairs[0][1].kind]
    assert split_list(listed(same)) == same


@pytest.mark.parametrize("count", [0, 1, 14, 15, 16, 300])
def test_lists_of_any_length_are_read(count: int) -> None:
    assert read(listed([i32(i) for i in range(count)])) == list(range(count))


def test_the_bytes_are_those_of_the_specification() -> None:
    assert i32(-1).body == b"\x01"
    assert i32(64).body == b"\x80\x01"
    assert struct({1: i32(1), 3: None, 5: text("x")}).body == b"\x15\x02\x48\x01x\0"
    assert listed([i32(1), i32(-1)]).body == b"\x25\x02\x01"
    assert listed([]).body == b"\x0c"
