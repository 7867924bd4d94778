"""``kafkeep retention``: lifecycle rules that delete old objects of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.flags import ArchiveLocation, NameOption, with_archive, with_quiet
from kafkeep.cli.output import Output, OutputOption, print_json, print_table, say, when

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkeep.archive.object_store import ObjectStore

app = typer.Typer(
    help="Manage the lifecycle rules by which the bucket deletes old objects.",
    no_args_is_help=True,
)
_TopicsOption = Annotated[
    str | None,
    typer.Option(
        "--topics", "-t", metavar="NAMES", help="Only these topics. Default: all topics of the log."
    ),
]
_DaysOption = Annotated[
    int,
    typer.Option(
        "--days", min=1, help="Number of days after which the bucket may delete an object."
    ),
]
_DirOption = Annotated[
    str,
    typer.Option(
        "--topics-dir", metavar="FOLDER", help="Folder that holds the topics (topics.dir)."
    ),
]


@app.command("show")
@with_archive
def show_command(
    *,
    archive: ArchiveLocation,
    name: NameOption = None,
    topics: _TopicsOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the retention rule of each topic, and whether the bucket has it.

    Exits with 0; 3 when the bucket lacks a rule that was set; 10 when there is no such archive.
    """
    from kafkeep.maintenance.retention import show_retention  # noqa: PLC0415 - keeps --help fast

    store = archive.open()
    wanted = _split(topics)
    rows = [
        row
        for log, _ in _chosen(store, name, topics)
        for row in show_retention(archive.address, archive.storage, log)
        if not wanted or row.topic in wanted
    ]
    if output is Output.JSON:
        keys = ("log", "topic", "days", "since_ms", "in_bucket")
        print_json({"rules": [{key: getattr(row, key) for key in keys} for row in rows]})
    else:
        print_table(
            ("topic", "log", "days", "since", "bucket"),
            [
                (
                    row.topic,
                    row.log,
                    row.days,
                    when(row.since_ms),
                    f"{row.in_bucket} days" if row.in_bucket else "no such rule",
                )
                for row in rows
            ],
        )
    if any(row.in_bucket != row.days for row in rows):
        raise typer.Exit(3)


@app.command("set")
@with_quiet
@with_archive
def set_command(
    *,
    archive: ArchiveLocation,
    days: _DaysOption,
    name: NameOption = None,
    topics: _TopicsOption = None,
    topics_dir: _DirOption = "topics",
) -> None:
    """Set a rule: the bucket deletes the objects of these topics after --days days.

    Other rules of the bucket do not change. verify, cat and restore report deleted objects as
    expired, not as damage.

    Exits with 0, or with 2 when the store has no lifecycle rules.
    """
    from kafkeep.clock import now_ms  # noqa: PLC0415
    from kafkeep.maintenance.retention import apply_retention  # noqa: PLC0415 - keeps --help fast

    store = archive.open()
    for log, chosen in _chosen(store, name, topics):
        apply_retention(
            archive.address, archive.storage, log, chosen, days, folder=topics_dir, now_ms=now_ms()
        )
        say(f"{log}: objects of {', '.join(chosen)} are deleted after {days} days")


@app.command("remove")
@with_quiet
@with_archive
def remove_command(
    *,
    archive: ArchiveLocation,
    name: NameOption = None,
    topics: _TopicsOption = None,
) -> None:
    """Remove the rules of these topics.

    Objects that were deleted earlier are still reported as expired.
    """
    from kafkeep.clock import now_ms  # noqa: PLC0415
    from kafkeep.maintenance.retention import remove_retention  # noqa: PLC0415 - keeps --help fast

    store = archive.open()
    for log, chosen in _chosen(store, name, topics):
        remove_retention(archive.address, archive.storage, log, chosen, now_ms=now_ms())
        say(f"{log}: objects of {', '.join(chosen)} are kept")


def _chosen(
    store: ObjectStore, name: str | None, topics: str | None
) -> Iterator[tuple[str, list[str]]]:
    """Yield each selected log with its topics; a topic that is in none of them is an error."""
    from kafkeep.archive.view import load_view  # noqa: PLC0415
    from kafkeep.objects.choose_log import check_topics, choose_logs  # noqa: PLC0415

    views = [load_view(store, log) for log in choose_logs(store, name)]
    wanted = _split(topics)
    check_topics(views, wanted or None)
    for view in views:
        there = sorted({topic for topic, _ in view.topics if not wanted or topic in wanted})
        if there:
            yield view.name, there


def _split(topics: str | None) -> list[str]:
    return [topic.strip() for topic in (topics or "").split(",") if topic.strip()]
