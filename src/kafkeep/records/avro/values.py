"""Convert between Avro's binary values and columns, for the Avro format and converter; pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.numba_setup import Bytes, Int64s
from kafkeep.records.arrow import frozen, pack_bits
from kafkeep.records.avro import decode as machine
from kafkeep.records.avro.decode import Program, compile_program
from kafkeep.records.avro.encode import EncodedRows, check_rows
from kafkeep.records.avro.plan import AvroNode, WireType, plan
from kafkeep.records.avro.schema_reader import from_avro
from kafkeep.records.schema import Column, Kind, Schema, arrow_type

_NONE: Int64s = np.zeros(0, dtype=np.int64)
_NUMBERS: dict[pa.DataType, Any] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
}
_LIMIT = np.iinfo(np.int32).max


@lru_cache(maxsize=256)
def avro_values(text: str, schema: Schema | None = None) -> AvroValues:
    """Return the cached codec for values of the Avro schema in ``text``.

    ``schema`` is the Connect schema of the columns, if it differs from ``from_avro``.
    """
    return AvroValues(orjson.loads(text), schema)


class AvroValues:
    """A codec for values of one Avro schema other than ``anything``, without files or registries.

    Raise RecordError if columns cannot hold the schema: it is recursive, or only null.
    """

    def __init__(self, avro: Any, schema: Schema | None = None) -> None:
        found = schema or from_avro(avro)
        if found is None:
            raise RecordError("values without a schema are no columns")
        self.schema: Schema = found
        self._node = plan(avro, found)
        self._program: Program = compile_program(self._node)

    def encode(self, array: pa.Array) -> EncodedRows:
        """Return the encoded rows of a column of this schema."""
        return EncodedRows(self._node, array)

    def check_rows(self, array: pa.Array) -> None:
        """Raise RecordError if a row of a column of this schema cannot be encoded."""
        check_rows(self._node, array)

    def check(
        self, buffer: Bytes, starts: Int64s, ends: Int64s, *, chained: bool = False
    ) -> tuple[int, str]:
        """Return the number of readable values before the first bad one, and its error.

        Value i is at ``[starts[i], ends[i])``. ``chained`` values follow each other within
        ``[starts[0], ends[i])``.
        """
        good, code, _, _ = self._count(buffer, starts, ends, chained)
        return good, machine.REASONS.get(code, "")

    def decode(
        self, buffer: Bytes, starts: Int64s, ends: Int64s, *, chained: bool = False
    ) -> tuple[Column, int]:
        """Return the values as a column, and the end position of the last one.

        Raise RecordError if a value is damaged (``check`` finds it), or if the column exceeds 2
        GiB.
        """
        good, code, end, counts = self._count(buffer, starts, ends, chained)
        if code:
            raise RecordError(f"Avro value {good} is not readable: {machine.REASONS[code]}")
        firsts = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=firsts[1:])
        numbers = np.zeros(max(1, int(firsts[-1])), dtype=np.int64)
        self._walk(buffer, starts, ends, chained, numbers, firsts, np.zeros_like(counts))
        slots = [numbers[firsts[i] : firsts[i + 1]] for i in range(len(counts))]
        array = _Assembly(buffer, self._program, slots).build(self._node, len(starts))
        return Column(self.schema, array), end

    def _count(
        self, buffer: Bytes, starts: Int64s, ends: Int64s, chained: bool
    ) -> tuple[int, int, int, Int64s]:
        counts = np.zeros(self._program.slots, dtype=np.int64)
        good, code, end = self._walk(buffer, starts, ends, chained, _NONE, counts, counts)
        return good, code, end, counts

    def _walk(  # noqa: PLR0917
        self,
        buffer: Bytes,
        starts: Int64s,
        ends: Int64s,
        chained: bool,
        numbers: Int64s,
        firsts: Int64s,
        counts: Int64s,
    ) -> tuple[int, int, int]:
        if len(starts) != len(ends) or (len(ends) and int(ends.max()) > len(buffer)):
            raise ValueError("values outside of their buffer")
        program = self._program
        starts, ends = frozen(starts.view()), frozen(ends.view())
        good, code, end = machine.walk(
            buffer, starts, ends, chained, program.code, program.depth, numbers, firsts, counts
        )
        return int(good), int(code), int(end)


class _Assembly:
    """Builds Arrow arrays from the slots that the program filled."""

    def __init__(self, buffer: Bytes, program: Program, slots: list[Int64s]) -> None:
        self.buffer = buffer
        self.program = program
        self.slots = slots

    def build(self, node: AvroNode, count: int) -> pa.Array:
        """Return an array of ``count`` values of ``node``, including nulls."""
        if node.wire_type is WireType.UNION:
            return self._union(node, count)
        if node.value_branch < 0:
            return self._present(node, count, None)
        valid = self.slots[self.program.branch[id(node)]] == node.value_branch
        present = int(np.count_nonzero(valid))
        if present == count:
            return self._present(node, count, None)
        if node.wire_type in (WireType.RECORD, WireType.LIST):
            return _spread(self._present(node, present, None), valid)
        return self._present(node, count, valid)

    def _present(self, node: AvroNode, count: int, valid: NDArray[np.bool_] | None) -> pa.Array:
        """Return an array that is null where not ``valid``.

        The slots hold only the valid values.
        """
        kind = arrow_type(node.schema)
        if node.wire_type is WireType.RECORD:
            children = [self.build(child, count) for child in node.children]
            return pa.Array.from_buffers(kind, count, [None], children=children)
        slot = self.program.value[id(node)]
        if node.wire_type in (WireType.BYTES, WireType.FIXED):
            return self._bytes(slot, kind, count, valid)
        if node.wire_type is WireType.LIST:
            return self._list(node, slot, count)
        values = self.slots[slot]
        if valid is not None:
            spread = np.zeros(count, dtype=np.int64)
            spread[valid] = values
            values = spread
        validity = None if valid is None else pack_bits(valid)
        if node.wire_type is WireType.ENUM:
            return self._symbols(node, values, validity)
        if node.wire_type is WireType.BOOLEAN:
            return pa.Array.from_buffers(kind, count, [validity, pack_bits(values)])
        return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(_cast(values, kind))])

    def _bytes(
        self, slot: int, kind: pa.DataType, count: int, valid: NDArray[np.bool_] | None
    ) -> pa.Array:
        starts, lengths = self.slots[slot], self.slots[slot + 1]
        total = int(lengths.sum())
        if total > _LIMIT:
            raise RecordError(f"{total} bytes do not fit into one column")
        if valid is not None:
            all_starts, all_lengths = np.zeros((2, count), dtype=np.int64)
            all_starts[valid], all_lengths[valid] = starts, lengths
            starts, lengths = all_starts, all_lengths
        offsets = np.zeros(count + 1, dtype=np.int32)
        data = np.empty(total, dtype=np.uint8)
        machine.gather(self.buffer, starts, lengths, offsets, data)
        buffers = [
            None if valid is None else pack_bits(valid),
            pa.py_buffer(offsets),
            pa.py_buffer(data),
        ]
        return pa.Array.from_buffers(kind, count, buffers)

    def _list(self, node: AvroNode, slot: int, count: int) -> pa.Array:
        total = int(self.slots[slot].sum())
        if total > _LIMIT:
            raise RecordError(f"{total} items do not fit into one column")
        offsets = np.zeros(count + 1, dtype=np.int32)
        np.cumsum(self.slots[slot], out=offsets[1:])
        items = self.build(node.children[0], int(offsets[-1]))
        if node.schema.kind is Kind.MAP and items.field(0).null_count:
            raise RecordError("a map with a key that is null")
        buffers = [None, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(arrow_type(node.schema), count, buffers, children=[items])

    def _symbols(self, node: AvroNode, values: Int64s, validity: pa.Buffer | None) -> pa.Array:
        buffers = [validity, pa.py_buffer(values)]
        places = pa.Array.from_buffers(pa.int64(), len(values), buffers)
        return pa.array(node.symbols, pa.string()).take(places)

    def _union(self, node: AvroNode, count: int) -> pa.Array:
        found = self.slots[self.program.branch[id(node)]]
        children = []
        for child, branch in zip(node.children, node.branches, strict=True):
            mine = found == branch
            children.append(_spread(self.build(child, int(np.count_nonzero(mine))), mine))
        valid = None if node.null_branch < 0 else pack_bits(found != node.null_branch)
        return pa.Array.from_buffers(arrow_type(node.schema), count, [valid], children=children)


def _cast(values: Int64s, kind: pa.DataType) -> NDArray[Any]:
    if kind == pa.float64():
        return values.view(np.float64)
    if kind == pa.float32():
        return values.astype(np.uint32).view(np.float32)
    return values.astype(_NUMBERS[kind], copy=False)


def _spread(array: pa.Array, valid: NDArray[np.bool_]) -> pa.Array:
    """Return an array with the values of ``array`` where ``valid``, and nulls elsewhere."""
    places = np.cumsum(valid) - 1
    buffers = [pack_bits(valid), pa.py_buffer(places)]
    return array.take(pa.Array.from_buffers(pa.int64(), len(valid), buffers))
