r"""Files that options name: their paths, their text, and Java's ``.properties`` format.

Properties follow ``java.util.Properties.load``: ``#`` and ``!`` begin comments, a backslash
at the end of a line joins it to the next, a key ends at the first unescaped ``=``, ``:`` or
blank, and ``\t \n \r \f \uXXXX`` are escapes. The last of two equal keys wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from kafkeep.errors import UsageError


def check_path(path: str | Path) -> Path:
    """Return a path; UsageError if no file can have this name: a NUL, an unpaired surrogate."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise UsageError(f"{str(path)!r} is not a path")
    return Path(path)


def load_text(path: str | Path) -> str:
    """Return the text of a file; UsageError names the file and the reason."""
    try:
        return check_path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error


_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of ``text``; UsageError names an invalid line."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            found[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise UsageError(f"line {number}: {error}") from error
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    joined, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = natural.lstrip(_BLANK)
        if not first:
            if not line or line[0] in "#!":
                continue
            first = number
        if _ends_with_open_backslash(line):
            joined += line[:-1]
            continue
        yield first, joined + line
        joined, first = "", 0
    if first:
        yield first, joined


def _ends_with_open_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return key, rest


def _unescape(text: str) -> str:
    plain = _ESCAPED.sub(lambda match: _character(match[1]), text)
    # Java writes a character outside the basic plane as two \u escapes.
    return _SURROGATES.sub(
        lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), plain
    )


def _character(escape: str) -> str:
    if escape[0] == "u":
        if len(escape) != 5:
            raise ValueError(r"\u needs four hexadecimal digits")
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, escape)
