"""A group of options read from a flat map of texts, as Connect's configurations are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, TypeVar

from kafkeep.config.choose import truth
from kafkeep.config.option import Option, iter_options
from kafkeep.errors import UsageError

T = TypeVar("T")
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


class ConfigErrors(UsageError):
    """Everything that is wrong with a configuration, by key."""

    def __init__(self, by_key: Mapping[str, str], *, hint: str | None = None) -> None:
        self.by_key = dict(by_key)
        super().__init__("; ".join(f"{key}: {why}" for key, why in by_key.items()), hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        return (ConfigErrors, (self.by_key,))


def parse_option(option: Option, text: str) -> Any:
    """Turn the text of one option into its value; UsageError says what is wrong with it.

    A duration without a unit is in milliseconds, as every time in Connect's configurations. (The
    command line asks for the unit.)
    """
    if option.is_flag:
        return truth(text)
    if option.metavar == "DURATION" and _WHOLE.fullmatch(text.strip()):
        text = f"{text.strip()}ms"
    try:
        return option.parse(text) if option.parse is not None else text
    except (ValueError, OverflowError) as error:  # a number of thousands of digits, say
        raise UsageError("has a value that cannot be read") from error


def parse_group(group: type[T], given: Mapping[str, str]) -> T:
    """Read the options that ``group`` declares; other keys are somebody else's.

    ConfigErrors names every bad or missing one at once.
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
