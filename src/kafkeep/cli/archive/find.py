"""``kafkeep find``: search an archive for records."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkeep.cli.archive.cat import (
    AbortedOption,
    CountOption,
    FormatOption,
    IncarnationOption,
    print_records,
)
from kafkeep.cli.flags import (
    ArchiveSource,
    PartitionsOption,
    TopicsOption,
    reads_archive,
    with_options,
)
from kafkeep.cli.output import Output, OutputOption
from kafkeep.errors import NoSuchArchiveError
from kafkeep.options.selection import TimeRangeOptions

KeyOption = Annotated[
    str | None,
    typer.Option("--key", "-k", metavar="KEY", help="Only records with this key; or hex:00ff."),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="NAME=VALUE",
        help="Only records with this header; NAME alone for any value. May be repeated: all must "
        "match.",
    ),
]
RegexOption = Annotated[
    bool,
    typer.Option(
        "--regex",
        "-E",
        help="--key and the values of --header are regular expressions, which may match anywhere.",
    ),
]


@reads_archive
@with_options(TimeRangeOptions, "times")
def find_command(
    *,
    source: ArchiveSource,
    key: KeyOption = None,
    header: HeaderOption = None,
    regex: RegexOption = False,
    topics: TopicsOption = None,
    partition: PartitionsOption = None,
    count: CountOption = None,
    format: FormatOption = None,
    aborted: AbortedOption = False,
    incarnation: IncarnationOption = None,
    output: OutputOption = Output.TABLE,
    times: TimeRangeOptions,
) -> None:
    """Find records by key or header, and print them as kafkeep cat does.

    There is no index of keys: all objects of the selected topics, partitions and times are read.
    Narrow the search with --topics, --partition, --from and --until.

    Exits with 0; 10 when no record matches, or when there is no such archive or topic; 13 when an
    object is damaged; 14 when there are several logs and --name is not given.
    """
    from kafkeep.maintenance.inspect.cat import CatOptions  # noqa: PLC0415 - keeps --help fast
    from kafkeep.maintenance.inspect.find import parse_pattern  # noqa: PLC0415

    options = CatOptions(
        topics=tuple(topics or ()),
        partitions=tuple(partition or ()),
        from_ms=times.from_ms,
        until_ms=times.until_ms,
        count=count,
        aborted=aborted,
        incarnation=incarnation,
        select=parse_pattern(key, header or (), regex=regex).select,
    )
    if not print_records(source, options, format, output):
        raise NoSuchArchiveError("no record matches")
