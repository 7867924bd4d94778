"""``kafkeep diff``: what changed between two commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.flags import ArchiveLocation, with_archive
from kafkeep.cli.output import Output, OutputOption, print_json, print_line, print_table, when
from kafkeep.errors import UsageError
from kafkeep.options.units import format_size

if TYPE_CHECKING:
    from kafkeep.maintenance.inspect.commit_summary import StorageSums
    from kafkeep.maintenance.inspect.log_diff import LogDiff, TopicChange

FromArgument = Annotated[
    int | None, typer.Argument(metavar="FROM", min=0, help="The earlier commit.")
]
ToArgument = Annotated[
    int | None, typer.Argument(metavar="TO", min=0, help="The later commit. Default: the newest.")
]
FromOption = Annotated[
    int | None,
    typer.Option("--from-commit", min=0, metavar="N", help="The earlier commit, instead of FROM."),
]
ToOption = Annotated[
    int | None,
    typer.Option("--to-commit", min=0, metavar="N", help="The later commit, instead of TO."),
]
LogOption = Annotated[
    str | None,
    typer.Option("--name", metavar="LOG", help="The log to read, if the archive has several."),
]
ObjectsOption = Annotated[
    bool, typer.Option("--long", "-l", help="Also list the objects that came and went.")
]


@with_archive
def diff_command(
    *,
    first: FromArgument = None,
    second: ToArgument = None,
    archive: ArchiveLocation,
    name: LogOption = None,
    from_commit: FromOption = None,
    to_commit: ToOption = None,
    long: ObjectsOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what changed in a log between two commits.

    Lists topics, settings, offsets, objects, gaps, consumer groups and schemas that came, went or
    changed. Retired objects are no longer part of the log, because their partition was moved back;
    they stay in the store. kafkeep commits lists the commits.

    Exits with 0, also when nothing changed; 10 when there is no such archive, log or commit; 14
    when there are several logs and --name is not given.
    """
    from kafkeep.archive.view import load_view  # noqa: PLC0415 - keeps --help fast
    from kafkeep.maintenance.inspect.log_diff import load_diff  # noqa: PLC0415
    from kafkeep.objects.choose_log import choose_logs  # noqa: PLC0415

    since = _one("FROM", first, "--from-commit", from_commit)
    until = _one("TO", second, "--to-commit", to_commit)
    if since is None:
        raise UsageError(
            "FROM is missing: the number of the earlier commit",
            hint="List the commits with: kafkeep commits --archive …",
        )
    store = archive.open()
    (log,) = choose_logs(store, name, commit=since)
    until = load_view(store, log).commit if until is None else until
    if since > until:
        raise UsageError(
            f"commit {since} is later than commit {until}", hint="Write the earlier one first."
        )
    found = load_diff(store, log, since, until)
    if output is Output.JSON:
        print_json({"archive": store.describe(), **found.to_json()})
    else:
        _show(found, long)


def _one(name: str, argument: int | None, flag: str, option: int | None) -> int | None:
    if argument is not None and option is not None:
        raise UsageError(f"{name} and {flag} cannot both be given")
    return option if argument is None else argument


def _show(found: LogDiff, long: bool) -> None:
    print_line(
        f"log {found.log}: from commit {found.from_commit} ({when(found.from_ms)}) "
        f"to {found.to_commit} ({when(found.to_ms)})"
    )
    for topic in found.topics:
        _show_topic(topic)
    if found.partitions:
        print_line("")
        print_table(
            ("partition", "archived to", "then", "objects", "records", "stored", "retired"),
            [
                (
                    str(one.partition_id),
                    one.before,
                    one.after,
                    _signed(one.added.objects),
                    _signed(one.added.records),
                    format_size(one.added.size_bytes),
                    _retired(one.retired),
                )
                for one in found.partitions
            ],
        )
    _show_lines(found)
    if long:
        for sign, entries in (("+", found.added), ("-", found.retired)):
            for entry in entries:
                print_line(f"{sign} {entry.key}")
    if not (found.topics or found.partitions or found.groups or found.schemas or found.gaps):
        print_line("nothing changed")


def _show_topic(topic: TopicChange) -> None:
    before, after = topic.partitions
    sign = {"new": "+", "deleted": "-"}.get(topic.kind, "~")
    grown = f", partitions {before} to {after}" if topic.kind != "new" and before != after else ""
    what = f"new, {after} partitions" if topic.kind == "new" else topic.kind
    print_line(f"{sign} topic {topic.folder}: {what}{grown}")
    for key, (old, new) in topic.settings.items():
        if topic.kind == "new":
            print_line(f"    {key}={new}")
        else:
            print_line(f"    {key}: {old or 'default'} to {new or 'default'}")


def _show_lines(found: LogDiff) -> None:
    lines = [
        f"+ gap in {gap.partition_id}: offsets {gap.range.start} to {gap.range.end - 1}: "
        f"{gap.reason}"
        for gap in found.gaps
    ]
    lines += [
        f"~ group {one.group} on {one.partition_id}: {_offset(one.before)} to {_offset(one.after)}"
        for one in found.groups
    ]
    lines += [
        f"{'+' if one.kind == 'added' else '-'} schema {one.subject} version {one.version}"
        for one in found.schemas
    ]
    for line in ["", *lines] if lines else ():
        print_line(line)


def _signed(count: int) -> str:
    return f"+{count:,}" if count else "0"


def _retired(sums: StorageSums) -> str:
    return f"{sums.objects:,} objects, {sums.records:,} records" if sums.objects else "-"


def _offset(offset: int | None) -> str:
    return "none" if offset is None else f"{offset:,}"
