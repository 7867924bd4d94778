"""``kafkeep cat``: print records of an archive."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.flags import (
    ArchiveSource,
    PartitionsOption,
    TopicsOption,
    reads_archive,
    with_options,
)
from kafkeep.cli.output import Output, OutputOption
from kafkeep.errors import UsageError
from kafkeep.options.selection import TimeRangeOptions

if TYPE_CHECKING:
    from kafkeep.maintenance.inspect.cat import CatOptions, ToLine

OffsetOption = Annotated[
    str,
    typer.Option(
        "--offset",
        "-o",
        metavar="OFFSET",
        help="Where to start in each partition: an offset, beginning, end, or -N for the last N.",
    ),
]
CountOption = Annotated[
    int | None, typer.Option("--count", "-c", min=0, metavar="N", help="Stop after N records.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help="Format, with kcat's tokens: %s %S %k %K %t %p %o %T %h %%, and \\n \\t \\r "
        "\\\\ \\xNN. Null keys and values print as NULL, as with kcat -Z. Default: JSON lines.",
    ),
]
AbortedOption = Annotated[
    bool, typer.Option("--aborted", help="Include records of aborted transactions, if archived.")
]
IncarnationOption = Annotated[
    int | None,
    typer.Option(
        "--incarnation",
        min=1,
        help="For a topic that was re-created, which one; 1 is the first. Default: the newest.",
    ),
]


@reads_archive
@with_options(TimeRangeOptions, "times")
def cat_command(
    *,
    source: ArchiveSource,
    topics: TopicsOption = None,
    partition: PartitionsOption = None,
    offset: OffsetOption = "beginning",
    count: CountOption = None,
    format: FormatOption = None,
    aborted: AbortedOption = False,
    incarnation: IncarnationOption = None,
    output: OutputOption = Output.TABLE,
    times: TimeRangeOptions,
) -> None:
    """Print records of an archive as JSON lines with kcat's field names, or with --format.

    Records are sorted by topic, partition and offset. Only the objects that are needed are read.
    Keys, values and headers that are not UTF-8 are printed as key_b64, payload_b64 and headers_b64.
    In a bucket without a log, records are printed as a restore would write them; -1 means
    what the objects do not hold.

    Exits with 0; 10 when there is no such archive or topic; 13 when an object is damaged; 14 when
    there are several logs and --name is not given.
    """
    from kafkeep.maintenance.inspect.cat import (  # noqa: PLC0415 - keeps --help fast
        CatOptions,
        parse_start,
    )

    options = CatOptions(
        topics=tuple(topics or ()),
        partitions=tuple(partition or ()),
        start=parse_start(offset),
        from_ms=times.from_ms,
        until_ms=times.until_ms,
        count=count,
        aborted=aborted,
        incarnation=incarnation,
    )
    print_records(source, options, format, output)


def print_records(
    source: ArchiveSource, options: CatOptions, format: str | None, output: Output
) -> bool:
    """Print the records that the options select; return whether there were any."""
    from kafkeep.maintenance.inspect.cat import iter_lines  # noqa: PLC0415
    from kafkeep.objects.choose_log import choose_log  # noqa: PLC0415

    to_line = _line_format(format, output)
    store, unlogged = source.open()
    if unlogged is not None:
        from kafkeep.maintenance.unlogged import iter_unlogged_lines  # noqa: PLC0415

        return _write_pieces(iter_unlogged_lines(store, unlogged, options, to_line))
    log = choose_log(store, source.name, options.topics or None)
    return _write_pieces(iter_lines(store, log, options, to_line))


def _line_format(format: str | None, output: Output) -> ToLine:
    """Return how to print a record: as a JSON line, or as ``--format`` says."""
    from kafkeep.maintenance.inspect.cat import json_line, parse_format  # noqa: PLC0415

    if format is not None and output is Output.JSON:
        raise UsageError(
            "--format and --output json cannot both be given",
            hint="Leave out --format to print JSON lines.",
        )
    return json_line if format is None else parse_format(format)


def _write_pieces(pieces: Iterable[bytes]) -> bool:
    """Write bytes to stdout; return whether there were any. A reader that has gone is no error."""
    out, wrote = sys.stdout.buffer, False
    try:
        for piece in pieces:
            wrote = True
            out.write(piece)
            out.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone. Otherwise Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return wrote
