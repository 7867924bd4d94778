"""``kafkeep backup``."""

from __future__ import annotations

import signal
import threading
from typing import Any

import typer

from kafkeep.cli.flags import with_options
from kafkeep.cli.output import Output, OutputOption, print_json, print_pairs, say
from kafkeep.cli.places import (
    CommandConfigOption,
    ConnectorConfigOption,
    EndpointOption,
    OptionalArchiveOption,
    OptionalBootstrapOption,
    ProfileOption,
    RegionOption,
    SetOption,
    SparkConfOption,
    kafka_options,
    start_spark,
)
from kafkeep.cli.progress import task_progress
from kafkeep.config.backup import BackupOptions
from kafkeep.config.units import format_size
from kafkeep.spark.early import SINK_PRELOAD


@with_options(BackupOptions, "flags", built=False)
def backup_command(
    *,
    bootstrap_servers: OptionalBootstrapOption = None,
    archive: OptionalArchiveOption = None,
    connector_config: ConnectorConfigOption = None,
    settings: SetOption = None,
    command_config: CommandConfigOption = None,
    s3_endpoint: EndpointOption = None,
    s3_region: RegionOption = None,
    s3_profile: ProfileOption = None,
    spark_conf: SparkConfOption = None,
    output: OutputOption = Output.TABLE,
    flags: dict[str, Any],
) -> None:
    """Copy topics into the archive: everything that is not there yet.

    Exits 0 when done, 3 when offsets were lost before they could be read or wait behind an open
    transaction, or a consumer group may not be read, 11 when a newer writer took the log, 12 when
    access is denied.
    """
    from kafkeep.cli.connector import Asked, choose_backup  # noqa: PLC0415 - keeps --help fast

    asked = Asked(
        archive=archive,
        endpoint=s3_endpoint,
        region=s3_region,
        profile=s3_profile,
        connector_config=connector_config,
        settings=settings or (),
    )
    chosen = choose_backup(flags, asked)
    options = chosen.options
    spark = start_spark(spark_conf, preload=() if options.sink is None else SINK_PRELOAD)
    from kafkeep.backup.run import run_backup  # noqa: PLC0415
    from kafkeep.config.places import Places  # noqa: PLC0415 - imports while the JVM starts

    for note in chosen.notes:
        say(f"warning: {note}")
    places = Places(
        kafka=kafka_options(bootstrap_servers, command_config, chosen.kafka),
        archive=chosen.archive,
        storage=chosen.storage,
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stop.set())
    with task_progress("backing up", enabled=output is Output.TABLE) as on_progress:
        summary = run_backup(
            options,
            places,
            spark,
            stop=stop,
            on_progress=on_progress,
            on_commit=_commit_line if options.follow and output is Output.JSON else None,
        )
    for gap in summary.gaps:
        say(
            f"warning: {gap.partition_id}: offsets {gap.range.start} to {gap.range.end - 1} are "
            f"lost: {gap.reason}"
        )
    for partition in summary.blocked:
        say(f"warning: {partition}: an open transaction holds back its newest records")
    for group in summary.skipped_groups:
        say(f"warning: group {group} may not be read: its offsets are not archived")
    if summary.bad:
        say(f"warning: {summary.bad} records could not be stored and were left out")
    if output is Output.JSON:
        print_json(summary.to_json())
    else:
        print_pairs(_pairs(summary))
    raise typer.Exit(summary.exit_code)


def _commit_line(commit: Any, summary: Any) -> None:
    line = {
        "message_type": "commit",
        "commit": commit.number,
        "at_ms": commit.at_ms,
        "records": summary.records,
        "objects": summary.objects,
    }
    if not print_json(line):
        raise typer.Exit(0)  # nobody follows it any more


def _pairs(summary: Any) -> dict[str, Any]:
    rate = summary.records / summary.seconds if summary.seconds else 0
    waiting = f"{summary.waiting:,} offsets, not archived yet: the next run takes them"
    return {
        "topics": ", ".join(f"{name} ({count:,})" for name, count in summary.topics.items()),
        "records": summary.records,
        "batches": format_size(summary.bytes),
        "stored": format_size(summary.stored_bytes),
        "objects": summary.objects,
        "commit": summary.commit,
        "gaps": len(summary.gaps),
        **({"waiting": waiting} if summary.waiting else {}),
        "time": f"{summary.seconds:.1f} s ({rate:,.0f} records/s), "
        f"start {summary.start_seconds:.1f} s",
    }
