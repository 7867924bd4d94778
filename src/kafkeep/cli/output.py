"""What commands print: data on stdout, talk on stderr, one JSON document for machines."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer

from kafkeep.errors import EnvironmentFault


class Output(StrEnum):
    """The forms of ``--output``."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[
    Output, typer.Option("--output", help="table for people, json for machines.")
]


class _ClosedStdout(io.BufferedIOBase):
    """Stands where stdout is closed; to print is an error, as it is on a full disk."""

    def writable(self) -> bool:
        return True

    def write(self, _data: Any) -> int:
        raise EnvironmentFault(
            "stdout is closed", hint="What is not wanted can be sent to /dev/null."
        )


def stand_in_for_closed() -> None:
    """Put something in the place of a stdout or stderr that is closed (``>&-``).

    Their numbers are taken too: else the next file or connection would get them, and with them
    what any library or child of ours prints.
    """
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(taken, True)
    os.close(taken)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_ClosedStdout(), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - nobody reads what is said


def print_json(document: Any) -> bool:
    """Print one JSON document (one line) on stdout; tell whether somebody still reads it."""
    return print_line(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS).decode())


def print_line(text: str) -> bool:
    """Print a line on stdout; tell whether somebody still reads it.

    A reader that has gone (``| head``) is no error, and does not change what a command exits with.
    """
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what is left has nobody to read it
        return False
    return True


def say(text: str) -> None:
    """Print a line for people on stderr, if somebody still reads it."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as above


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print aligned columns on stdout; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max([len(column), *(len(row[i]) for row in cells)]) for i, column in enumerate(columns)
    ]
    right = [
        bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        for i in range(len(columns))
    ]
    for line in [list(columns), *cells]:
        aligned = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        print_line("  ".join(aligned).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_pairs(pairs: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line, on stdout."""
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        print_line(f"{name.ljust(width)}  {_cell(value)}")
