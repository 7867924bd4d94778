"""``kafkeep commits``: what each commit of a log brought."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.flags import ArchiveLocation, NameOption, with_archive
from kafkeep.cli.output import Output, OutputOption, print_json, print_line, print_table, when
from kafkeep.errors import DamagedError
from kafkeep.options.units import format_size

if TYPE_CHECKING:
    from kafkeep.maintenance.inspect.commit_summary import CommitSummary, UnreadCommit

CountOption = Annotated[
    int, typer.Option("--count", "-c", min=1, metavar="N", help="List the newest N commits.")
]
BeforeOption = Annotated[
    int | None,
    typer.Option("--before", min=1, metavar="N", help="Only commits before this number."),
]


@with_archive
def commits_command(
    *,
    archive: ArchiveLocation,
    name: NameOption = None,
    count: CountOption = 20,
    before: BeforeOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the commits of an archive, the newest first, and what each brought.

    A commit without records has planned the next ones, or has recorded settings, groups, or a
    writer. Use kafkeep diff to see what changed between two commits, and restore --commit to
    restore one.

    Exits with 0; 10 when there is no archive; 13 when a commit is missing or damaged.
    """
    from kafkeep.archive.view import load_view  # noqa: PLC0415 - keeps --help fast
    from kafkeep.maintenance.inspect.commit_summary import iter_summaries  # noqa: PLC0415
    from kafkeep.objects.choose_log import choose_logs  # noqa: PLC0415

    store = archive.open()
    logs = []
    for log in choose_logs(store, name):
        newest = load_view(store, log).commit
        end = newest + 1 if before is None else min(before, newest + 1)
        numbers = range(end - 1, max(0, end - count) - 1, -1)
        logs.append((log, newest, list(iter_summaries(store, log, numbers))))
    if output is Output.JSON:
        listed = [
            {"log": log, "newest": newest, "commits": [one.to_json() for one in found]}
            for log, newest, found in logs
        ]
        print_json({"archive": store.describe(), "logs": listed})
    else:
        print_line(f"archive {store.describe()}")
        for log, newest, found in logs:
            _show(log, newest, found)
    if any(one.to_json()["problem"] for _, _, found in logs for one in found):
        raise typer.Exit(DamagedError.exit_code)


def _show(log: str, newest: int, found: list[CommitSummary | UnreadCommit]) -> None:
    print_line(f"\nlog {log}: {newest + 1:,} commits")
    print_table(
        (
            "commit",
            "time",
            "records",
            "raw",
            "stored",
            "objects",
            "gaps",
            "topics",
            "writer",
            "note",
        ),
        [_row(one) for one in found],
    )


def _row(one: CommitSummary | UnreadCommit) -> tuple[object, ...]:
    from kafkeep.maintenance.inspect.commit_summary import UnreadCommit  # noqa: PLC0415

    if isinstance(one, UnreadCommit):
        return (str(one.number), *["-"] * 8, one.problem)
    more = one.topics - len(one.named_topics)
    topics = ", ".join(one.named_topics) + (f" and {more} more" if more > 0 else "")
    return (
        str(one.number),
        when(one.at_ms),
        one.sums.records,
        format_size(one.sums.raw_bytes),
        format_size(one.sums.size_bytes),
        one.sums.objects,
        one.lost_offsets,
        topics or "-",
        one.writer,
        "; ".join(_notes(one)) or "-",
    )


def _notes(one: CommitSummary) -> list[str]:
    parts = []
    if one.planned:
        parts.append(f"plans {one.planned:,} ranges")
    if one.changed_topics:
        parts.append(f"{one.changed_topics:,} topics new or changed")
    if one.groups:
        parts.append(f"{one.groups:,} groups moved")
    if one.moved_back:
        parts.append(f"{one.moved_back:,} partitions moved back")
    if one.note:
        parts.append(one.note)
    return parts
