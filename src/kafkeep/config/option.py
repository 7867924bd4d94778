"""Options, declared once: name, type, default and help stand in one line of a dataclass.

The name is Connect's (``rotate.interval.ms``); the flag (``--rotate-interval-ms``) and the field
(``rotate_interval_ms``) follow from it. The command line and the docs read these declarations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import Any

from kafkeep.config.units import write_duration, write_size

_WRITERS: Mapping[str, Callable[[int], str]] = {"SIZE": write_size, "DURATION": write_duration}


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option, as the command line and the docs see it."""

    name: str
    field: str
    help: str
    default: Any
    parse: Callable[[str], Any] | None
    metavar: str
    is_flag: bool
    goes_with: str
    """The field of the flag without which it would be ignored, and is refused; or empty."""

    @property
    def flag(self) -> str:
        """The command-line spelling."""
        return "--" + self.name.replace(".", "-")

    @property
    def default_text(self) -> str:
        """The default in a form that ``parse`` takes; empty when there is none."""
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
) -> Any:
    """Declare a dataclass field as an option; ``parse`` turns text into the field's value."""
    metadata = {"option": (name, help, parse, metavar, goes_with)}
    return dataclasses.field(default=default, metadata=metadata, kw_only=True)


def iter_options(group: type) -> Iterator[Option]:
    """Yield the options a dataclass declares, in order."""
    for field in dataclasses.fields(group):
        if "option" in field.metadata:
            name, help_text, parse, metavar, goes_with = field.metadata["option"]
            is_flag = isinstance(field.default, bool)
            default = field.default
            yield Option(name, field.name, help_text, default, parse, metavar, is_flag, goes_with)
