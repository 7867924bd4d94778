"""Java patterns, compiled for RE2 so that matching takes linear time, and Java replacements.

Replacements may contain ``$1`` and ``${name}``. Pure.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import re2

from kafkeep.errors import UsageError
from kafkeep.options.java_regex.reader import shown
from kafkeep.options.java_regex.translate import translate

_NAME = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Replacement:
    r"""A replacement in Java's syntax: ``$1``, ``${name}``, and ``\\`` to escape a character."""

    parts: tuple[str | int, ...]
    """Literal texts and group numbers, in order."""

    def replace_first(self, pattern: JavaPattern, text: str) -> str:
        """Replace the first match in a matching text; a group that did not participate is empty."""
        groups = pattern.search(text)
        if groups is None:
            return text
        start, stop = groups[0]
        ends = [groups[part] if isinstance(part, int) else part for part in self.parts]
        new = "".join(one if isinstance(one, str) else text[slice(*one)] for one in ends)
        return text[:start] + new + text[stop:]


def parse_replacement(text: str, pattern: JavaPattern) -> Replacement:
    """Parse a replacement for ``pattern``; UsageError when it names a group that does not exist."""
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
    """Parse a group's name or number; a number has as many digits as there are groups for."""
    if named := _NAME.match(text, at):
        if named[1] not in pattern.group_names:
            raise UsageError(f"{text!r} names the group {named[1]}, which the regex does not have")
        return pattern.group_names[named[1]], named.end()
    digits = _DIGITS.match(text, at)
    if digits is None:
        raise UsageError(f"{text!r} has a $ without a group; write \\$ for a literal $")
    size = 1
    while size < min(len(digits[0]), 9) and int(digits[0][: size + 1]) <= pattern.group_count:
        size += 1
    number = int(digits[0][:size])
    if number > pattern.group_count:
        raise UsageError(f"{text!r} names the group {number}, which the regex does not have")
    return number, at + size


def _check_certain(group: int, pattern: JavaPattern) -> None:
    if group in pattern.uncertain_groups:
        what = f"group {group} is in" if group else "it has"
        raise UsageError(
            f"{shown(pattern.text)} cannot be replaced: {what} a repetition or a look-ahead, where "
            "Java may capture a different text",
            hint="Put the group around the repetition, and use (?:…) in a look-ahead.",
        )


_MAX_BYTES = 8 << 20
"""The maximum memory of one compiled pattern."""
_MAX_SECONDS = 10.0
"""The maximum CPU time for one list of names; ordinary patterns take about 5 µs per name."""
_REMEMBERED = 20_000
"""The maximum number of cached results, about 4 MB."""
_NAMES_AT_ONCE = 16
"""The clock is read after this many names; the slowest pattern takes 0.1 s per name."""
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class _Answers:
    """The cached results of the last call. Replaced as a whole, so threads may share it."""

    last: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A compiled pattern. Thread-safe; pickled as its text."""

    text: str
    group_count: int
    group_names: dict[str, int]
    uncertain_groups: frozenset[int]
    """Groups whose capture may differ from Java's: repeated groups that can match nothing."""
    _engine: re2._Regexp
    _looks: tuple[tuple[bool, re2._Regexp], ...] = ()
    """Look-aheads at the start, and whether they must match."""
    _answers: _Answers = field(default_factory=_Answers, compare=False, repr=False)

    def matches(self, text: str) -> bool:
        """Return whether all of ``text`` matches, as Java's ``matches()`` does."""
        encoded = _encodable(text).encode()
        if self._engine.fullmatch(encoded) is None:
            return False
        return all((look.match(encoded) is not None) == wanted for wanted, look in self._looks)

    def select(self, names: Iterable[str]) -> list[str]:
        """Return the names that match entirely; UsageError when that takes too much CPU time.

        Results for the names of the last call are cached, because a connector calls this every few
        seconds.
        """
        known, answers = self._answers.last, {}
        start = time.thread_time()
        for number, name in enumerate(names, start=1):
            found = known.get(name)
            answers[name] = self.matches(name) if found is None else found
            if number % _NAMES_AT_ONCE == 0 and time.thread_time() - start > _MAX_SECONDS:
                raise UsageError(
                    f"{shown(self.text)} takes too long: {number} names in {_MAX_SECONDS:.0f} s "
                    "of CPU time",
                    hint="Use a shorter pattern, or one with fewer repetitions.",
                )
        self._answers.last = answers if len(answers) <= _REMEMBERED else {}
        return [name for name, matches in answers.items() if matches]

    def search(self, text: str) -> list[tuple[int, int]] | None:
        """Return the start and stop of the first match and of each group, or None.

        A group that did not participate is empty, at 0.
        """
        found = self._engine.search(_encodable(text))
        if found is None:
            return None
        spans = [found.span(group) for group in range(self._engine.groups + 1)]
        return [(max(start, 0), max(stop, 0)) for start, stop in spans]

    def __reduce__(self) -> tuple[object, ...]:
        return compile_java_regex, (self.text,)


def _encodable(text: str) -> str:
    """Replace surrogates by U+FFFD, as Java does."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


@lru_cache(maxsize=32)
def compile_java_regex(text: str) -> JavaPattern:
    """Compile a pattern in Java's syntax; UsageError states the reason when that fails."""
    translation = translate(text)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_BYTES
    try:
        engine = re2.compile(translation.pattern, options)
        looks = tuple((wanted, re2.compile(look, options)) for wanted, look in translation.looks)
    except re2.error as error:
        raise UsageError(f"{shown(text)} is not accepted: {_reason(error)}") from error
    finally:
        re2.purge()  # its cache would keep 128 patterns of up to 8 MiB each
    return JavaPattern(
        text,
        translation.group_count,
        translation.group_names,
        frozenset(translation.uncertain_groups),
        engine,
        looks,
    )


def java_regex(text: str) -> str:
    """Return ``text`` if it is a valid pattern; UsageError otherwise."""
    compile_java_regex(text)
    return text


def _reason(error: Exception) -> str:
    detail = error.args[0] if error.args else ""
    message = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
    if "too large" in message:
        return f"it needs more than {_MAX_BYTES >> 20} MiB of memory when compiled"
    if "repetition" in message:
        return "its repetitions, multiplied with those around them, exceed 1000"
    return message
