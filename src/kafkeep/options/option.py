"""Declare options once, as fields of a dataclass: name, help, default and parser.

The name is Connect's (``rotate.interval.ms``). The flag (``--rotate-interval-ms``) and the field
(``rotate_interval_ms``) follow from it. The command line, connector configurations and the
documentation read the same declarations. Parsers that several options share are here too.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import Any, TypeVar

from kafkeep.archive.names import topic_name
from kafkeep.errors import UsageError
from kafkeep.options.units import write_duration, write_size

_WRITERS: Mapping[str, Callable[[int], str]] = {"SIZE": write_size, "DURATION": write_duration}


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option, for the command line and the documentation."""

    name: str
    field: str
    help: str
    default: Any
    parse: Callable[[str], Any] | None
    metavar: str
    is_flag: bool
    goes_with: str
    """The field of the flag that this option requires; empty if none."""
    short: str = ""
    """The short flag, such as ``-t``; empty if none."""

    @property
    def flag(self) -> str:
        """The command-line spelling."""
        return "--" + self.name.replace(".", "-")

    @property
    def default_text(self) -> str:
        """The default as text that ``parse`` accepts; empty when there is none."""
        if self.default in (None, (), MISSING):
            return ""
        if self.metavar in _WRITERS:
            return _WRITERS[self.metavar](self.default)
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return ",".join(map(str, self.default))
        return str(self.default.value if isinstance(self.default, Enum) else self.default)


def option(
    name: str,
    help: str,
    *,
    default: Any = MISSING,
    parse: Callable[[str], Any] | None = None,
    metavar: str = "",
    goes_with: str = "",
    short: str = "",
) -> Any:
    """Declare a dataclass field as an option; ``parse`` turns text into the field's value."""
    metadata = {"option": (name, help, parse, metavar, goes_with, short)}
    return dataclasses.field(default=default, metadata=metadata, kw_only=True)


def iter_options(group: type) -> Iterator[Option]:
    """Yield the options a dataclass declares, in order."""
    for field in dataclasses.fields(group):
        if "option" in field.metadata:
            name, help_text, parse, metavar, goes_with, short = field.metadata["option"]
            is_flag = isinstance(field.default, bool)
            default = field.default
            yield Option(
                name, field.name, help_text, default, parse, metavar, is_flag, goes_with, short
            )


T = TypeVar("T")
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


class ConfigErrors(UsageError):
    """All errors of a configuration, by key."""

    def __init__(self, by_key: Mapping[str, str], *, hint: str | None = None) -> None:
        self.by_key = dict(by_key)
        super().__init__("; ".join(f"{key}: {why}" for key, why in by_key.items()), hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        return (ConfigErrors, (self.by_key,))


def parse_option(option: Option, text: str) -> Any:
    """Parse the text of one option; UsageError when it is invalid.

    A duration without a unit is in milliseconds, as in Connect's configurations. (The command line
    requires the unit.)
    """
    if option.is_flag:
        return truth(text)
    if option.metavar == "DURATION" and _WHOLE.fullmatch(text.strip()):
        text = f"{text.strip()}ms"
    try:
        return option.parse(text) if option.parse is not None else text
    except (ValueError, OverflowError) as error:  # such as a number with thousands of digits
        raise UsageError("is not a valid value") from error


def parse_group(group: type[T], given: Mapping[str, str]) -> T:
    """Parse the options that ``group`` declares, and ignore other keys.

    ConfigErrors names all invalid and missing options at once.
    """
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for option in iter_options(group):
        if option.name in given:
            try:
                values[option.field] = parse_option(option, given[option.name])
            except UsageError as error:
                wrong[option.name] = error.message
        elif option.default is MISSING:
            wrong[option.name] = "missing: it has no default"
    if wrong:
        raise ConfigErrors(wrong)
    return group(**values)


_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a hint that names the most similar known word, or None when none is similar."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else None


def one_of(what: str, *choices: str) -> Callable[[str], str]:
    """Return a parser that accepts exactly ``choices``."""

    def parse(text: str) -> str:
        if text not in choices:
            raise UsageError(
                f"{what} is {text!r}, but must be one of {', '.join(choices)}",
                hint=did_you_mean(text, choices),
            )
        return text

    return parse


def java_pattern(text: str) -> str:
    """Return ``text`` if it is a pattern in Java's syntax; UsageError otherwise."""
    from kafkeep.options.java_regex import java_regex  # noqa: PLC0415 - takes a while to load

    return java_regex(text)


def names(text: str) -> tuple[str, ...]:
    """Split ``a,b,c`` and strip blanks; refuse empty and repeated names."""
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise UsageError(f"a name is empty in {text!r}", hint="Write names as a,b,c.")
    if len(set(parts)) != len(parts):
        raise UsageError(f"a name is repeated in {text!r}")
    return parts


def topic_names(text: str) -> tuple[str, ...]:
    """Split ``a,b,c`` into names that topics may have."""
    return tuple(map(topic_name, names(text)))


def truth(text: str) -> bool:
    """Parse ``true`` or ``false``."""
    bare = text.strip().lower()
    if bare not in ("true", "false"):
        raise UsageError(f"{text!r} is neither true nor false")
    return bare == "true"


def number(low: int, high: int) -> Callable[[str], int]:
    """Return a parser for a whole number from ``low`` to ``high``."""

    def parse(text: str) -> int:
        bare = text.strip()
        if not _NUMBER.fullmatch(bare) or not low <= int(bare) <= high:
            raise UsageError(f"{text[:40]!r} is not a whole number from {low} to {high}")
        return int(bare)

    return parse


def commit_number(text: str) -> int:
    """Parse the number of a commit."""
    if not _NUMBER.fullmatch(text.strip()):
        raise UsageError(
            f"{text[:40]!r} is not the number of a commit",
            hint="Commits are numbered from 0; kafkeep info shows the last one.",
        )
    return int(text)


def positive(what: str) -> Callable[[str], int]:
    """Return a parser for a whole number above zero that fits into 64 bits."""

    def parse(text: str) -> int:
        bare = text.strip()
        if not _NUMBER.fullmatch(bare) or not 0 < int(bare) < 2**63:
            raise UsageError(f"{what} is {text[:40]!r}, but must be a whole number above zero")
        return int(bare)

    return parse
