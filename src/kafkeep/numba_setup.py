"""The primitives of all compiled loops over bytes.

Kernels read unchecked bytes. A kernel never raises and never reads beyond the ``end`` it is given.
It returns an error code, and ``damaged`` turns the code into an error.

Importing this loads no compiler: ``kernels.py`` loads it when a kernel is called.
"""

# Compiled code has one integer type; mypy distinguishes numpy's from Python's.
# mypy: disable-error-code="return-value"

from __future__ import annotations

import ctypes
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkeep.errors import DamagedError
from kafkeep.kernels import inlined, intrinsic, kernel, lazy_module

__all__ = ["inlined", "intrinsic", "kernel", "lazy_module"]

ir = lazy_module("llvmlite.ir")
cgutils = lazy_module("numba.core.cgutils")
types = lazy_module("numba.core.types")

Bytes: TypeAlias = NDArray[np.uint8]
Int64s: TypeAlias = NDArray[np.int64]
_CACHE_LINE_BYTES = 64
_AHEAD_BYTES = 1024

# Error codes of kernels; 0 is success.
OK = 0
CUT_SHORT = 1
BAD_VARINT = 2
BAD_LENGTH = 3
BAD_COUNT = 4
BAD_OFFSET = 5
BAD_MAGIC = 6
BAD_CODEC = 7
OLD_MAGIC = 8
BAD_CRC = 9
BAD_ORDER = 10

_REASONS = {
    CUT_SHORT: "truncated",
    BAD_VARINT: "a varint is invalid",
    BAD_LENGTH: "a length exceeds the batch",
    BAD_COUNT: "the number of records does not match the header",
    BAD_OFFSET: "offsets do not match the header",
    BAD_MAGIC: "not a record batch",
    BAD_CODEC: "the compression codec is unknown",
    BAD_ORDER: "its offsets are below those of the previous batch",
    BAD_CRC: "its checksum does not match",
}


def damaged(code: int, position: int, offset: int) -> DamagedError:
    """Return the error for a kernel's code; it names the batch and the position in its bytes."""
    reason = _REASONS[code]
    return DamagedError(f"record batch at offset {offset} is damaged at byte {position}: {reason}")


def view_bytes(buffer: Any) -> Bytes:
    """Return a bytes-like object as a read-only array, without a copy.

    Always read-only, so that each kernel is compiled for one type only.
    """
    view = np.frombuffer(buffer, dtype=np.uint8)
    view.flags.writeable = False
    return view


@intrinsic(plain=lambda buffer: buffer.__array_interface__["data"][0])
def address_of(typing: Any, buffer: Any) -> tuple[Any, Any]:
    """Return the address of an array's bytes; the caller keeps the array alive."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(array.data, ir.IntType(64))

    return types.int64(buffer), generate


@intrinsic(plain=lambda at: np.int64(ctypes.c_uint8.from_address(int(at)).value))
def byte_at(typing: Any, at: Any) -> tuple[Any, Any]:
    """Read one byte; the caller has checked the bounds."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic(plain=lambda at: None)
def _prefetch(typing: Any, at: Any) -> tuple[Any, Any]:
    """Prefetch a cache line. Any address is allowed, because nothing is read."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), wanted)
        to_read, keep_near, data = number(0), number(3), number(1)
        builder.call(call, [builder.inttoptr(args[0], pointer), to_read, keep_near, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@inlined
def fetch_ahead(buffer: Bytes, position: int, fetched: int) -> int:
    """Prefetch the bytes after ``position``; return the position up to which that was done.

    Only a record's length shows where the next one begins. Without prefetching, a loop over records
    waits for memory at each record and takes five times as long.
    """
    start = address_of(buffer)
    fetched = max(fetched, position)
    while fetched < position + _AHEAD_BYTES:
        _prefetch(start + fetched)
        fetched += _CACHE_LINE_BYTES
    return fetched


@inlined
def read_i16(buffer: Bytes, position: int) -> int:
    """Read a big-endian int16; the caller has checked the bounds."""
    value = (np.int64(buffer[position]) << 8) | np.int64(buffer[position + 1])
    return value - ((value & 0x8000) << 1)


@inlined
def read_i32(buffer: Bytes, position: int) -> int:
    """Read a big-endian int32; the caller has checked the bounds."""
    value = np.int64(0)
    for i in range(4):
        value = (value << 8) | np.int64(buffer[position + i])
    return value - ((value & 0x80000000) << 1)


@inlined
def read_i64(buffer: Bytes, position: int) -> int:
    """Read a big-endian int64; the caller has checked the bounds."""
    value = np.int64(0)
    for i in range(8):
        value = (value << 8) | np.int64(buffer[position + i])
    return value


@inlined
def read_varlong(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zigzag varlong; return it and the next position, which is -1 if it is invalid."""
    # numba counts no references for an array that is not used after this line.
    start = address_of(buffer) + position
    value = np.int64(0)
    for i in range(min(end - position, 10)):
        byte = byte_at(start + i)
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position + i + 1
    return np.int64(0), np.int64(-1)


@inlined
def read_varint(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zigzag varint of 32 bits; return it and the next position, -1 if it is invalid."""
    start = address_of(buffer) + position
    value = np.int64(0)
    for i in range(min(end - position, 5)):
        byte = byte_at(start + i)
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                return np.int64(0), np.int64(-1)
            return (value >> 1) ^ -(value & 1), position + i + 1
    return np.int64(0), np.int64(-1)


@inlined
def varlong_size(value: int) -> int:
    """Return how many bytes ``write_varlong`` will use."""
    rest = (value << 1) ^ (value >> 63)
    size = 1
    while (rest >> 7) & 0x01FFFFFFFFFFFFFF:
        rest = (rest >> 7) & 0x01FFFFFFFFFFFFFF
        size += 1
    return size


@inlined
def write_varlong(buffer: Bytes, position: int, value: int) -> int:
    """Write a zigzag varlong (same bytes as a varint where it fits); return the next position."""
    rest = (value << 1) ^ (value >> 63)
    while rest & ~0x7F:
        buffer[position] = np.uint8((rest & 0x7F) | 0x80)
        rest = (rest >> 7) & 0x01FFFFFFFFFFFFFF
        position += 1
    buffer[position] = np.uint8(rest)
    return position + 1


def _copy_slice(
    target: Bytes, target_position: int, source: Bytes, source_position: int, count: int
) -> None:
    end = source_position + count
    target[target_position : target_position + count] = source[source_position:end]


@intrinsic(plain=_copy_slice)
def copy_bytes(  # noqa: PLR0917
    typing: Any, target: Any, target_position: Any, source: Any, source_position: Any, count: Any
) -> tuple[Any, Any]:
    """Copy memory between two arrays of bytes; the caller has checked the bounds."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers = [
            builder.gep(
                context.make_array(signature.args[i])(context, builder, args[i]).data,
                [args[i + 1]],
            )
            for i in (0, 2)
        ]
        cgutils.raw_memcpy(builder, pointers[0], pointers[1], args[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), generate


def varint(number: int) -> bytes:
    """Return a number that is not negative, seven bits to the byte, the lowest first.

    In plain Python, for headers and footers; kernels use ``write_varlong``.
    """
    out = bytearray()
    while number > 0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag_varint(number: int) -> bytes:
    """Return any number; small ones of either sign take few bytes."""
    return varint(2 * number if number >= 0 else -2 * number - 1)
