"""The pages of one column of whole records: framed, compressed, and counted for the footer.

Where a page ends follows from the rows alone, however they were handed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa

from kafkeep.data.arrow_parts import frozen, view_data, view_numbers, view_offsets
from kafkeep.data.varint import varint
from kafkeep.formats.parquet_page_kernels import all_equal, encode_deltas
from kafkeep.formats.parquet_thrift import Value, i32, struct
from kafkeep.kernel import Bytes

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
