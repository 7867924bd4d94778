"""Find records by key or header: the conditions of ``kafkeep find``, on decoded columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.errors import UsageError
from kafkeep.options.restore import parse_bytes

_HINT = "Write --header name=value, or --header name for any value."


@dataclass(frozen=True, slots=True)
class HeaderPattern:
    """A header that a record must have; ``value`` None accepts any value, also null."""

    name: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPattern:
    """The records to find: those that match the key, if given, and every header.

    With ``regex``, key and header values are RE2 expressions that match anywhere in the bytes, in
    linear time. A null key and a null header value match nothing.
    """

    key: bytes | None = None
    headers: tuple[HeaderPattern, ...] = ()
    regex: bool = False

    def __post_init__(self) -> None:
        if self.key is None and not self.headers:
            raise UsageError("there is nothing to look for", hint="Give --key, --header, or both.")
        if self.regex:
            for pattern in (self.key, *(header.value for header in self.headers)):
                if pattern is not None:
                    _check(pattern)

    def select(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return the matching records, in order."""
        if self.key is not None:
            found = self._matches(records.column("key"), self.key)
            records = records.filter(pc.fill_null(found, False))
        for header in self.headers:
            if not records.num_rows:
                break
            records = records.take(self._rows_with(records.column("headers"), header))
        return records

    def _matches(self, column: pa.Array, pattern: bytes) -> pa.Array:
        if not self.regex:
            return pc.equal(column, pa.scalar(pattern, column.type))
        return pc.match_substring_regex(column.cast(pa.binary()), pattern.decode())

    def _rows_with(self, headers: pa.Array, wanted: HeaderPattern) -> pa.Array:
        """Return the rows that have the header, ascending."""
        flat, rows = pc.list_flatten(headers), pc.list_parent_indices(headers)
        names = pc.struct_field(flat, "key")
        mask = pc.equal(names, pa.scalar(wanted.name, names.type))
        if wanted.value is not None:
            values = pc.struct_field(flat, "value")
            mask = pc.and_kleene(mask, self._matches(values, wanted.value))
        return pc.unique(rows.filter(pc.fill_null(mask, False)))


def parse_pattern(key: str | None, headers: Sequence[str], *, regex: bool) -> RecordPattern:
    """Parse ``--key`` and ``--header name=value``; ``hex:00ff`` is bytes."""
    found = []
    for text in headers:
        name, equals, value = text.partition("=")
        if not name:
            raise UsageError(f"{text!r} has no name of a header", hint=_HINT)
        found.append(HeaderPattern(name.encode(), _value(value, regex) if equals else None))
    wanted = None if key is None else _value(key, regex)
    return RecordPattern(key=wanted, headers=tuple(found), regex=regex)


def _value(text: str, regex: bool) -> bytes:
    return text.encode() if regex else parse_bytes(text, hint="Write bytes as hex:00ff.")


def _check(pattern: bytes) -> None:
    try:
        pc.match_substring_regex(pa.array([b""]), pattern.decode())
    except pa.ArrowInvalid as error:
        why = re.sub(r"^Invalid regular expression: ", "", str(error))
        raise UsageError(
            f"{pattern.decode()!r} is not a regular expression: {why}",
            hint="The syntax is RE2's: no backreferences, no lookaround.",
        ) from error
