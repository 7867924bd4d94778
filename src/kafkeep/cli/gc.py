"""``kafkeep gc``: remove what crashes left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkeep.cli.flags import ArchiveLocation, with_archive, with_options, with_quiet
from kafkeep.cli.output import (
    Output,
    OutputOption,
    complain,
    print_json,
    print_pairs,
    print_table,
    task_progress,
    when,
)
from kafkeep.errors import AccessDeniedError
from kafkeep.options.maintenance import GcOptions
from kafkeep.options.units import format_size

if TYPE_CHECKING:
    from kafkeep.maintenance.gc import GcPlan


@with_quiet
@with_archive
@with_options(GcOptions)
def gc_command(
    *,
    archive: ArchiveLocation,
    output: OutputOption = Output.TABLE,
    options: GcOptions,
) -> None:
    """Remove orphans: objects that no log names, and unfinished uploads.

    An object is removed only if its log has passed it, other objects of that log hold all of its
    offsets, and it is old enough. Running it beside a backup is safe. Objects that kafkeep did not
    write are never removed. Use --dry-run to preview.

    Exits with 0; 10 when there is no such archive; 12 when the store denies access; 13 when a log
    is damaged, and nothing was removed.
    """
    from kafkeep.maintenance.gc import OrphanAction, plan_gc, remove  # noqa: PLC0415 - keeps --help fast

    store = archive.open()
    enabled = output is Output.TABLE
    with task_progress("listing", enabled=enabled) as on_progress:
        plan = plan_gc(store, older_than_ms=options.older_than_ms, on_progress=on_progress)
    if not options.dry_run:
        with task_progress("removing", enabled=enabled) as on_progress:
            plan = remove(store, plan, on_progress)
    if output is Output.JSON:
        print_json(plan.to_json())
    else:
        _show(plan)
    if plan.count(OrphanAction.REFUSED):
        complain(
            "hint: Grant s3:DeleteObject and s3:AbortMultipartUpload; a backup does not need them."
        )
        raise typer.Exit(AccessDeniedError.exit_code)


def _show(plan: GcPlan) -> None:
    from kafkeep.maintenance.gc import OrphanAction  # noqa: PLC0415

    print_table(
        ("fate", "kind", "name", "log", "since", "size", "why"),
        [
            (
                one.fate.value,
                one.kind,
                one.name,
                one.log or None,
                when(one.since_ms),
                None if one.size_bytes is None else format_size(one.size_bytes),
                one.reason,
            )
            for one in plan.left_overs
        ],
    )
    print_pairs(
        {
            "archive": plan.archive,
            **{
                fate.value: f"{count:,} ({format_size(plan.size_bytes(fate))} in objects)"
                for fate in OrphanAction
                if (count := plan.count(fate)) or fate is OrphanAction.REMOVED
            },
            "foreign": f"{plan.foreign:,} objects that kafkeep did not write",
        }
    )
