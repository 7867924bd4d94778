"""Columns of keys, values and headers: pages of bytes as they are, and the levels before them.

A level of 0 says that a value is null or a list empty; a list's items repeat with a level of 1.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes
from kafkeep.objects.formats.parquet_page_kernels import encode_levels, fill_items, fill_values
from kafkeep.objects.formats.parquet_pages import Chunk, Encoding
from kafkeep.records.arrow import NO_BYTES, frozen, view_data, view_offsets, view_valid
from kafkeep.records.varint import varint

PAGE_BYTES = 1 << 20
"""A page ends before the row that would make it larger; a larger row has one of its own."""
PAGE_LEVELS = 1 << 20
"""The same for how many values it has, nulls and empty lists among them."""


def _encoded_room(count: int) -> int:
    """Return how many bytes that many levels may take, of two bits at most."""
    return count // 2 + 64


class Scratch:
    """The memory in which page after page is made: room for levels, then the values."""

    def __init__(self) -> None:
        self.values_at = 2 * _encoded_room(PAGE_LEVELS)
        self.limit = self.values_at + PAGE_BYTES
        self.max_levels = PAGE_LEVELS
        self.page: Bytes = np.empty(self.limit, dtype=np.uint8)

    def grown(self, levels: int, size: int) -> Scratch:
        """Return another, which has room for one row that is too large for this one."""
        made = Scratch.__new__(Scratch)
        made.max_levels = max(levels, self.max_levels)
        made.values_at = 2 * _encoded_room(made.max_levels)
        made.limit = made.values_at + max(size, self.limit - self.values_at)
        made.page = np.empty(made.limit, dtype=np.uint8)
        return made


class Levels:
    """The levels of one page. As long as all are equal, none is written down."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._equal: int | None = None
        self._written: Bytes = np.empty(0, dtype=np.uint8)
        self.count = 0

    def repeat(self, level: int, count: int) -> None:
        """Add one level so many times."""
        if self.count == 0 or self._equal == level:
            self._equal = level
            self.count += count
        elif count:
            self.room(count)[:] = level
            self.count += count

    def room(self, count: int) -> Bytes:
        """Return where that many more may be written; the caller adds to ``count``."""
        if len(self._written) < self.count + count:
            size = max(self.count + count, 2 * len(self._written))
            larger = np.empty(size, dtype=np.uint8)
            larger[: len(self._written)] = self._written
            self._written = larger
        if self._equal is not None:
            self._written[: self.count] = self._equal
            self._equal = None
        return self._written[self.count : self.count + count]

    def encode(self) -> bytes:
        """Return them as a page has them, their length before them; begin anew."""
        if self._equal is not None:
            made = varint(self.count << 1) + bytes([self._equal])
        else:
            out = np.empty(_encoded_room(self.count), dtype=np.uint8)
            size = encode_levels(self._written[: self.count], self._width, out)
            made = out[:size].tobytes()
        self._equal, self.count = None, 0
        return len(made).to_bytes(4, "little") + made


class BytesPages:
    """Pages of one column of bytes in the making; ``finish`` adds the last one."""

    def __init__(self, chunk: Chunk, scratch: Scratch, *, in_lists: bool, present: int) -> None:
        self._chunk = chunk
        self._usual = self._scratch = scratch
        self._present = present
        self._defined = Levels(present.bit_length())
        self._repeats = Levels(1) if in_lists else None
        self._at = scratch.values_at

    def add(self, values: pa.Array) -> None:
        """Add one value, or null, for each row."""
        offsets, data, valid = _parts(values)
        row, rows = 0, len(values)
        while row < rows:
            stop = min(rows, row + self._scratch.max_levels - self._defined.count)
            start, place = row, self._scratch
            row, self._at = fill_values(
                offsets, data, valid, row, stop, place.page, self._at, place.limit
            )
            self._define(valid, start, row)
            if row < rows:
                self._make_room(1, 4 + int(offsets[row + 1]) - int(offsets[row]))

    def _define(self, valid: Bytes, start: int, stop: int) -> None:
        if len(valid):
            self._defined.room(stop - start)[:] = valid[start:stop]
            self._defined.count += stop - start
        else:
            self._defined.repeat(self._present, stop - start)

    def add_lists(self, lists: pa.ListArray, items: pa.Array) -> None:
        """Add the items of one list for each row; ``items`` are those of all of the lists."""
        assert self._repeats is not None
        bounds = frozen(view_offsets(lists))
        first, last = int(bounds[0]), int(bounds[-1])
        if first == last:
            self._add_empty(len(lists))
            return
        offsets, data, valid = _parts(items.slice(first, last - first))
        row, rows = 0, len(lists)
        while row < rows:
            place = self._scratch
            free = place.max_levels - self._defined.count
            room = min(free, last - int(bounds[row]) + rows - row)
            row, self._at, count = fill_items(
                bounds,
                offsets,
                data,
                valid,
                row,
                place.page,
                self._at,
                place.limit,
                self._repeats.room(room),
                self._defined.room(room),
                self._present,
            )
            self._repeats.count += count
            self._defined.count += count
            if row < rows:
                begin, end = int(bounds[row]) - first, int(bounds[row + 1]) - first
                size = 4 * (end - begin) + int(offsets[end]) - int(offsets[begin])
                self._make_room(end - begin, size)

    def _add_empty(self, rows: int) -> None:
        assert self._repeats is not None
        while rows:
            count = min(rows, self._scratch.max_levels - self._defined.count)
            self._repeats.repeat(0, count)
            self._defined.repeat(0, count)
            rows -= count
            if rows:
                self.finish()

    def _make_room(self, levels: int, size: int) -> None:
        """Have room for a row that did not fit: end the page, or else take a larger one."""
        if self._defined.count:
            self.finish()
        else:
            self._scratch = self._usual.grown(levels, size)
            self._at = self._scratch.values_at

    def finish(self) -> None:
        """End the page at hand, if there is one."""
        count, place = self._defined.count, self._scratch
        if count:
            head = b"" if self._repeats is None else self._repeats.encode()
            head += self._defined.encode()
            start = place.values_at - len(head)
            place.page[start : place.values_at] = np.frombuffer(head, dtype=np.uint8)
            self._chunk.add_page(place.page[start : self._at], count, Encoding.PLAIN)
        self._scratch = self._usual
        self._at = self._scratch.values_at


def _parts(array: pa.Array) -> tuple[NDArray[np.int32], Bytes, Bytes]:
    valid = view_valid(array)
    data = frozen(view_data(array))
    return frozen(view_offsets(array)), data, NO_BYTES if valid is None else valid
