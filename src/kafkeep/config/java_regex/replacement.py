"""Replacements as Java writes them: ``$1``, ``${name}``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkeep.config.java_regex.pattern import JavaPattern
from kafkeep.config.java_regex.reader import shown
from kafkeep.errors import UsageError

_NAME = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Replacement:
    r"""A replacement written for Java: ``$1``, ``${name}``, and ``\\`` before what is meant."""

    parts: tuple[str | int, ...]
    """Texts, and numbers of groups."""

    def replace_first(self, pattern: JavaPattern, text: str) -> str:
        """Replace the first match in a text that matches; a group that took no part is empty."""
        groups = pattern.search(text)
        if groups is None:
            return text
        start, stop = groups[0]
        ends = [groups[part] if isinstance(part, int) else part for part in self.parts]
        new = "".join(one if isinstance(one, str) else text[slice(*one)] for one in ends)
        return text[:start] + new + text[stop:]


def parse_replacement(text: str, pattern: JavaPattern) -> Replacement:
    """Read a replacement for ``pattern``; UsageError when it names a group that is not there."""
    _check_certain(0, pattern)
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
            _check_certain(group, pattern)
            parts.append(group)
        else:
            parts.append(text[at])
            at += 1
    return Replacement(tuple(parts))


def _group(text: str, at: int, pattern: JavaPattern) -> tuple[int, int]:
    """Read a group's name or number; as many digits belong to it as there are groups for."""
    if named := _NAME.match(text, at):
        if named[1] not in pattern.group_names:
            raise UsageError(f"{text!r} names the group {named[1]}, which the regex does not have")
        return pattern.group_names[named[1]], named.end()
    digits = _DIGITS.match(text, at)
    if digits is None:
        raise UsageError(f"{text!r} has a $ without a group; write \\$ for the sign itself")
    size = 1
    while size < min(len(digits[0]), 9) and int(digits[0][: size + 1]) <= pattern.group_count:
        size += 1
    number = int(digits[0][:size])
    if number > pattern.group_count:
        raise UsageError(f"{text!r} names the group {number}, which the regex does not have")
    return number, at + size


def _check_certain(group: int, pattern: JavaPattern) -> None:
    if group in pattern.uncertain_groups:
        what = f"group {group} lies in" if group else "it has"
        raise UsageError(
            f"{shown(pattern.text)} cannot be replaced: {what} a repetition or a look-ahead, where "
            "Java may leave a group elsewhere",
            hint="Put the group around the repetition, and use (?:…) in a look-ahead.",
        )
