"""What commands print: data on stdout, messages and progress bars on stderr, errors as JSON.

Progress bars appear on a terminal only. A report that the user asked for is also written when the
command fails.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from kafkeep.clock import now_ms
from kafkeep.errors import EnvironmentFault, InterruptedRunError, KafkeepError
from kafkeep.redact import redact

OnProgress = Callable[[int, int], None]


class Verbosity(IntEnum):
    """How much a command prints on stderr."""

    QUIET = 0
    """Errors only."""
    NORMAL = 1
    VERBOSE = 2


_level = Verbosity.NORMAL


def set_verbosity(level: Verbosity) -> None:
    """Set how much ``say``, ``detail``, progress bars and the log write from here on."""
    global _level  # noqa: PLW0603 - stderr is global too
    _level = level
    if level is Verbosity.QUIET:
        logging.getLogger("kafkeep").setLevel(logging.ERROR)


def is_verbose() -> bool:
    """Return whether ``detail`` prints."""
    return _level is Verbosity.VERBOSE


@contextmanager
def task_progress(what: str, *, enabled: bool) -> Iterator[OnProgress | None]:
    """Show a bar of finished and planned tasks."""
    with _bar(what, enabled, rate=False) as update:
        yield update


@contextmanager
def record_progress(what: str, *, enabled: bool) -> Iterator[OnProgress | None]:
    """Show a bar of records written, the rate and the time left."""
    with _bar(what, enabled, rate=True) as update:
        yield update


@contextmanager
def _bar(what: str, enabled: bool, *, rate: bool) -> Iterator[OnProgress | None]:
    if not enabled or _level is Verbosity.QUIET or not sys.stderr.isatty():
        yield None
        return
    from kafkeep.cli.progress import show_bar  # noqa: PLC0415 - takes a while to load

    with show_bar(what, rate=rate) as update:
        yield update


class Output(StrEnum):
    """The values of ``--output``."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[
    Output, typer.Option("--output", help="Output format: table for people, json for scripts.")
]


class _ClosedStdout(io.BufferedIOBase):
    """Replaces a closed stdout: printing to it is an error, as on a full disk."""

    def writable(self) -> bool:
        return True

    def write(self, _data: Any) -> int:
        raise EnvironmentFault(
            "stdout is closed", hint="Redirect output that is not wanted to /dev/null."
        )


def stand_in_for_closed() -> None:
    """Replace a stdout or stderr that is closed (``>&-``).

    The file descriptors are occupied as well. Otherwise the next file or connection would get
    them, and with them everything that a library or a child process prints.
    """
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(taken, True)
    os.close(taken)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_ClosedStdout(), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - nobody reads it


def print_json(document: Any) -> bool:
    """Print a JSON document on one line of stdout; return whether somebody still reads it."""
    return print_line(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS).decode())


def print_line(text: str) -> bool:
    """Print a line on stdout; return whether somebody still reads it.

    A reader that has gone (``| head``) is not an error and does not change the exit code.
    """
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - nobody reads the rest
        return False
    return True


def say(text: str) -> None:
    """Print a message on stderr, unless --quiet is given."""
    if _level is not Verbosity.QUIET:
        complain(text)


def detail(text: str) -> None:
    """Print a message on stderr if --verbose is given."""
    if _level is Verbosity.VERBOSE:
        complain(text)


def complain(text: str) -> None:
    """Print an error on stderr, also with --quiet, if somebody still reads it."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as above


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print aligned columns on stdout; numbers are right-aligned."""
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


def when(time_ms: int | None) -> str:
    """Format a time, or a dash for none."""
    from kafkeep.options.units import format_time  # noqa: PLC0415

    return "-" if time_ms is None else format_time(time_ms)


def print_pairs(pairs: Mapping[str, Any]) -> None:
    """Print names and values on stdout, one pair per line."""
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        print_line(f"{name.ljust(width)}  {_cell(value)}")


def error_of(error: BaseException) -> KafkeepError:
    """Return ``error`` as one of kafkeep's errors."""
    if isinstance(error, KafkeepError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return InterruptedRunError("interrupted")
    if isinstance(error, OSError):
        from kafkeep.store.local.files import disk_fault  # noqa: PLC0415 - keeps --help fast

        fault = disk_fault(error)
        if fault is not None:
            return fault
    return KafkeepError(
        f"unexpected error: {type(error).__name__}: {error}",
        hint="Run kafkeep --debug … again and report its output; credentials are masked.",
    )


def error_document(error: KafkeepError) -> dict[str, Any]:
    """Return the JSON document of an error; scripts may rely on its fields."""
    return {
        "message_type": "exit_error",
        "code": error.exit_code,
        "error": type(error).__name__,
        "message": redact(error.message),
        "hint": error.hint,
    }


@contextmanager
def failure_reported(
    report: str, file: Path | None, *, archive: str, bootstrap: str | None = None
) -> Iterator[None]:
    """Write a report to ``file``, if given, when the body fails; then raise the error again.

    ``report`` is the kind of the report: drill, restore, verify or verify-against.
    """
    began_ms, began = now_ms(), time.monotonic()
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if file is None:
            raise
        from kafkeep.maintenance.report import write_report  # noqa: PLC0415
        from kafkeep.maintenance.report_pages import failed_page  # noqa: PLC0415

        page = failed_page(
            report,
            error_document(error_of(error)),
            archive=archive,
            bootstrap=bootstrap,
            began_ms=began_ms,
            seconds=time.monotonic() - began,
        )
        try:
            write_report(page, file)
        except EnvironmentFault as unwritten:
            say(f"warning: {unwritten.message}")
        raise
