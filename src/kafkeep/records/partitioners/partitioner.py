"""The protocol of a partitioner, and texts as parts of paths.

No text changes or leaves the path, and no two texts give the same part. Most texts stand as they
are, with spaces, ``=`` and any script, as in Confluent's sink. ``/``, ``%`` and what no key may
have are written as the ``%XX`` of their UTF-8 bytes. A part that would be ``.`` or ``..`` has
``%2E`` for its dots. ``null`` alone means that there is no value; the text of four letters is
``%6Eull``. An empty text is ``%empty``. A long text is cut and ends in ``%~`` and a digest of the
whole.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kafkeep.archive.names import NOT_IN_KEYS
from kafkeep.errors import RecordError
from kafkeep.records.rows import Rows


@dataclass(frozen=True, slots=True)
class Placed:
    """Where records go: the directory of record ``i`` is ``paths[codes[i]]``.

    A directory is what stands between the topic and the file name, ``partition=0`` or
    ``year=2024/month=12``, written with ``/`` (the writer puts ``directory.delim`` in).
    """

    codes: NDArray[np.int32]
    paths: tuple[str, ...]
    times: NDArray[np.int64] | None
    """The time a record was placed by, in ms; None when time plays no part."""
    tombstones: int | None = None
    """Which of the paths is the folder of records without a value; None without one."""

    def take(self, rows: NDArray[np.int64]) -> Placed:
        """Return the same for some of the records."""
        times = None if self.times is None else self.times[rows]
        return replace(self, codes=self.codes[rows], times=times)


class Partitioner(Protocol):
    """Pure: the same rows and clock reading give the same directories."""

    def place(self, rows: Rows, *, at_ms: int) -> Placed:
        """Place records; ``at_ms`` is the clock reading of this cycle (Wallclock).

        RecordError when a record has no place; the caller then tries smaller pieces.
        """


class RowProblem(Exception):
    """A row of a column cannot be read; whoever knows the rows says which record it is."""

    def __init__(self, row: int, why: str, hint: str | None = None) -> None:
        super().__init__(row, why)
        self.row = row
        self.why = why
        self.hint = hint

    def to_error(self, rows: Rows) -> RecordError:
        """Return the error that names the record."""
        return RecordError(
            f"{rows.topic}-{rows.partition} offset {rows.offsets[self.row]}:"
            f" error encoding partition: {self.why}",
            hint=self.hint,
        )


NULL = "null"
MAX_BYTES = 200
"""A name in a file system has 255 bytes at most, a key of S3 1024."""

_EMPTY = "%empty"
_CUT = "%~"
_DIGEST_DIGITS = 32
_UNSAFE = re.compile(f"[/%{NOT_IN_KEYS}]")
_ESCAPES = re.compile(r"((?:%[0-9A-F]{2})+)")
_WHOLE = {"": _EMPTY, NULL: "%6Eull", ".": "%2E", "..": "%2E%2E"}


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def encode_part(text: str, *, max_bytes: int = MAX_BYTES) -> str:
    """Return a text as one part of a path; different texts give different parts.

    The result has ``max_bytes`` at most, when that is 64 or more. Texts with lone surrogates
    have no form: UnicodeEncodeError.
    """
    if text in _WHOLE:
        return _WHOLE[text]
    part = _UNSAFE.sub(_escape, text)
    whole = part.encode()
    if len(whole) <= max_bytes:
        return part
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]
    room = max(max_bytes, 64) - len(_CUT) - _DIGEST_DIGITS
    # Neither a character nor an escape is cut in two.
    kept = re.sub(r"%[0-9A-F]?\Z", "", whole[:room].decode(errors="ignore"))
    return f"{kept}{_CUT}{digest}"


def decode_part(part: str) -> str:
    """Return the text that ``encode_part`` was given; ValueError when only its digest is left."""
    if part == _EMPTY:
        return ""
    if _CUT in part:
        raise ValueError(f"{part!r} is a long text cut short: its digest cannot be undone")
    return _ESCAPES.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode(), part)


def encode_label(name: str) -> str:
    """Return the name of a field as it stands in front of ``=``."""
    return _UNSAFE.sub(_escape, name).replace("=", "%3D")


def name_part(label: str, text: str | None, *, raw: bool, max_bytes: int = MAX_BYTES) -> str:
    """Return ``label=value``; None is ``label=null``.

    ``raw`` is Confluent's form: nothing is changed, so a value may make directories of its own,
    and the text ``null`` is not told from no value.
    """
    if raw:
        return f"{label}={NULL if text is None else text}"
    value = NULL if text is None else encode_part(text, max_bytes=max_bytes)
    return f"{encode_label(label)}={value}"
