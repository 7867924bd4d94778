"""JSON texts in Arrow columns: checked strictly and put on one line each, otherwise unchanged."""

# Compiled code has one integer type; mypy tells numpy's from Python's. ``in`` would be a loop.
# mypy: disable-error-code="return-value,assignment,arg-type,no-any-return"
# ruff: noqa: PLR1714

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes, address_of, byte_at, copy_bytes, inlined, kernel, view_bytes
from kafkeep.records.arrow import BinaryView, binary_of_buffers, join_lines, join_with, view_binary
from kafkeep.records.json.edit import FieldKind, FieldSpans, field_texts, find_fields
from kafkeep.records.json.scan import (
    BAD_ESCAPE,
    BAD_NUMBER,
    BAD_UTF8,
    CONTROL,
    CUT_SHORT,
    EMPTY,
    NO_COLON,
    NO_COMMA,
    NO_KEY,
    NO_VALUE,
    TOO_DEEP,
    TRAILING,
    fail,
    put_byte,
    skip_scalar,
    skip_space,
    skip_string,
)

__all__ = [
    "MAX_DEPTH",
    "CheckedTexts",
    "FieldKind",
    "FieldSpans",
    "check_texts",
    "field_texts",
    "find_fields",
    "join_lines",
    "join_with",
]

MAX_DEPTH = 1000
"""Arrays and objects inside of each other; deeper is not read."""

_REASONS = {
    EMPTY: "there is no document",
    CUT_SHORT: "it ends too early",
    NO_VALUE: "this is not a value",
    NO_KEY: "a key in double quotes should stand here",
    NO_COLON: "a colon should stand here",
    NO_COMMA: "a comma or a closing bracket should stand here",
    TRAILING: "something follows the document",
    TOO_DEEP: f"more than {MAX_DEPTH} arrays and objects are inside of each other",
    BAD_NUMBER: "this is not a number as JSON writes them",
    BAD_ESCAPE: "there is no such escape",
    CONTROL: "a control character stands in a string as it is",
    BAD_UTF8: "this is not UTF-8",
}

# What became of a row.
_BROKEN_LINES = 1
_BAD = 2


@dataclass(frozen=True, slots=True)
class CheckedTexts:
    """What ``check_texts`` found."""

    texts: pa.Array
    """Valid documents as one line each; nulls and bad rows as they came."""
    bad: NDArray[np.int64]
    """Rows that are not exactly one valid document, in order."""

    def why(self, row: int) -> str:
        """Say what is wrong with a bad row, and at which byte of it."""
        text = self.texts[row].as_py()
        if text.startswith(b"\xef\xbb\xbf"):
            return "a byte order mark stands before the document, at byte 0"
        data, closers = view_bytes(text), np.zeros(MAX_DEPTH + 1, dtype=np.uint8)
        code, at = divmod(_check_one(data, closers), 1 << 48)
        return f"{_REASONS[code]}, at byte {at}"


def check_texts(values: pa.Array) -> CheckedTexts:
    r"""Find the rows that are not exactly one JSON document (RFC 8259, in UTF-8, nothing more).

    Line breaks outside of strings are taken out, every other byte stays; without any, the result
    is ``values`` itself. Nulls stay null and are not bad. A lone surrogate written as an escape
    (``"\ud800"``) is allowed.
    """
    view = view_binary(values)
    status: Bytes = np.zeros(len(view), dtype=np.uint8)
    closers: Bytes = np.zeros(MAX_DEPTH + 1, dtype=np.uint8)
    breaks = _check_rows(view.data, view.offsets, view.valid, view.first, closers, status)
    bad = np.flatnonzero(status == _BAD)
    return CheckedTexts(_without_breaks(values, view, status, breaks) if breaks else values, bad)


def _without_breaks(values: pa.Array, view: BinaryView, status: Bytes, breaks: int) -> pa.Array:
    rows = len(view)
    out: Bytes = np.empty(int(view.offsets[rows] - view.offsets[0]) - breaks, dtype=np.uint8)
    offsets: NDArray[np.int32] = np.zeros(rows + 1, dtype=np.int32)
    _copy_rows(view.data, view.offsets, status, offsets, out)
    valid = None
    if len(view.valid):
        bits = np.unpackbits(view.valid, bitorder="little")[view.first : view.first + rows]
        valid = np.packbits(bits, bitorder="little")
    return binary_of_buffers(out, offsets, valid, values.type)


@kernel
def _copy_rows(
    data: Bytes,
    offsets: NDArray[np.int32],
    status: Bytes,
    out_offsets: NDArray[np.int32],
    out: Bytes,
) -> None:
    """Copy all rows; those that have line breaks, which are never in strings, without them."""
    at = 0
    for row in range(len(status)):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if status[row] == _BROKEN_LINES:
            for i in range(start, end):
                if data[i] != 0x0A and data[i] != 0x0D:
                    out[at] = data[i]
                    at += 1
        else:
            copy_bytes(out, at, data, start, end - start)
            at += end - start
        out_offsets[row + 1] = at


@inlined
def _skip_key(at: int, end: int, limit: int, breaks: int) -> tuple[int, int]:
    """Read a key and its colon, and the white space around."""
    at, breaks = skip_space(at, end, breaks)
    if at >= end:
        return fail(CUT_SHORT, end), breaks
    if byte_at(at) != 0x22:
        return fail(NO_KEY, at), breaks
    at = skip_string(at + 1, end, limit)
    if at < 0:
        return at, breaks
    at, breaks = skip_space(at, end, breaks)
    if at >= end:
        return fail(CUT_SHORT, end), breaks
    if byte_at(at) != 0x3A:
        return fail(NO_COLON, at), breaks
    return skip_space(at + 1, end, breaks)


@inlined
def _close(  # noqa: PLR0917
    at: int, end: int, limit: int, closers: int, depth: int, breaks: int
) -> tuple[int, int, int]:
    """Read what follows a value: closing brackets, and the comma and key before the next value.

    Return the place, the depth and the line breaks so far; at depth 0 the document is over.
    """
    while depth > 0:
        at, breaks = skip_space(at, end, breaks)
        if at >= end:
            return fail(CUT_SHORT, end), depth, breaks
        byte, closer = byte_at(at), byte_at(closers + depth)
        if byte == 0x2C:
            if closer == 0x7D:
                at, breaks = _skip_key(at + 1, end, limit, breaks)
            else:
                at, breaks = skip_space(at + 1, end, breaks)
            return at, depth, breaks
        if byte != closer:
            return fail(NO_COMMA, at), depth, breaks
        at += 1
        depth -= 1
    return at, depth, breaks


@kernel
def _check_text(start: int, end: int, limit: int, closers: int) -> int:  # noqa: PLR0911
    """Return how many line breaks are in one valid document, or what ``fail`` gives.

    ``closers`` is room for ``MAX_DEPTH`` + 1 bytes: the bracket that ends each open value.
    """
    at, breaks = skip_space(start, end, 0)
    depth = np.int64(0)
    if at >= end:
        return fail(EMPTY, end)
    while at < end:
        byte = byte_at(at)
        if byte == 0x7B or byte == 0x5B:
            if depth >= MAX_DEPTH:
                return fail(TOO_DEEP, at)
            at, breaks = skip_space(at + 1, end, breaks)
            if at >= end:
                break
            if byte_at(at) != byte + 2:
                depth += 1
                put_byte(closers + depth, byte + 2)
                if byte == 0x7B:
                    at, breaks = _skip_key(at, end, limit, breaks)
                    if at < 0:
                        return at
                continue
            at += 1
        else:
            at = skip_scalar(at, end, limit)
            if at < 0:
                return at
        at, depth, breaks = _close(at, end, limit, closers, depth, breaks)
        if at < 0:
            return at
        if depth == 0:
            at, breaks = skip_space(at, end, breaks)
            return breaks if at >= end else fail(TRAILING, at)
    return fail(CUT_SHORT, end)


@kernel
def _check_rows(  # noqa: PLR0917
    data: Bytes,
    offsets: NDArray[np.int32],
    valid: Bytes,
    first: int,
    closers: Bytes,
    status: Bytes,
) -> int:
    """Set the status of each row; return how many line breaks are to be taken out."""
    base, brackets = address_of(data), address_of(closers)
    limit = base + len(data)
    total = 0
    for row in range(len(status)):
        at = first + row
        if len(valid) and not (valid[at >> 3] >> (at & 7)) & 1:
            continue
        breaks = _check_text(base + offsets[row], base + offsets[row + 1], limit, brackets)
        if breaks < 0:
            status[row] = _BAD
        elif breaks > 0:
            status[row] = _BROKEN_LINES
            total += breaks
    return total


@kernel
def _check_one(data: Bytes, closers: Bytes) -> int:
    """Return what is wrong with a bad text: the code << 48, and the byte."""
    base = address_of(data)
    found = -_check_text(base, base + len(data), base + len(data), address_of(closers))
    return ((found & 15) << 48) | ((found >> 4) - base)
