"""``kafkeep groups``: consumer groups of an archive, and their offsets after a restore."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import typer

from kafkeep.cli.flags import (
    ArchiveLocation,
    BootstrapOption,
    CommandConfigOption,
    SetOption,
    kafka_options,
    load_log_view,
    unlogged_options,
    with_archive,
    with_options,
    with_quiet,
)
from kafkeep.cli.output import Output, OutputOption, print_json, print_table, say
from kafkeep.cli.restore import show_moves
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import LogOptions

app = typer.Typer(
    help="Show, plan, move and roll back the consumer groups of an archive.", no_args_is_help=True
)


@app.command("show")
@with_archive
@with_options(LogOptions)
def show_command(
    *, archive: ArchiveLocation, output: OutputOption = Output.TABLE, options: LogOptions
) -> None:
    """Show the archived offsets of every consumer group.

    Exits with 0, or with 10 when there is no archive.
    """
    view = load_log_view(archive.open(), options)
    rows = [
        (group, pid.topic, pid.incarnation, pid.partition, offset, view.positions.get(pid, 0))
        for group, offsets in sorted(view.groups.items())
        for pid, offset in sorted(offsets.items())
    ]
    names = ("group", "topic", "incarnation", "partition", "offset", "archived_to")
    if output is Output.JSON:
        found = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"log": view.name, "commit": view.commit, "groups": found})
        return
    print_table((*names[:-1], "archived up to"), rows)


@app.command("plan")
@with_quiet
@with_archive
@with_options(RestoreOptions)
def plan_command(
    *,
    archive: ArchiveLocation,
    bootstrap_servers: BootstrapOption,
    settings: SetOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TABLE,
    options: RestoreOptions,
) -> None:
    """Show the offsets that apply would set. Give it the options of the restore.

    Exits with 0, or with 14 when the topics are not those of the archive or of that restore.
    """
    from kafkeep.restore.run import move_groups  # noqa: PLC0415

    locations = archive.beside(kafka_options(bootstrap_servers, command_config))
    _show(move_groups(_of(options, settings), locations, dry_run=True), output)


@app.command("apply")
@with_quiet
@with_archive
@with_options(RestoreOptions)
def apply_command(
    *,
    archive: ArchiveLocation,
    bootstrap_servers: BootstrapOption,
    settings: SetOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TABLE,
    options: RestoreOptions,
) -> None:
    """Move consumer groups to their archived offsets. Give it the options of the restore.

    The previous offsets are kept for rollback.

    Exits with 0; 3 when some offsets were skipped; 14 when a group is active or the topics are not
    those of that restore, and nothing was changed.
    """
    from kafkeep.restore.run import move_groups  # noqa: PLC0415

    locations = archive.beside(kafka_options(bootstrap_servers, command_config))
    asked = _of(options, settings)
    moves = move_groups(asked, locations, dry_run=options.dry_run)
    _show(moves, output)
    if moves.left_out and not options.dry_run:
        raise typer.Exit(3)


@app.command("rollback")
@with_quiet
@with_archive
@with_options(RestoreOptions)
def rollback_command(
    *,
    archive: ArchiveLocation,
    bootstrap_servers: BootstrapOption,
    settings: SetOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TABLE,
    options: RestoreOptions,
) -> None:
    """Undo apply: move consumer groups back to the offsets they had before.

    Use --dry-run to preview. Give it the options of the restore.

    Exits with 0, or with 14 when a group is active or no group was moved.
    """
    from kafkeep.restore.run import put_groups_back  # noqa: PLC0415

    locations = archive.beside(kafka_options(bootstrap_servers, command_config))
    rows = [
        (group, topic, partition, offset)
        for group, offsets in sorted(put_groups_back(_of(options, settings), locations).items())
        for (topic, partition), offset in sorted(offsets.items())
    ]
    names = ("group", "topic", "partition", "offset")
    if output is Output.JSON:
        print_json({"groups": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    print_table(names, [(*row[:3], "none" if row[3] is None else row[3]) for row in rows])


def _of(options: RestoreOptions, settings: list[str] | None) -> RestoreOptions:
    """Add the transforms of the restore."""
    from kafkeep.options.unlogged import changes_of_log  # noqa: PLC0415

    unlogged = unlogged_options(None, settings or ())
    return replace(options, changes=changes_of_log(unlogged, "the archive"))


def _show(moves: Any, output: Output) -> None:
    for sentence in (*moves.left_out, *moves.refused):
        say(f"warning: {sentence}")
    if not moves.moves and not moves.left_out and not moves.refused:
        say("no consumer group has archived offsets for these topics: nothing to move")
    if output is Output.JSON:
        found = [move.to_json() for move in moves.moves]
        left, refused = list(moves.left_out), list(moves.refused)
        print_json({"groups": found, "left_out": left, "refused": refused})
    else:
        show_moves(moves.moves)
