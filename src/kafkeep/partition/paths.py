"""Texts as parts of paths: nothing changes or leaves the path, and no two texts give one part.

Most texts stand as they are, spaces, ``=`` and any script too, as in Confluent's sink. Written
as the ``%XX`` of their UTF-8 bytes are ``/``, ``%`` and what no key may have. A part that would be
``.`` or ``..`` has ``%2E`` for its dots. ``null`` alone means that there is no value; the text of
four letters is ``%6Eull``. An empty text is ``%empty``. A long text is cut and ends in ``%~`` and a
digest of the whole.
"""

from __future__ import annotations

import hashlib
import re

from kafkeep.archive.names import NOT_IN_KEYS

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
