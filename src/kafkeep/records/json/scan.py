"""Compiled kernels that find the end of strings, numbers and white space in JSON text; pure.

They follow RFC 8259 strictly, including UTF-8. Each function returns the position after the token,
or a negative number from ``fail`` that encodes the error and its position.

Positions are memory addresses. With an array as an argument, numba counts references at each call,
which takes four times as long as the work itself. The text ends before ``end``. The buffer ends
before ``limit``, and nothing at or after ``limit`` is read.
"""

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's. ``in`` would
# compile to a loop.
# mypy: disable-error-code="return-value,assignment,arg-type,no-any-return"
# ruff: noqa: PLR1714

from __future__ import annotations

from typing import Any

import numpy as np

from kafkeep.numba_setup import byte_at, inlined, intrinsic, ir, kernel, types

# Error codes.
EMPTY = 1
CUT_SHORT = 2
NO_VALUE = 3
NO_KEY = 4
NO_COLON = 5
NO_COMMA = 6
TRAILING = 7
TOO_DEEP = 8
BAD_NUMBER = 9
BAD_ESCAPE = 10
CONTROL = 11
BAD_UTF8 = 12

_LANES = 32


def _load(builder: Any, address: Any) -> Any:
    """Emit a load of 32 bytes."""
    kind = ir.VectorType(ir.IntType(8), _LANES).as_pointer()
    return builder.load(builder.inttoptr(address, kind), align=1)


def _first(builder: Any, hits: Any) -> Any:
    """Emit the index of the first marked byte, or 32 if none is marked."""
    wide = ir.IntType(64)
    mask = builder.zext(builder.bitcast(hits, ir.IntType(_LANES)), wide)
    stop = builder.or_(mask, ir.Constant(wide, 1 << _LANES))
    return builder.cttz(stop, ir.Constant(ir.IntType(1), 1))


def _splat(value: int) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(8), _LANES), [value] * _LANES)


@intrinsic()
def put_byte(typing: Any, at: Any, byte: Any) -> tuple[Any, Any]:
    """Write one byte; the caller checks the bounds."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        small = builder.trunc(args[1], ir.IntType(8))
        builder.store(small, builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic()
def _plain_run(typing: Any, at: Any) -> tuple[Any, Any]:
    """Count the plain string bytes from ``at`` on, at most 32.

    The count stops at quotes, backslashes, control characters and non-ASCII bytes. As signed
    numbers, the last two are less than 0x20.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        chunk = _load(builder, args[0])
        quote = builder.icmp_signed("==", chunk, _splat(0x22))
        slash = builder.icmp_signed("==", chunk, _splat(0x5C))
        odd = builder.icmp_signed("<", chunk, _splat(0x20))
        return _first(builder, builder.or_(builder.or_(quote, slash), odd))

    return types.int64(types.int64), generate


@intrinsic()
def _same_run(typing: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """Count the leading bytes, at most 32, that are equal at both addresses."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        chunks = [_load(builder, address) for address in args]
        return _first(builder, builder.icmp_unsigned("!=", *chunks))

    return types.int64(types.int64, types.int64), generate


@inlined
def same_bytes(one: int, other: int, size: int) -> bool:
    """Return whether two memory ranges are equal."""
    at = 0
    while at + _LANES <= size:
        if _same_run(one + at, other + at) < _LANES:
            return False
        at += _LANES
    while at < size:
        if byte_at(one + at) != byte_at(other + at):
            return False
        at += 1
    return True


@inlined
def fail(code: int, at: int) -> int:
    """Return an error code and a position as one negative number."""
    return -(at * 16 + code)


@inlined
def _skip_hex(at: int, end: int) -> int:
    """Skip four hex digits."""
    for i in range(at, at + 4):
        if i >= end:
            return fail(CUT_SHORT, end)
        byte = byte_at(i)
        letter = byte | 0x20
        if not (0x30 <= byte <= 0x39 or 0x61 <= letter <= 0x66):
            return fail(BAD_ESCAPE, at - 2)
    return at + 4


@kernel
def _skip_escape(at: int, end: int) -> int:
    """Skip the escape whose backslash is at ``at``; lone surrogates are allowed."""
    if at + 1 >= end:
        return fail(CUT_SHORT, end)
    byte = byte_at(at + 1)
    if byte == 0x75:
        return _skip_hex(at + 2, end)
    if (
        byte == 0x6E
        or byte == 0x22
        or byte == 0x5C
        or byte == 0x2F
        or byte == 0x74
        or byte == 0x72
        or byte == 0x62
        or byte == 0x66
    ):
        return at + 2
    return fail(BAD_ESCAPE, at)


@kernel
def _skip_utf8(at: int, end: int) -> int:
    """Skip one non-ASCII character; reject overlong forms, surrogates and values over 10FFFF."""
    lead = byte_at(at)
    low, high = 0x80, 0xBF
    if 0xC2 <= lead <= 0xDF:
        more = 1
    elif 0xE0 <= lead <= 0xEF:
        more = 2
        low = 0xA0 if lead == 0xE0 else 0x80
        high = 0x9F if lead == 0xED else 0xBF
    elif 0xF0 <= lead <= 0xF4:
        more = 3
        low = 0x90 if lead == 0xF0 else 0x80
        high = 0x8F if lead == 0xF4 else 0xBF
    else:
        return fail(BAD_UTF8, at)
    for i in range(at + 1, at + 1 + more):
        if i >= end or not low <= byte_at(i) <= high:
            return fail(BAD_UTF8, at)
        low, high = 0x80, 0xBF
    return at + 1 + more


@inlined
def skip_string(at: int, end: int, limit: int) -> int:
    """Skip a string; ``at`` is the position after its opening quote."""
    wide = limit - _LANES
    while True:
        if at <= wide:
            count = _plain_run(at)
            at += count
            if count == _LANES and at < end:
                continue
        if at >= end:
            return fail(CUT_SHORT, end)
        byte = byte_at(at)
        if byte == 0x22:
            return at + 1
        if byte == 0x5C:
            at = _skip_escape(at, end)
        elif byte < 0x20:
            return fail(CONTROL, at)
        elif byte < 0x80:
            at += 1
        else:
            at = _skip_utf8(at, end)
        if at < 0:
            return at


@inlined
def _skip_digits(at: int, end: int) -> int:
    """Skip one or more digits."""
    start = at
    while at < end and 0x30 <= byte_at(at) <= 0x39:
        at += 1
    return at if at > start else fail(BAD_NUMBER, at)


@inlined
def _skip_number(at: int, end: int) -> int:
    """Skip a number; do not check what follows it."""
    if byte_at(at) == 0x2D:
        at += 1
    if at < end and byte_at(at) == 0x30:
        at += 1
        if at < end and 0x30 <= byte_at(at) <= 0x39:
            return fail(BAD_NUMBER, at)
    else:
        at = _skip_digits(at, end)
    if 0 <= at < end and byte_at(at) == 0x2E:
        at = _skip_digits(at + 1, end)
    if 0 <= at < end and byte_at(at) | 0x20 == 0x65:
        at += 1
        if at < end and (byte_at(at) == 0x2B or byte_at(at) == 0x2D):
            at += 1
        at = _skip_digits(at, end)
    return at


@kernel
def _skip_word(at: int, end: int) -> int:
    """Skip ``true``, ``false`` or ``null``."""
    size = 5 if byte_at(at) == 0x66 else 4
    if at + size > end:
        return fail(NO_VALUE, at)
    word = np.int64(0)
    for i in range(at, at + size):
        word = (word << 8) | byte_at(i)
    if word == 0x74727565 or word == 0x66616C7365 or word == 0x6E756C6C:
        return at + size
    return fail(NO_VALUE, at)


@inlined
def skip_scalar(at: int, end: int, limit: int) -> int:
    """Skip a string, number or word; ``at`` must be before ``end``."""
    byte = byte_at(at)
    if byte == 0x22:
        return skip_string(at + 1, end, limit)
    if 0x30 <= byte <= 0x39 or byte == 0x2D:
        return _skip_number(at, end)
    return _skip_word(at, end)


@inlined
def skip_space(at: int, end: int, breaks: int) -> tuple[int, int]:
    """Skip white space; return the next position, and ``breaks`` plus the line breaks skipped."""
    while at < end:
        byte = byte_at(at)
        if byte > 0x20:
            break
        if byte == 0x0A or byte == 0x0D:
            breaks += 1
        elif byte != 0x20 and byte != 0x09:
            break
        at += 1
    return at, breaks
