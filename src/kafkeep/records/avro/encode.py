"""Encode columns in Avro's binary form, column by column, into rows of known size; pure.

Each part of a type first adds the sizes of its values to the sizes of their rows, and then writes
the values. Each byte is copied once, and no Python code runs for single rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.numba_setup import Bytes, Int64s
from kafkeep.records.arrow import (
    NO_BYTES,
    frozen,
    view_bits,
    view_data,
    view_numbers,
    view_offsets,
    view_valid,
)
from kafkeep.records.avro import encode_kernels as loops
from kafkeep.records.avro.plan import AvroNode, WireType
from kafkeep.records.schema import DECIMAL

_WIDTHS = {WireType.FLOAT: 4, WireType.DOUBLE: 8}
_NUMBERS = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
}


class EncodedRows:
    """The encoded rows of one column: the size of each row, and the bytes on demand."""

    def __init__(self, node: AvroNode, array: pa.Array) -> None:
        self._part = _part(node, array, None)
        self.sizes: Int64s = np.zeros(len(array), dtype=np.int64)
        self._part.size(self.sizes)

    def write(self, start: int, stop: int, out: Bytes) -> int:
        """Write rows ``[start, stop)`` to the start of ``out``; return the number of bytes written.

        ``out`` must hold at least ``sizes[start:stop].sum()`` bytes.
        """
        sizes = self.sizes[start:stop]
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if stop > start else 0
        if total > len(out):
            raise ValueError(f"{total} bytes do not fit into {len(out)}")
        self._part.write(out, ends - sizes, start, stop)
        return total


def check_rows(node: AvroNode, array: pa.Array) -> None:
    """Raise RecordError if a row has no Avro form; building the parts checks every row."""
    _part(node, array, None)


class _Part(Protocol):
    def size(self, sizes: Int64s) -> None:
        """Add the size of each row to ``sizes``."""

    def write(self, out: Bytes, places: Int64s, start: int, stop: int) -> None:
        """Write rows ``[start, stop)`` at ``places``, and advance each place past its row."""


@dataclass(frozen=True, slots=True)
class _Codes:
    """The code of each row, which selects what the kernels write."""

    codes: Bytes
    code: int
    null_byte: int
    value_byte: int

    def some(self, start: int, stop: int) -> Bytes:
        return self.codes[start:stop] if len(self.codes) else self.codes

    def active(self) -> Bytes | None:
        """Return 1 for rows with a value and 0 for others, or None if all rows have one."""
        if not len(self.codes):
            return None
        return frozen((self.codes >= loops.TAGGED).astype(np.uint8))


def _codes(node: AvroNode, valid: Bytes | None, active: Bytes | None) -> _Codes:
    if max(node.null_branch, node.value_branch) > 63:
        raise RecordError("an Avro union of more than 64 members")
    tags = max(2 * node.null_branch, 0), max(2 * node.value_branch, 0)
    full = loops.TAGGED if node.value_branch >= 0 else loops.PLAIN
    if valid is None and active is None:
        return _Codes(NO_BYTES, full, *tags)
    given = valid if valid is not None else active
    assert given is not None
    codes = np.full(len(given), full, dtype=np.uint8)
    if valid is not None:
        codes[valid == 0] = loops.NULL
    if active is not None:
        codes[active == 0] = loops.SKIP
    if node.null_branch < 0 and bool((codes == loops.NULL).any()):
        raise RecordError(f"a null where the schema ({node.schema.kind}) is not optional")
    return _Codes(frozen(codes), full, *tags)


class _Numbers:
    def __init__(self, values: Int64s, codes: _Codes) -> None:
        self.values, self.codes = values, codes

    def size(self, sizes: Int64s) -> None:
        loops.size_numbers(self.values, self.codes.codes, self.codes.code, sizes)

    def write(self, out: Bytes, places: Int64s, start: int, stop: int) -> None:
        c = self.codes
        values = self.values[start:stop]
        codes = c.some(start, stop)
        loops.write_numbers(out, places, values, codes, c.code, c.null_byte, c.value_byte)


class _SizedBytes:
    def __init__(self, array: pa.Array, codes: _Codes) -> None:
        self.offsets, self.data, self.codes = view_offsets(array), view_data(array), codes

    def size(self, sizes: Int64s) -> None:
        loops.size_bytes(self.offsets, self.codes.codes, self.codes.code, sizes)

    def write(self, out: Bytes, places: Int64s, start: int, stop: int) -> None:
        c = self.codes
        offsets = self.offsets[start : stop + 1]
        codes = c.some(start, stop)
        loops.write_bytes(out, places, offsets, self.data, codes, c.code, c.null_byte, c.value_byte)


class _Fixed:
    def __init__(self, data: Bytes, width: int, codes: _Codes) -> None:
        self.data, self.width, self.codes = data, width, codes

    def size(self, sizes: Int64s) -> None:
        loops.size_fixed(self.width, self.codes.codes, self.codes.code, sizes)

    def write(self, out: Bytes, places: Int64s, start: int, stop: int) -> None:
        c, width = self.codes, self.width
        data = self.data[start * width : stop * width]
        codes = c.some(start, stop)
        loops.write_fixed(out, places, data, width, codes, c.code, c.null_byte, c.value_byte)


class _Record:
    """A struct, or a union. In a union, at most one member is written for each row."""

    def __init__(self, members: list[_Part], codes: _Codes) -> None:
        self.members, self.codes = members, codes
        self.tagged = len(codes.codes) > 0 or codes.code == loops.TAGGED

    def size(self, sizes: Int64s) -> None:
        if self.tagged:
            loops.size_tags(self.codes.codes, self.codes.code, sizes)
        for member in self.members:
            member.size(sizes)

    def write(self, out: Bytes, places: Int64s, start: int, stop: int) -> None:
        c = self.codes
        if self.tagged:
            codes = c.some(start, stop)
            loops.write_tags(out, places, codes, c.code, c.null_byte, c.value_byte)
        for member in self.members:
            member.write(out, places, start, stop)


class _List:
    def __init__(self, node: AvroNode, array: pa.Array, codes: _Codes) -> None:
        offsets = view_offsets(array)
        first, last = int(offsets[0]), int(offsets[-1])
        self.offsets = frozen(offsets - np.int32(first)) if first else offsets
        self.codes = codes
        active = None
        if len(codes.codes):
            active = np.zeros(last - first, dtype=np.uint8)
            loops.mark_items(self.offsets, codes.codes, active)
            frozen(active)
        items = _items(array).slice(first, last - first)
        self.items = _part(node.children[0], items, active)
        self.item_ends: Int64s = np.zeros(last - first + 1, dtype=np.int64)

    def size(self, sizes: Int64s) -> None:
        item_sizes = np.zeros(len(self.item_ends) - 1, dtype=np.int64)
        self.items.size(item_sizes)
        self.item_ends = np.zeros(len(item_sizes) + 1, dtype=np.int64)
        np.cumsum(item_sizes, out=self.item_ends[1:])
        frozen(self.item_ends)
        c = self.codes
        loops.size_lists(self.offsets, self.item_ends, c.codes, c.code, sizes)

    def write(self, out: Bytes, places: Int64s, start: int, stop: int) -> None:
        c = self.codes
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        item_places = np.zeros(last - first, dtype=np.int64)
        loops.write_lists(
            out,
            places,
            self.offsets[start : stop + 1],
            self.item_ends,
            item_places,
            first,
            c.some(start, stop),
            c.code,
            c.null_byte,
            c.value_byte,
        )
        if last > first:
            self.items.write(out, item_places, first, last)


def _items(array: pa.Array) -> pa.Array:
    """Return all items of a list or map array, ignoring its slice."""
    if not pa.types.is_map(array.type):
        return array.values
    entry = pa.struct([array.type.key_field, array.type.item_field])
    return pa.StructArray.from_arrays([array.keys, array.items], fields=list(entry))


def _part(node: AvroNode, array: pa.Array, active: Bytes | None) -> _Part:  # noqa: PLR0911
    if node.wire_type is WireType.UNION:
        return _union(node, array, active)
    codes = _codes(node, view_valid(array), active)
    match node.wire_type:
        case WireType.NUMBER:
            values = view_numbers(array, _NUMBERS[array.type])
            return _Numbers(frozen(values.astype(np.int64, copy=False)), codes)
        case WireType.BYTES:
            return _SizedBytes(array, codes)
        case WireType.FLOAT | WireType.DOUBLE:
            width = _WIDTHS[node.wire_type]
            data = view_numbers(array, np.dtype(f"V{width}")).view(np.uint8)
            return _Fixed(data, width, codes)
        case WireType.BOOLEAN:
            return _Fixed(view_bits(array), 1, codes)
        case WireType.FIXED:
            return _Fixed(_fixed_bytes(node, array), node.width, codes)
        case WireType.ENUM:
            return _Numbers(_symbols(node, array), codes)
        case WireType.LIST:
            return _List(node, array, codes)
        case _:
            inner = codes.active()
            pairs = zip(node.children, range(array.type.num_fields), strict=True)
            return _Record([_part(child, array.field(i), inner) for child, i in pairs], codes)


def _union(node: AvroNode, array: pa.Array, active: Bytes | None) -> _Part:
    found = np.ones(len(array), dtype=np.uint8) if active is None else active
    whole = view_valid(array)
    some = np.zeros(len(array), dtype=np.uint8)
    members = []
    for i, (child, branch) in enumerate(zip(node.children, node.branches, strict=True)):
        member = array.field(i)
        valid = view_valid(member)
        mine = found if valid is None else found & valid
        mine = mine if whole is None else mine & whole
        if bool((some & mine).any()):
            raise RecordError("a union with two members at once")
        some |= mine
        tagged = replace(child, value_branch=branch, schema=child.schema.as_optional())
        members.append(_part(tagged, member, frozen(mine.copy())))
    empty = replace(node, value_branch=-1)
    return _Record(members, _nothing(_codes(empty, some, found)))


def _nothing(codes: _Codes) -> _Codes:
    """Keep only the codes of nulls, because the members write everything else."""
    kept = np.where(codes.codes == loops.NULL, loops.NULL, loops.SKIP).astype(np.uint8)
    return replace(codes, codes=frozen(kept), code=loops.SKIP)


def _fixed_bytes(node: AvroNode, array: pa.Array) -> Bytes:
    width = node.width
    values: list[bytes] = [value or b"" for value in array.to_pylist()]
    if node.schema.name == DECIMAL:
        numbers = (int.from_bytes(value, "big", signed=True) for value in values)
        try:
            values = [number.to_bytes(width, "big", signed=True) for number in numbers]
        except OverflowError as error:
            raise RecordError(f"a decimal does not fit the fixed size {width}") from error
    if any(len(value) not in (0, width) for value in values):
        raise RecordError(f"bytes that are not of the fixed size {width}")
    data = b"".join(value or bytes(width) for value in values)
    return np.frombuffer(data, dtype=np.uint8)


def _symbols(node: AvroNode, array: pa.Array) -> NDArray[Any]:
    places = pc.index_in(array, value_set=pa.array(node.symbols, pa.string()))
    if places.null_count > array.null_count:
        raise RecordError(f"a text that is none of the symbols {', '.join(node.symbols)}")
    return frozen(view_numbers(places, np.int32).astype(np.int64))
