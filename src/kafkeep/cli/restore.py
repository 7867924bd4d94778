"""``kafkeep restore``: the command, and its plan as a table."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from types import FrameType
from typing import Any

import typer

from kafkeep import preload
from kafkeep.cli.flags import (
    ArchiveLocation,
    BootstrapOption,
    CommandConfigOption,
    ConnectorConfigOption,
    SetOption,
    SparkConfOption,
    kafka_options,
    load_connector_config,
    parse_unlogged,
    start_spark,
    with_archive,
    with_options,
    with_verbosity,
)
from kafkeep.cli.output import (
    Output,
    OutputOption,
    detail,
    failure_reported,
    print_json,
    print_pairs,
    print_table,
    record_progress,
    say,
)
from kafkeep.cli.verify import ReportOption, report_file
from kafkeep.clock import now_ms
from kafkeep.errors import UsageError
from kafkeep.options.option import java_pattern
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import parse_renames
from kafkeep.options.units import format_size


@with_verbosity
@with_archive
@with_options(RestoreOptions)
def restore_command(
    *,
    archive: ArchiveLocation,
    bootstrap_servers: BootstrapOption,
    connector_config: ConnectorConfigOption = None,
    settings: SetOption = None,
    command_config: CommandConfigOption = None,
    spark_conf: SparkConfOption = None,
    report: ReportOption = None,
    output: OutputOption = Output.TABLE,
    options: RestoreOptions,
) -> None:
    """Restore topics from the archive: every record exactly once.

    Run the same command again to resume an interrupted restore. SIGTERM pauses it (exit code 0).

    Exits with 0 when done; 3 when retention settings were held back or records are missing; 10 when
    there is no archive; 13 when objects are damaged; 14 when the target does not allow the restore,
    and nothing was written.
    """
    if options.dry_run and report is not None:
        raise UsageError(
            "--report cannot be combined with --dry-run: nothing is restored",
            hint="Leave out --report; --output json prints the plan and the preflight.",
        )
    file = report_file(report)
    config = load_connector_config(connector_config)
    unlogged = parse_unlogged(config, settings or ())
    options = _with_topics(config or {}, options)
    locations = archive.beside(kafka_options(bootstrap_servers, command_config))
    signal.signal(signal.SIGTERM, _pause)
    with failure_reported("restore", file, archive=locations.archive, bootstrap=bootstrap_servers):
        try:
            spark = start_spark(
                spark_conf,
                locations,
                now=not options.dry_run,
                preload=preload.for_restore(reads_rows=unlogged is not None),
                runs="kafkeep.restore.run",
            )
            from kafkeep.restore.run import (  # noqa: PLC0415 - imports while the JVM starts
                run_restore,
            )

            with record_progress("restoring", enabled=output is Output.TABLE) as on_progress:
                summary = run_restore(
                    options,
                    locations,
                    spark,
                    unlogged=unlogged,
                    on_plan=(lambda p: _show_plan(p, output)) if options.dry_run else _detail_plan,
                    on_progress=on_progress,
                )
        except _PausedError:
            say("paused: run the same command again to resume")
            if output is Output.JSON:
                print_json({"message_type": "paused"})
            return
    if options.dry_run:
        return
    for sentence in summary.warnings:
        say(f"warning: {sentence}")
    for held in summary.held_back:
        say(f"hint: set it with: {held.command}")
    if output is Output.JSON:
        print_json(summary.to_json())
    else:
        print_pairs(_pairs(summary, options))
    if file is not None:
        from kafkeep.maintenance.report import write_report  # noqa: PLC0415
        from kafkeep.maintenance.report_pages import restore_page  # noqa: PLC0415

        write_report(restore_page(summary, locations, now_ms()), file)
    raise typer.Exit(summary.exit_code)


class _PausedError(KeyboardInterrupt):
    """SIGTERM came; as Ctrl-C does, it ends the tasks. Their batches are there or are not."""


def _with_topics(config: Mapping[str, str], options: RestoreOptions) -> RestoreOptions:
    """Take the topics from a connector's file unless a flag names them."""
    if options.topics or options.topics_regex is not None:
        return options
    if topics := config.get("topics", "").strip():
        return replace(options, topics=parse_renames(topics))
    regex = config.get("topics.regex", "").strip()
    return replace(options, topics_regex=java_pattern(regex)) if regex else options


def _pause(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise _PausedError


def _show_plan(preflight: Any, output: Output) -> None:
    from kafkeep.objects.unlogged.view import NAME as UNNAMED  # noqa: PLC0415

    plan = preflight.plan
    if output is Output.JSON:
        from kafkeep.restore.preflight import plan_json  # noqa: PLC0415 - keeps --help fast

        print_json(plan_json(preflight))
        return
    named = plan.log != UNNAMED
    source = f"log {plan.log}, commit {plan.commit}" if named else "objects that no log names"
    say(f"would restore from {source}; nothing is written now")
    print_table(
        ("topic", "into", "partitions", "objects", "records", "bytes", "to read"),
        [
            (
                t.source.topic,
                t.target,
                t.target_count,
                t.objects,
                f"up to {t.records:,}" if t.routing.drops or plan.cut else t.records,
                format_size(t.raw_bytes),
                format_size(t.read_bytes),
            )
            for t in plan.topics
        ],
    )
    for topic in plan.topics:
        _show_shares(topic)
    show_moves(preflight.groups.moves)
    for check in preflight.checks:
        say(f"{check.verdict.value}: {check.subject}: {check.what}")


def _detail_plan(preflight: Any) -> None:
    plan = preflight.plan
    detail(f"restoring commit {plan.commit} of log {plan.log}")
    for topic in plan.topics:
        detail(
            f"{topic.source.topic} into {topic.target}: {topic.target_count:,} partitions, "
            f"{topic.objects:,} objects, {format_size(topic.read_bytes)} to read"
        )
    for check in preflight.checks:
        detail(f"{check.verdict.value}: {check.subject}: {check.what}")


def _show_shares(topic: Any) -> None:
    """Print what each target partition gets, if partitions change."""
    from kafkeep.restore.routing.plan import target_shares  # noqa: PLC0415

    if topic.routing.routed or topic.routing.partition_map:
        print_table(
            ("into", "from partitions", "records", "to read"),
            [
                (
                    f"{topic.target}-{share['partition']}",
                    ", ".join(map(str, share["from"])),
                    "by key" if share["records"] is None else share["records"],
                    format_size(share["read_bytes"]),
                )
                for share in target_shares(topic)
            ],
        )


def show_moves(moves: Any) -> None:
    """Print the new offsets of consumer groups."""
    if moves:
        print_table(
            ("group", "topic", "partition", "archived", "offset", ""),
            [(m.group, m.topic, m.partition, m.archived, m.offset, m.note) for m in moves],
        )


def _pairs(summary: Any, options: RestoreOptions) -> dict[str, Any]:
    rate = summary.records / summary.seconds if summary.seconds else 0
    return {
        "topics": ", ".join(f"{name} ({count:,})" for name, count in summary.topics.items()),
        "records": summary.records,
        "already there": summary.already_there,
        "sent": format_size(summary.bytes),
        **({"filled": summary.filled, "holes": summary.holes} if options.exact_offsets else {}),
        **({"groups": ", ".join(summary.groups)} if summary.groups else {}),
        **_schema_pairs(summary.schemas),
        "commit": summary.commit,
        "time": f"{summary.seconds:.1f} s ({rate:,.0f} records/s), "
        f"start {summary.start_seconds:.1f} s",
    }


def _schema_pairs(counts: dict[str, int]) -> dict[str, str]:
    pairs = {}
    if "registered" in counts:
        pairs["schemas"] = f"{counts['registered']:,} registered, {counts['there']:,} there"
    if "rewritten" in counts:
        left = counts["unknown_keys"] + counts["unknown_values"]
        pairs["schema ids"] = f"{counts['rewritten']:,} rewritten, {left:,} unknown"
    return pairs
