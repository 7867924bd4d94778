"""Options, declared once: name, type, default and help stand in one line of a dataclass.

The name is Connect's (``rotate.interval.ms``); the flag (``--rotate-interval-ms``) and the field
(``rotate_interval_ms``) follow from it. The command line and the docs read these declarations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from typing import Any


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
