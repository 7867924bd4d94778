"""Thrift's compact protocol, as much of it as Parquet's headers and footer need.

Every value is made from the inside out: a struct is given its fields as values already. A value
that is read stays in its bytes until its parts are asked for.

The pages of one column of whole records: framed, compressed, and counted for the footer.

Where a page ends follows from the rows alone, however they were handed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kafkeep.numba_setup import Bytes
from kafkeep.objects.formats.parquet_page_kernels import all_equal, encode_deltas
from kafkeep.records.arrow import frozen, view_data, view_numbers, view_offsets
from kafkeep.records.varint import varint, zigzag_varint

Compress: TypeAlias = Callable[[Bytes], Any]


class Encoding(IntEnum):
    """How values lie in a page, by Parquet's numbers."""

    PLAIN = 0
    RLE = 3
    DELTA_BINARY_PACKED = 5
    RLE_DICTIONARY = 8


class PageType(IntEnum):
    """What a page is, by Parquet's numbers."""

    DATA = 0
    DICTIONARY = 2


@dataclass
class Chunk:
    """One column of one row group: writes its pages, and keeps what they add up to."""

    out: BinaryIO
    compress: Compress
    num_values: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    data_at: int | None = None
    """Where in the chunk its first page of values begins; a dictionary lies before it."""
    pages: Counter[tuple[PageType, Encoding]] = field(default_factory=Counter)
    bounds: tuple[bytes, bytes] | None = None
    """The least and the largest value, where a reader may want them."""

    def add_page(self, raw: Bytes, count: int, encoding: Encoding) -> None:
        """Add a page of so many values, nulls among them; ``raw`` is used no longer than here."""
        if self.data_at is None:
            self.data_at = self.stored_bytes
        self.num_values += count
        told = {1: i32(count), 2: i32(encoding), 3: i32(Encoding.RLE), 4: i32(Encoding.RLE)}
        self._add(PageType.DATA, encoding, raw, {5: struct(told)})

    def add_dictionary(self, raw: Bytes, count: int) -> None:
        """Add the values that pages of the encoding RLE_DICTIONARY name by their places."""
        told = {7: struct({1: i32(count), 2: i32(Encoding.PLAIN)})}
        self._add(PageType.DICTIONARY, Encoding.PLAIN, raw, told)

    def _add(self, kind: PageType, encoding: Encoding, raw: Bytes, told: dict[int, Value]) -> None:
        body = self.compress(raw)
        sizes = {1: i32(kind), 2: i32(len(raw)), 3: i32(len(body))}
        header = struct({**sizes, **told}).body
        self.out.write(header)
        self.out.write(body)
        self.raw_bytes += len(header) + len(raw)
        self.stored_bytes += len(header) + len(body)
        self.pages[kind, encoding] += 1


def add_numbers(chunk: Chunk, pieces: list[pa.Array]) -> None:
    """Add a column of int64 as one page of differences."""
    views = [view_numbers(piece, np.int64) for piece in pieces]
    numbers = frozen(views[0] if len(views) == 1 else np.concatenate(views))
    # A block of 128 takes 14 bytes besides its numbers.
    out = np.empty(64 + (len(numbers) // 128 + 1) * (14 + 128 * 8), dtype=np.uint8)
    chunk.add_page(out[: encode_deltas(numbers, out)], len(numbers), Encoding.DELTA_BINARY_PACKED)
    chunk.bounds = _bounds(numbers)


def add_int32_runs(chunk: Chunk, pieces: list[pa.Array]) -> None:
    """Add a column of int32 that hardly changes, by a dictionary."""
    runs = [run for piece in pieces for run in _iter_runs(piece, _first_int32)]
    places = _add_runs(chunk, runs, lambda number: int(number).to_bytes(4, "little", signed=True))
    chunk.bounds = _bounds(np.array(places, dtype=np.int32))


def add_text_runs(chunk: Chunk, pieces: list[pa.Array]) -> None:
    """Add a column of texts that hardly changes, by a dictionary."""
    runs = [run for piece in pieces for run in _iter_runs(piece, _first_text)]
    _add_runs(chunk, runs, _plain_text)


def _bounds(numbers: Any) -> tuple[bytes, bytes]:
    return numbers.min().tobytes(), numbers.max().tobytes()


def _plain_text(given: str) -> bytes:
    data = given.encode()
    return len(data).to_bytes(4, "little") + data


def _first_int32(array: pa.Array) -> int | None:
    numbers = view_numbers(array, np.int32)
    return int(numbers[0]) if (numbers == numbers[0]).all() else None


def _first_text(array: pa.Array) -> str | None:
    offsets, data = frozen(view_offsets(array)), frozen(view_data(array))
    return str(array[0].as_py()) if all_equal(offsets, data) else None


def _iter_runs(array: pa.Array, only_value: Callable[[pa.Array], Any]) -> Iterator[tuple[Any, int]]:
    """Yield the values of a column, and how often each is repeated."""
    if (value := only_value(array)) is not None:
        yield value, len(array)
        return
    coded = array.dictionary_encode()
    values, places = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(places)], strict=True):
        yield values[places[start]], int(end - start)


def _add_runs(
    chunk: Chunk, runs: list[tuple[Any, int]], to_plain: Callable[[Any], bytes]
) -> list[Any]:
    """Add a dictionary, and one page of places in it; return the values it has."""
    places: dict[Any, int] = {}
    merged: list[list[int]] = []
    for value, count in runs:
        place = places.setdefault(value, len(places))
        if merged and merged[-1][0] == place:
            merged[-1][1] += count
        else:
            merged.append([place, count])
    width = max(1, (len(places) - 1).bit_length())
    parts = [bytes([width])]
    for place, count in merged:
        parts += [varint(count << 1), place.to_bytes((width + 7) // 8, "little")]
    plain = b"".join(map(to_plain, places))
    chunk.add_dictionary(np.frombuffer(plain, dtype=np.uint8), len(places))
    page = np.frombuffer(b"".join(parts), dtype=np.uint8)
    chunk.add_page(page, sum(count for _, count in merged), Encoding.RLE_DICTIONARY)
    return list(places)


_TRUE, _FALSE, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 5, 6, 8, 9, 12
_WIDTHS = {_TRUE: 0, _FALSE: 0, 3: 1, 7: 8}
"""Of values that always take so many bytes."""
_END = b"\0"
_SHORT_LIST = 15


class Value(NamedTuple):
    """A value as it is written, and the number of its type."""

    kind: int
    body: bytes


def flag(given: bool) -> Value:
    """Return a boolean as the field of a struct."""
    return Value(_TRUE if given else _FALSE, b"")


def i32(number: int) -> Value:
    """Return an int32."""
    return Value(_I32, zigzag_varint(number))


def i64(number: int) -> Value:
    """Return an int64."""
    return Value(_I64, zigzag_varint(number))


def binary(data: bytes) -> Value:
    """Return bytes."""
    return Value(_BINARY, varint(len(data)) + data)


def text(given: str) -> Value:
    """Return a text, as its UTF-8 bytes."""
    return binary(given.encode())


def struct(fields: Mapping[int, Value | None]) -> Value:
    """Return a struct: ids as keys, which rise by 15 at most; a field that is None is left out."""
    parts, last = [], 0
    for number, value in fields.items():
        if value is not None:
            parts += [bytes([(number - last) << 4 | value.kind]), value.body]
            last = number
    return Value(_STRUCT, b"".join([*parts, _END]))


def listed(values: Sequence[Value]) -> Value:
    """Return a list of values of one type; one without values is written as one of structs."""
    kind, count = values[0].kind if values else _STRUCT, len(values)
    short = count < _SHORT_LIST
    head = bytes([(count if short else _SHORT_LIST) << 4 | kind])
    long_count = b"" if short else varint(count)
    return Value(_LIST, b"".join([head, long_count, *(value.body for value in values)]))


def split_struct(value: Value) -> dict[int, Value]:
    """Return the fields of a struct that was read."""
    fields, _ = _read_fields(value.body, 0)
    return fields


def split_list(value: Value) -> list[Value]:
    """Return the values of a list that was read; those of booleans cannot be."""
    kind, count, at = _read_list_head(value.body, 0)
    found = []
    for _ in range(count):
        end = _skip(value.body, at, kind)
        found.append(Value(kind, value.body[at:end]))
        at = end
    return found


def read_struct(data: bytes) -> Value:
    """Return the struct that ``data`` begins with."""
    return Value(_STRUCT, data[: _skip(data, 0, _STRUCT)])


def _read_fields(data: bytes, at: int) -> tuple[dict[int, Value], int]:
    fields: dict[int, Value] = {}
    number = 0
    while data[at] != 0:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if step:
            number += step
        else:
            raw, at = _read_varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        end = _skip(data, at, kind)
        fields[number] = Value(kind, data[at:end])
        at = end
    return fields, at + 1


def _read_list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the type of a list's values, how many there are, and where they begin."""
    kind, count = data[at] & 15, data[at] >> 4
    at += 1
    if count == _SHORT_LIST:
        count, at = _read_varint(data, at)
    return kind, count, at


def _skip(data: bytes, at: int, kind: int) -> int:
    """Return where a value ends."""
    if kind in _WIDTHS:
        return at + _WIDTHS[kind]
    if kind == _STRUCT:
        return _read_fields(data, at)[1]
    if kind == _LIST:
        inner, count, at = _read_list_head(data, at)
        for _ in range(count):
            at = _skip(data, at, inner)
        return at
    number, at = _read_varint(data, at)
    return at + number if kind == _BINARY else at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
