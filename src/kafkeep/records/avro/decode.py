"""Decode Avro values: compile a schema to a program, and run it in a compiled kernel; pure.

Instructions append to slots. Each one appends one number to its slot: a number, the bits of a
float, the branch of a union, or the length of a list. For bytes, it appends their position to its
slot and their length to the next slot. The kernel runs twice: first to count, then to fill the
slots.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkeep.numba_setup import (
    BAD_COUNT,
    BAD_LENGTH,
    BAD_VARINT,
    CUT_SHORT,
    OK,
    Bytes,
    Int64s,
    copy_bytes,
    kernel,
    read_varlong,
)
from kafkeep.records.arrow import frozen
from kafkeep.records.avro.plan import AvroNode, WireType
from kafkeep.records.schema import Kind

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's.
# mypy: disable-error-code="return-value,arg-type,assignment"


END = 0
INT = 1
LONG = 2
FLOAT = 3
DOUBLE = 4
BOOLEAN = 5
BYTES = 6
TEXT = 7
FIXED = 8
ENUM = 9
UNION = 10
LIST = 11
NEXT = 12
JUMP = 13

BAD_BRANCH = 101
BAD_TEXT = 102
BAD_BOOLEAN = 103
TRAILING = 104

REASONS = {
    CUT_SHORT: "it is cut short",
    BAD_VARINT: "a number is not readable",
    BAD_LENGTH: "a length points outside of it",
    BAD_COUNT: "a list says it is longer than the value",
    BAD_BRANCH: "a union or enum has no such member",
    BAD_TEXT: "a text is not UTF-8",
    BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    TRAILING: "bytes are left over behind it",
}

_MAX_INT = 0x7FFFFFFF
_MAX_EMPTY_ITEMS = 1 << 16
"""The greatest count of a block whose items take no bytes: a few bytes could claim any number."""


@kernel
def _is_utf8(buffer: Bytes, start: int, end: int) -> bool:
    seen = np.uint8(0)
    for i in range(start, end):
        seen |= buffer[i]
    if seen < 0x80:
        return True
    at = start
    while at < end:
        first = np.int64(buffer[at])
        at += 1
        if first < 0x80:
            continue
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if first < 0xC2 or first > 0xF4 or at + more > end:
            return False
        second = np.int64(buffer[at])
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < low or second > high:
            return False
        for i in range(1, more):
            if buffer[at + i] & 0xC0 != 0x80:
                return False
        at += more
    return True


@kernel
def _put(numbers: Int64s, firsts: Int64s, counts: Int64s, slot: int, value: int) -> None:
    if len(numbers):
        numbers[firsts[slot] + counts[slot]] = value
    counts[slot] += 1


@kernel
def _read_little(buffer: Bytes, at: int, width: int) -> int:
    value = np.int64(0)
    for i in range(width):
        value |= np.int64(buffer[at + i]) << (8 * i)
    return value


@kernel
def _scalar(  # noqa: PLR0911, PLR0912
    buffer: Bytes, at: int, end: int, op: int, extra: int
) -> tuple[int, int, int]:
    """Read a scalar or a length; return it, the next position, and an error code."""
    if op in (FLOAT, DOUBLE):
        width = 4 if op == FLOAT else 8
        if end - at < width:
            return np.int64(0), at, CUT_SHORT
        return _read_little(buffer, at, width), at + width, OK
    if op == BOOLEAN:
        if at >= end:
            return np.int64(0), at, CUT_SHORT
        if buffer[at] > 1:
            return np.int64(0), at, BAD_BOOLEAN
        return np.int64(buffer[at]), at + 1, OK
    if op == FIXED:
        if end - at < extra:
            return np.int64(0), at, CUT_SHORT
        return np.int64(extra), at, OK
    value, following = read_varlong(buffer, at, end)
    if following < 0:
        return np.int64(0), at, BAD_VARINT
    if op == INT and (value > _MAX_INT or value < -_MAX_INT - 1):
        return np.int64(0), at, BAD_VARINT
    if op in (ENUM, UNION) and (value < 0 or value >= extra):
        return np.int64(0), at, BAD_BRANCH
    if op in (BYTES, TEXT):
        if value < 0 or value > end - following:
            return np.int64(0), at, BAD_LENGTH
        if op == TEXT and not _is_utf8(buffer, following, following + value):
            return np.int64(0), at, BAD_TEXT
    return value, following, OK


@kernel
def _block(buffer: Bytes, at: int, end: int, is_empty: bool) -> tuple[int, int, int]:
    """Read the header of a list block; return its count, the next position, and an error code.

    An item takes a byte or more, unless it ``is_empty``: a record without fields.
    """
    count, following = read_varlong(buffer, at, end)
    if following < 0:
        return np.int64(0), at, BAD_VARINT
    if count < 0:
        count = -count
        _, following = read_varlong(buffer, following, end)
        if following < 0:
            return np.int64(0), at, BAD_VARINT
    if count < 0 or count > (_MAX_EMPTY_ITEMS if is_empty else end - following):
        return np.int64(0), at, BAD_COUNT
    return count, following, OK


@kernel
def _value(  # noqa: PLR0912, PLR0917
    buffer: Bytes,
    at: int,
    end: int,
    program: Int64s,
    left: Int64s,
    lengths: Int64s,
    numbers: Int64s,
    firsts: Int64s,
    counts: Int64s,
) -> tuple[int, int]:
    """Run the program once; return the position after the value, and an error code."""
    step, depth = np.int64(0), np.int64(-1)
    while program[step] != END:
        op, slot = program[step], program[step + 1]
        if op == JUMP:
            step = slot
        elif op == LIST:
            depth += 1
            left[depth], lengths[depth] = 0, 0
            step += 2
        elif op == NEXT:
            is_empty = program[step + 3] == JUMP
            if left[depth] == 0:
                left[depth], at, code = _block(buffer, at, end, is_empty)
                if code != OK:
                    return at, code
            if left[depth] == 0:
                _put(numbers, firsts, counts, slot, lengths[depth])
                depth -= 1
                step = program[step + 2]
            elif is_empty:
                lengths[depth] += left[depth]
                left[depth] = 0
            else:
                left[depth] -= 1
                lengths[depth] += 1
                step += 3
        else:
            extra = program[step + 2]
            value, at, code = _scalar(buffer, at, end, op, extra)
            if code != OK:
                return at, code
            if op == UNION:
                _put(numbers, firsts, counts, slot, value)
                step = program[step + 3 + value]
                continue
            step += 3
            if op in (BYTES, TEXT, FIXED):
                _put(numbers, firsts, counts, slot, at)
                slot += 1
                at += value
            _put(numbers, firsts, counts, slot, value)
    return at, OK


@kernel
def walk(  # noqa: PLR0917
    buffer: Bytes,
    starts: Int64s,
    ends: Int64s,
    chained: bool,
    program: Int64s,
    depth: int,
    numbers: Int64s,
    firsts: Int64s,
    counts: Int64s,
) -> tuple[int, int, int]:
    """Read one value for each start; return the count of valid values, a code, and the end.

    If ``numbers`` is empty, only count; otherwise fill it. ``chained`` values follow each other
    from the first start on. Other values must end exactly at their ``ends``.
    """
    left, lengths = np.zeros(depth, dtype=np.int64), np.zeros(depth, dtype=np.int64)
    at = np.int64(0)
    for row in range(len(starts)):
        if row == 0 or not chained:
            at = starts[row]
        end = ends[row]
        at, code = _value(buffer, at, end, program, left, lengths, numbers, firsts, counts)
        if code == OK and not chained and at != end:
            code = TRAILING
        if code != OK:
            return row, code, at
    return len(starts), OK, at


@kernel
def gather(
    buffer: Bytes, starts: Int64s, lengths: Int64s, offsets: NDArray[np.int32], data: Bytes
) -> None:
    """Copy byte spans into one buffer; ``offsets`` receives the start of each, and the end."""
    at = np.int64(0)
    for row in range(len(starts)):
        offsets[row] = at
        copy_bytes(data, at, buffer, starts[row], lengths[row])
        at += lengths[row]
    offsets[len(starts)] = at


_OPS = {
    WireType.FLOAT: FLOAT,
    WireType.DOUBLE: DOUBLE,
    WireType.BOOLEAN: BOOLEAN,
    WireType.FIXED: FIXED,
    WireType.ENUM: ENUM,
}


@dataclass(slots=True)
class Program:
    """Instructions, and the slots for the values and branches of each node, by node id."""

    code: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    slots: int = 0
    depth: int = 1
    """The nesting depth of lists, at least 1."""
    value: dict[int, int] = field(default_factory=dict)
    branch: dict[int, int] = field(default_factory=dict)


def compile_program(node: AvroNode) -> Program:
    """Return the program for one type; it identifies nodes by ``id``, so keep ``node`` alive."""
    program = Program()
    code: list[int] = []
    _emit(node, program, code, 1)
    code += [END, 0, 0]
    program.code = frozen(np.array(code, dtype=np.int64))
    program.slots = max(1, program.slots)
    return program


def _slot(program: Program, count: int = 1) -> int:
    program.slots += count
    return program.slots - count


def _emit(node: AvroNode, program: Program, code: list[int], depth: int) -> None:
    if node.wire_type is WireType.UNION:
        _emit_union(node, program, code, depth)
    elif node.value_branch >= 0:
        branches = 1 + max(node.null_branch, node.value_branch)
        targets = _emit_branches(node, program, code, branches)
        targets[node.value_branch] = len(code)
        _emit_value(node, program, code, depth)
        _patch(code, targets, node.null_branch)
    else:
        _emit_value(node, program, code, depth)


class _Targets(dict[int, int]):
    """The start of each branch; ``at`` is the position in the code that refers to them."""

    at = 0
    count = 0


def _emit_branches(node: AvroNode, program: Program, code: list[int], count: int) -> _Targets:
    slot = program.branch[id(node)] = _slot(program)
    code += [UNION, slot, count]
    targets = _Targets()
    targets.at, targets.count = len(code), count
    code += [0] * count
    return targets


def _patch(code: list[int], targets: _Targets, null_branch: int) -> None:
    if null_branch >= 0:
        targets[null_branch] = len(code)
    for branch in range(targets.count):
        code[targets.at + branch] = targets[branch]


def _emit_union(node: AvroNode, program: Program, code: list[int], depth: int) -> None:
    count = len(node.branches) + (node.null_branch >= 0)
    targets = _emit_branches(node, program, code, count)
    jumps = []
    for child, branch in zip(node.children, node.branches, strict=True):
        targets[branch] = len(code)
        _emit(child, program, code, depth)
        jumps.append(len(code) + 1)
        code += [JUMP, 0]
    for place in jumps:
        code[place] = len(code)
    _patch(code, targets, node.null_branch)


def _emit_value(node: AvroNode, program: Program, code: list[int], depth: int) -> None:
    match node.wire_type:
        case WireType.RECORD:
            for child in node.children:
                _emit(child, program, code, depth)
        case WireType.LIST:
            _emit_list(node, program, code, depth)
        case WireType.NUMBER:
            op = LONG if node.schema.kind is Kind.INT64 else INT
            code += [op, _value_slot(node, program), 0]
        case WireType.BYTES:
            op = TEXT if node.schema.kind is Kind.STRING else BYTES
            code += [op, _value_slot(node, program, 2), 0]
        case WireType.FIXED:
            code += [FIXED, _value_slot(node, program, 2), node.width]
        case _:
            code += [_OPS[node.wire_type], _value_slot(node, program), len(node.symbols)]


def _value_slot(node: AvroNode, program: Program, count: int = 1) -> int:
    slot = program.value[id(node)] = _slot(program, count)
    return slot


def _emit_list(node: AvroNode, program: Program, code: list[int], depth: int) -> None:
    program.depth = max(program.depth, depth)
    slot = _value_slot(node, program)
    code += [LIST, slot]
    start = len(code)
    code += [NEXT, slot, 0]
    _emit(node.children[0], program, code, depth + 1)
    code += [JUMP, start]
    code[start + 2] = len(code)
