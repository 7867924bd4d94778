"""Java's regular expressions and replacements, as Connect's routers and predicates take them.

They are matched against topic names with Python's ``re``: what both write differently is
translated, what only Java has is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkeep.errors import UsageError

_CLASSES = {
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Upper": "A-Z",
    "Lower": "a-z",
    "Punct": r"!-/:-@\[-`{-~",
    "XDigit": "0-9a-fA-F",
    "Space": r"\s",
    "L": "a-zA-Z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
}
_TOKEN = re.compile(
    r"(?P<quote>\\Q(?P<quoted>.*?)(?:\\E|$))|(?P<prop>\\(?P<sign>[pP])\{(?:Is)?(?P<name>\w+)\})"
    r"|(?P<group>\(\?<(?![=!]))|(?P<end>\\z)|(?P<escape>\\.)|(?P<open>\[\^?\]?)|(?P<close>\])"
    r"|(?P<and>&&)|(?P<other>.)",
    re.DOTALL,
)


def _translate(text: str) -> str:
    """Return the same expression in Python's spelling; topic names are ASCII."""
    parts: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(text):
        piece = token[0]
        if token["quote"]:
            piece = re.escape(token["quoted"])
        elif token["prop"]:
            piece = _property(token["sign"], token["name"], inside=depth > 0)
        elif token["group"] and not depth:
            piece = "(?P<"
        elif token["end"]:
            piece = r"\Z"
        elif token["open"]:
            if depth:
                raise UsageError(f"{text!r} has a class inside of a class, which only Java has")
            depth = 1
        elif token["close"]:
            depth = 0
        elif token["and"] and depth:
            raise UsageError(f"{text!r} has an intersection (&&) of classes, which only Java has")
        parts.append(piece)
    return "".join(parts)


def _property(sign: str, name: str, *, inside: bool) -> str:
    if name not in _CLASSES or (inside and sign == "P"):
        raise UsageError(f"\\{sign}{{{name}}} is not supported in a regular expression")
    if inside:
        return _CLASSES[name]
    return f"[{'^' if sign == 'P' else ''}{_CLASSES[name]}]"


def compile_java_regex(text: str) -> re.Pattern[str]:
    """Compile an expression written for Java; UsageError when it cannot be."""
    try:
        return re.compile(_translate(text), re.ASCII)
    except re.error as error:
        raise UsageError(f"{text!r} is not a regular expression: {error}") from error


def java_regex(text: str) -> str:
    """Check an expression written for Java."""
    compile_java_regex(text)
    return text


@dataclass(frozen=True, slots=True)
class Replacement:
    r"""A replacement written for Java: ``$1``, ``${name}``, and ``\\`` before what is meant."""

    parts: tuple[str | int, ...]
    """Texts, and numbers of groups."""

    def expand(self, match: re.Match[str]) -> str:
        """Return what stands in place of ``match``; a group that took no part is empty."""
        return "".join(p if isinstance(p, str) else match[p] or "" for p in self.parts)


def parse_replacement(text: str, pattern: re.Pattern[str]) -> Replacement:
    """Read a replacement for ``pattern``; UsageError when it names a group that is not there."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            if at + 1 == len(text):
                raise UsageError(f"{text!r} ends in a backslash")
            parts.append(text[at + 1])
            at += 2
        elif text[at] == "$":
            group, at = _group(text, at + 1, pattern)
            parts.append(group)
        else:
            parts.append(text[at])
            at += 1
    return Replacement(tuple(parts))


def _group(text: str, at: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    """Read a group's name or number; as many digits belong to it as there are groups for."""
    if named := re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, at):
        if named[1] not in pattern.groupindex:
            raise UsageError(f"{text!r} names the group {named[1]}, which the regex does not have")
        return pattern.groupindex[named[1]], named.end()
    digits = re.compile(r"[0-9]+").match(text, at)
    if digits is None:
        raise UsageError(f"{text!r} has a $ without a group; write \\$ for the sign itself")
    size = 1
    while size < len(digits[0]) and int(digits[0][: size + 1]) <= pattern.groups:
        size += 1
    number = int(digits[0][:size])
    if number > pattern.groups:
        raise UsageError(f"{text!r} names the group {number}, which the regex does not have")
    return number, at + size
