"""Check JSON texts in Arrow columns strictly, and remove line breaks outside strings; pure."""

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's. ``in`` would
# compile to a loop.
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
"""The maximum nesting depth of arrays and objects. Deeper documents are rejected."""

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

# Status codes of rows.
_BROKEN_LINES = 1
_BAD = 2


@dataclass(frozen=True, slots=True)
class CheckedTexts:
    """The result of ``check_texts``."""

    texts: pa.Array
    """Valid documents on one line each; nulls and bad rows are unchanged."""
    bad: NDArray[np.int64]
    """The rows that are not exactly one valid document, in order."""

    def why(self, row: int) -> str:
        """Return the reason why a row is bad, and the position of the bad byte."""
        text = self.texts[row].as_py()
        if text.startswith(b"\xef\xbb\xbf"):
            return "a byte order mark stands before the document, at byte 0"
        data, closers = view_bytes(text), np.zeros(MAX_DEPTH + 1, dtype=np.uint8)
        code, at = divmod(_check_one(data, closers), 1 << 48)
        return f"{_REASONS[code]}, at byte {at}"


def check_texts(values: pa.Array) -> CheckedTexts:
    r"""Find the rows that are not exactly one JSON document (RFC 8259 in UTF-8).

    Line breaks outside strings are removed, and every other byte is kept. If there are none, the
    result holds ``values`` itself. Nulls stay null and are not bad. A lone surrogate written as an
    escape (``"\ud800"``) is allowed.
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
    """Copy all rows; remove the line breaks of valid rows, which have none inside strings."""
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
    """Skip a key, its colon, and the white space around them."""
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
    """Skip closing brackets after a value, and the comma and key before the next value.

    Return the position, the depth and the number of line breaks so far. At depth 0 the document is
    complete.
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
    """Return the number of line breaks in a valid document, or the result of ``fail``.

    ``closers`` has room for ``MAX_DEPTH`` + 1 bytes. It holds the closing bracket of each open
    value.
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
    """Set the status of each row; return the number of line breaks to remove."""
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
    """Return the error of a bad text: the code << 48, plus the position."""
    base = address_of(data)
    found = -_check_text(base, base + len(data), base + len(data), address_of(closers))
    return ((found & 15) << 48) | ((found >> 4) - base)
