"""``kafkeep verify``: check an archive, or compare a cluster with it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkeep import preload
from kafkeep.cli.flags import (
    ArchiveLocation,
    ArchiveSource,
    CommandConfigOption,
    SparkConfOption,
    TopicsOption,
    kafka_options,
    reads_archive,
    start_spark,
    with_options,
    with_quiet,
)
from kafkeep.cli.output import (
    Output,
    OutputOption,
    complain,
    failure_reported,
    print_json,
    print_pairs,
    say,
    task_progress,
)
from kafkeep.errors import UsageError
from kafkeep.options.maintenance import COMPARE_REPORT, CompareOptions
from kafkeep.options.selection import parse_renames
from kafkeep.options.units import format_size

if TYPE_CHECKING:
    from kafkeep.archive.object_store import ObjectStore
    from kafkeep.compare.result import CompareResult
    from kafkeep.maintenance.verify.finding import Finding, VerifyReport

DeepOption = Annotated[
    bool, typer.Option("--deep", help="Also decode every record, not only verify checksums.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, max=64, help="Number of objects to read in parallel. Default: 4."
    ),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="HOST:PORT,…",
        help="Compare the topics of this cluster with the archive, record by record.",
    ),
]
ReportOption = Annotated[
    str | None,
    typer.Option("--report", metavar="FILE", help="Write a report to FILE.html or FILE.json."),
]


@with_quiet
@reads_archive
@with_options(CompareOptions, needs="--against", without=("topics",))
def verify_command(
    *,
    source: ArchiveSource,
    topics: TopicsOption = None,
    deep: DeepOption = False,
    workers: WorkersOption = None,
    against: AgainstOption = None,
    report: ReportOption = None,
    command_config: CommandConfigOption = None,
    spark_conf: SparkConfOption = None,
    output: OutputOption = Output.TABLE,
    options: CompareOptions,
) -> None:
    """Verify that an archive is complete and intact, or that a cluster matches it.

    Reads the commit log and every object: sizes, SHA-256, checksums of all record batches, counts
    and offsets. Orphans (objects that no log names) are listed; they are not damage. With
    --against, reads the topics of a cluster instead and compares them record by record. In a bucket
    without a log, decodes and counts every row: there are no digests to compare with.

    Exits with 0 when intact; 3 when commits were removed from a log, or when the cluster differs
    for a reason of its own, such as retention; 10 when there is no archive; 13 when something is
    damaged, missing or different; 14 when a comparison is not possible.
    """
    if against is not None:
        _refuse_beside_against(deep, workers, source)
        options = replace(options, topics=parse_renames(",".join(topics)) if topics else ())
        kafka = against, command_config
        _against(options, source.location, kafka, source.name, spark_conf, report, output)
        return
    if renamed := next((name for name in topics or () if ":" in name), None):
        raise UsageError(
            f"{renamed!r} is not a topic: a new name needs --against",
            hint="Name the cluster to compare: --against HOST:PORT.",
        )
    given = [*_given(options), *(["--spark-conf"] if spark_conf else ())]
    if command_config and command_config != os.environ.get("KAFKEEP_COMMAND_CONFIG"):
        given.append("--command-config")
    if given:
        raise UsageError(
            ", ".join(given) + " needs --against",
            hint="Name the cluster to compare: --against HOST:PORT.",
        )
    _alone(source, topics, deep, workers, report_file(report), output)


def _refuse_beside_against(deep: bool, workers: int | None, source: ArchiveSource) -> None:
    refused = {
        "--deep": (deep, "Leave it out: a comparison decodes every record."),
        "--workers": (
            workers,
            "Spark reads the topics: set its cores with --spark-conf spark.master=…",
        ),
        "--set": (source.settings, "Leave it out: the log says how its objects were written."),
        "--connector-config": (
            source.connector_config,
            "Leave it out: the log says how its objects were written.",
        ),
    }
    for flag, (given, hint) in refused.items():
        if given:
            raise UsageError(f"{flag} cannot be combined with --against", hint=hint)


def _given(options: CompareOptions) -> list[str]:
    from kafkeep.options.option import iter_options  # noqa: PLC0415

    return [o.flag for o in iter_options(CompareOptions) if getattr(options, o.field) != o.default]


def report_file(report: str | None) -> Path | None:
    """Return the file of ``--report``, checked; UsageError when it cannot be written."""
    from kafkeep.maintenance.report import check_report_path  # noqa: PLC0415 - keeps --help fast

    return None if report is None else check_report_path(report)


def _alone(  # noqa: PLR0917
    source: ArchiveSource,
    topics: list[str] | None,
    deep: bool,
    workers: int | None,
    file: Path | None,
    output: Output,
) -> None:
    from kafkeep.clock import now_ms  # noqa: PLC0415
    from kafkeep.maintenance.unlogged import verify_unlogged  # noqa: PLC0415
    from kafkeep.maintenance.verify.last_verified import trace_of  # noqa: PLC0415
    from kafkeep.maintenance.verify.verify import DEFAULT_WORKERS, verify  # noqa: PLC0415
    from kafkeep.objects.choose_log import choose_logs  # noqa: PLC0415 - keeps --help fast

    began_ms, began = now_ms(), time.monotonic()
    asked: dict[str, Any] = {
        "deep": deep,
        "topics": topics or None,
        "workers": workers or DEFAULT_WORKERS,
    }
    with (
        failure_reported("verify", file, archive=source.location.address),
        task_progress("verifying", enabled=output is Output.TABLE) as on_progress,
    ):
        store, unlogged = source.open()
        names = choose_logs(store, source.name) if unlogged is None else []
        if unlogged is None:
            found = verify(store, names, on_progress=on_progress, **asked)
        else:
            found = verify_unlogged(store, unlogged, on_progress=on_progress, **asked)
    seconds = time.monotonic() - began
    try:
        if file is not None:
            from kafkeep.maintenance.report import write_report  # noqa: PLC0415
            from kafkeep.maintenance.report_pages import verify_page  # noqa: PLC0415

            write_report(verify_page(found, began_ms=began_ms, seconds=seconds), file)
        if found.intact and not topics:
            for state in found.states:
                trace = {"kind": "archive", "deep": deep, **trace_of(state)}
                _leave_trace(store, state.name, trace)
    finally:  # show the result even if the report cannot be written
        if output is Output.JSON:
            print_json(found.to_json())
        else:
            _show(found)
    raise typer.Exit(found.exit_code)


def _against(  # noqa: PLR0917
    options: CompareOptions,
    archive: ArchiveLocation,
    kafka: tuple[str, str | None],
    name: str | None,
    spark_conf: list[str] | None,
    report: str | None,
    output: Output,
) -> None:
    file = report_file(report)
    locations = archive.beside(kafka_options(*kafka))
    with (
        failure_reported(COMPARE_REPORT, file, archive=locations.archive, bootstrap=kafka[0]),
        task_progress("comparing", enabled=output is Output.TABLE) as on_progress,
    ):
        spark = start_spark(
            spark_conf, locations, preload=preload.COMPARE, runs="kafkeep.compare.job"
        )
        from kafkeep.compare.job import run_compare  # noqa: PLC0415 - imports while the JVM starts

        result = run_compare(options, locations, spark, name=name, on_progress=on_progress)
        result = _with_lost_commits(archive.open(), result)
    from kafkeep.maintenance.report import write_report  # noqa: PLC0415
    from kafkeep.maintenance.report_pages import against_page  # noqa: PLC0415

    try:
        if file is not None:
            write_report(against_page(result), file)
        if result.verdict == "clean" and options.is_whole:
            trace = {
                "kind": "against",
                "commit": result.commit,
                "digest": result.commit_sha256,
                "records": result.sum("matched"),
            }
            _leave_trace(archive.open(), result.log, trace)
    finally:
        if output is Output.JSON:
            print_json(result.to_json())
        else:
            show_against(result)
    raise typer.Exit(result.exit_code)


def _with_lost_commits(store: ObjectStore, result: CompareResult) -> CompareResult:
    """Add commits that earlier runs of verify saw and the log no longer has."""
    from kafkeep.maintenance.verify.lost_commits import check_traces  # noqa: PLC0415

    texts = [f"{found.key}: {found.message}" for found in check_traces(store, result.log)]
    notes = (*result.notes, *texts)
    return replace(result, notes=notes, lost_commits=True) if texts else result


def _leave_trace(store: ObjectStore, log: str, document: dict[str, object]) -> None:
    from kafkeep.clock import now_ms  # noqa: PLC0415
    from kafkeep.maintenance.verify.last_verified import save_verified  # noqa: PLC0415

    if not save_verified(store, log, now_ms(), document):
        say("note: the archive is read-only, so metrics will not show this verification")


def show_against(result: CompareResult) -> None:
    """Print the differences, then the totals."""
    for note in result.notes:
        say(f"note: {note}")
    for topic in result.topics:
        for note in topic.plan.notes:
            say(f"note: {topic.plan.target.name}: {note}")
    for line in result.lines():
        complain(line)
    print_pairs(
        {
            "archive": result.archive,
            "log": result.log,
            "commit": result.commit,
            "target": result.bootstrap,
            "topics": len(result.topics),
            "archived": result.sum("archived"),
            "in the target": result.sum("found"),
            "the same": result.sum("matched"),
            **{verdict.value: count for verdict, count in result.tally.counts.items()},
            "seconds": f"{result.seconds:.1f}",
            "verdict": result.verdict,
        }
    )


def _show(report: VerifyReport) -> None:
    for finding in report.findings:
        (complain if finding.severity == "damage" else say)(_line(finding))
    print_pairs(
        {
            "archive": report.archive,
            "logs": ", ".join(report.logs) or "none",
            "commits": report.commits,
            "objects": report.objects,
            "records": report.records,
            "read": format_size(report.read_bytes),
            "lost offsets": report.lost_offsets,
            "verdict": report.verdict,
        }
    )


def _line(finding: Finding) -> str:
    where = f"{finding.partition_id}: " if finding.partition_id else ""
    lost = f"; lost offsets {finding.lost.start} to {finding.lost.end - 1}" if finding.lost else ""
    return f"{finding.severity}: {where}{finding.key}: {finding.message} ({finding.kind}){lost}"
