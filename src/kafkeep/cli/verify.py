"""``kafkeep verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.output import Output, OutputOption, print_json, print_pairs, say
from kafkeep.cli.places import ArchiveOption, EndpointOption, ProfileOption, RegionOption
from kafkeep.cli.progress import task_progress
from kafkeep.cli.reading import NameOption, TopicsOption, open_archive
from kafkeep.config.units import format_size
from kafkeep.errors import DamagedError

if TYPE_CHECKING:
    from kafkeep.care.finding import Finding
    from kafkeep.care.verify import VerifyReport

DeepOption = Annotated[
    bool, typer.Option("--deep", help="Decode every record too, not only check sums.")
]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, max=64, help="Objects read at a time.")
]


def verify_command(
    *,
    archive: ArchiveOption,
    name: NameOption = None,
    topic: TopicsOption = None,
    deep: DeepOption = False,
    workers: WorkersOption = 4,
    s3_endpoint: EndpointOption = None,
    s3_region: RegionOption = None,
    s3_profile: ProfileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check that an archive is complete and unchanged.

    Reads the commit log and every object: sizes, SHA-256, checksums of all record batches, counts
    and offsets. Left-overs that no log names are told, and are no damage.

    Exits 0 when intact, 10 when there is no archive, 13 when something is damaged or missing.
    """
    from kafkeep.care.logs import choose_logs  # noqa: PLC0415 - keeps --help fast
    from kafkeep.care.verify import verify  # noqa: PLC0415

    store = open_archive(archive, s3_endpoint, s3_region, s3_profile)
    names = choose_logs(store, name)
    with task_progress("verifying", enabled=output is Output.TABLE) as on_progress:
        report = verify(
            store, names, deep=deep, topics=topic or None, workers=workers, on_progress=on_progress
        )
    if output is Output.JSON:
        print_json(report.to_json())
    else:
        _show(report)
    raise typer.Exit(0 if report.intact else DamagedError.exit_code)


def _show(report: VerifyReport) -> None:
    for finding in report.findings:
        say(_line(finding))
    print_pairs(
        {
            "archive": report.archive,
            "logs": ", ".join(report.logs),
            "commits": report.commits,
            "objects": report.objects,
            "records": report.records,
            "read": format_size(report.read_bytes),
            "lost offsets": report.lost_offsets,
            "verdict": "intact" if report.intact else "damaged",
        }
    )


def _line(finding: Finding) -> str:
    where = f"{finding.partition_id}: " if finding.partition_id else ""
    lost = f"; lost offsets {finding.lost.start} to {finding.lost.end - 1}" if finding.lost else ""
    return f"{finding.severity}: {where}{finding.key}: {finding.message} ({finding.kind}){lost}"
