"""``kafkeep backup``: flags, ``--set`` and a connector file become the options of a backup."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from kafkeep import preload
from kafkeep.cli.flags import (
    CommandConfigOption,
    ConnectorConfigOption,
    EndpointOption,
    OptionalArchiveOption,
    OptionalBootstrapOption,
    ProfileOption,
    RegionOption,
    SetOption,
    SparkConfOption,
    build,
    kafka_options,
    parse_settings,
    start_spark,
    storage_options,
    with_options,
    with_verbosity,
)
from kafkeep.cli.output import (
    Output,
    OutputOption,
    detail,
    is_verbose,
    print_json,
    print_pairs,
    print_table,
    say,
    task_progress,
)
from kafkeep.errors import UsageError
from kafkeep.options.backup import FORMATS, BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.options.option import one_of
from kafkeep.options.storage import StorageOptions
from kafkeep.options.units import format_size

if TYPE_CHECKING:
    from kafkeep.connect.connectors.sink_config import ConnectorConfig

DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print which offsets a backup would read now, and the gaps; write nothing.",
    ),
]
_SEGMENT_FLAGS = {"segment_bytes": "flush.bytes", "segment_age_ms": "rotate.schedule.interval.ms"}


@dataclass(frozen=True, kw_only=True)
class BackupRequest:
    """What ``backup`` is to do; ``kafka`` overrides the properties of the client file."""

    options: BackupOptions
    archive: str
    storage: StorageOptions
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BackupFlags:
    """The flags of ``backup`` that are not options of a backup itself."""

    archive: str | None = None
    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    connector_config: str | None = None
    settings: Sequence[str] = ()


def parse_backup(flags: Mapping[str, Any], given: BackupFlags) -> BackupRequest:
    """Merge flags over ``--set`` over the file; UsageError names everything that is wrong."""
    plain = flags.get("format") in (None, "segment")
    if plain and given.connector_config is None and not given.settings:
        if given.archive is None:
            raise UsageError(
                "--archive is missing", hint="Add --archive with s3://bucket/prefix or a folder."
            )
        storage = storage_options(given.endpoint, given.region, given.profile, given.archive)
        options = build(BackupOptions, dict(flags))
        return BackupRequest(options=options, archive=given.archive, storage=storage)
    if flags.get("format") is not None:
        one_of("--format", *FORMATS)(flags["format"])
    config = _read(flags, given)
    _refuse_what_backup_cannot(config, flags)
    return BackupRequest(
        options=_backup_options(config, flags),
        archive=config.archive,
        storage=config.storage,
        kafka=config.kafka,
        notes=config.notes,
    )


def _read(flags: Mapping[str, Any], given: BackupFlags) -> ConnectorConfig:
    from kafkeep.connect.connectors.sink_config import (  # noqa: PLC0415 - keeps --help fast
        ConnectorConfig,
        read_connector_file,
    )

    texts: dict[str, str] = {}
    name: str | None = None
    if given.connector_config is not None:
        document = read_connector_file(given.connector_config)
        texts, name = dict(document.config), document.name
    texts |= parse_settings(given.settings)
    _put_flags(texts, flags, given)
    wanted = flags.get("name") or texts.get("name") or name
    return ConnectorConfig.from_map(texts, name=wanted, archive=given.archive)


def _put_flags(texts: dict[str, str], flags: Mapping[str, Any], given: BackupFlags) -> None:
    if flags.get("topics") or flags.get("topics_regex"):
        texts.pop("topics", None)
        texts.pop("topics.regex", None)
    if given.profile is not None:
        texts.pop("aws.access.key.id", None)
        texts.pop("aws.secret.access.key", None)
    if flags.get("format") == "segment":
        texts.pop("format.class", None)
    texts_of_flags = {
        "topics": flags.get("topics"),
        "topics.regex": flags.get("topics_regex"),
        "format.class": None if flags.get("format") == "segment" else flags.get("format"),
        "consumer.override.isolation.level": flags.get("isolation_level"),
        "store.url": given.endpoint,
        "s3.region": given.region,
        "s3.profile.name": given.profile,
    }
    texts.update({key: text for key, text in texts_of_flags.items() if text is not None})


def _refuse_what_backup_cannot(config: ConnectorConfig, flags: Mapping[str, Any]) -> None:
    if config.compact is not None:
        raise UsageError(
            f"{config.connector_class} is one of a pair of connectors: only kafkeep serve runs them"
        )
    if config.retention_days is not None and not config.retention_by_default:
        raise UsageError(
            "s3.retention.days: kafkeep backup does not set lifecycle rules",
            hint="Use kafkeep retention set, or run the connector with kafkeep serve.",
        )
    if config.format == "segment":
        return
    for name, instead in _SEGMENT_FLAGS.items():
        if flags.get(name) is not None:
            flag = "--segment-bytes" if name == "segment_bytes" else "--segment-age"
            raise UsageError(
                f"{flag} is for --format segment, not for {config.format}",
                hint=f"Use --set {instead}=…",
            )


def _backup_options(config: ConnectorConfig, flags: Mapping[str, Any]) -> BackupOptions:
    values = {
        **flags,
        "topics": ",".join(config.topics) or None,
        "topics_regex": config.topics_regex,
        "name": config.name,
        "format": config.format,
        "isolation_level": config.isolation_level,
    }
    options = build(BackupOptions, values)
    extra = {name: value for name, value in config.extra.items() if flags.get(name) is None}
    options = replace(
        options, tasks_max=config.tasks_max, start_at=config.auto_offset_reset, **extra
    )
    options = config.with_sink(options)
    if options.sink is not None:
        for converter in (options.sink.options.key, options.sink.options.value):
            converter.require_packages()
    return options


@with_verbosity
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
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
    flags: dict[str, Any],
) -> None:
    """Back up topics: copy every record that the archive does not have yet.

    Run it again to continue where the last run ended. With --follow it keeps running. Use --dry-run
    to preview.

    Exits with 0 when done; 3 when Kafka deleted offsets before they were read, an open transaction
    holds back records, or a consumer group cannot be read; 11 when a newer writer took the log; 12
    when access is denied.
    """
    given = BackupFlags(
        archive=archive,
        endpoint=s3_endpoint,
        region=s3_region,
        profile=s3_profile,
        connector_config=connector_config,
        settings=settings or (),
    )
    request = parse_backup(flags, given)
    options = request.options
    for note in request.notes:
        say(f"warning: {note}")
    locations = Locations(
        kafka=kafka_options(bootstrap_servers, command_config, request.kafka),
        archive=request.archive,
        storage=request.storage,
    )
    spark = start_spark(
        spark_conf,
        locations,
        now=not dry_run,
        preload=preload.for_backup(options),
        resident=not options.follow,
        runs="kafkeep.backup.run",
    )
    if dry_run:
        _forecast(options, locations, output)
    from kafkeep.backup.run import run_backup  # noqa: PLC0415 - imports while the JVM starts

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stop.set())
    with task_progress("backing up", enabled=output is Output.TABLE) as on_progress:
        summary = run_backup(
            options,
            locations,
            spark,
            stop=stop,
            on_progress=on_progress,
            on_commit=partial(_on_commit, options.follow and output is Output.JSON),
        )
    _warn(summary)
    if summary.bad:
        say(f"warning: {summary.bad} records could not be stored and were skipped")
    if output is Output.JSON:
        print_json(summary.to_json())
    else:
        print_pairs(_pairs(summary))
    raise typer.Exit(summary.exit_code)


def _forecast(options: BackupOptions, locations: Locations, output: Output) -> NoReturn:
    from kafkeep.backup.dry_run import forecast_backup  # noqa: PLC0415

    found = forecast_backup(options, locations)
    _warn(found)
    if output is Output.JSON:
        print_json(found.to_json())
    else:
        _show_forecast(found)
    raise typer.Exit(found.exit_code)


def _warn(found: Any) -> None:
    for gap in found.gaps:
        say(
            f"warning: {gap.partition_id}: offsets {gap.range.start} to {gap.range.end - 1} are "
            f"lost: {gap.reason}"
        )
    for partition in found.blocked:
        say(f"warning: {partition}: an open transaction holds back its newest records")
    for group in found.skipped_groups:
        say(f"warning: group {group} cannot be read: its offsets are not archived")


def _show_forecast(found: Any) -> None:
    say("nothing is written now; a backup would read:")
    rows = [
        (
            p.partition_id.folder,
            p.partition_id.partition,
            p.range.start,
            p.range.end,
            f"up to {len(p.range):,}",
            format_size(p.est_bytes),
        )
        for p in found.partitions
    ]
    print_table(("topic", "partition", "from", "to", "records", "batches, about"), rows)
    after = "a new log" if found.commit < 0 else f"after commit {found.commit}"
    least = found.objects_at_least
    ranges = f"{len(found.unfinished):,} ranges of an interrupted run are read first"
    print_pairs(
        {
            "archive": found.archive,
            "log": f"{found.log} ({after})",
            "topics": f"{len(found.topics):,}, {len(found.new_topics):,} of them new",
            "records": f"up to {found.records_at_most:,}",
            "batches": f"about {format_size(found.est_bytes)}",
            "objects": "as the rules of the sink say" if least is None else f"{least:,} or more",
            "gaps": len(found.gaps),
            "groups": found.groups,
            **({"unfinished": ranges} if found.unfinished else {}),
        }
    )


def _on_commit(prints_line: bool, commit: Any, summary: Any) -> None:
    if is_verbose():
        _detail_commit(commit)
    if prints_line:
        _print_commit_line(commit, summary)


def _detail_commit(commit: Any) -> None:
    changes = commit.changes
    if changes.is_plan:
        detail(f"commit {commit.number}: {len(changes.intent.ranges):,} ranges of offsets planned")
    if changes.entries:
        detail(f"commit {commit.number}: {len(changes.entries):,} objects archived")
    for entry in changes.entries:
        detail(
            f"{entry.partition_id}: offsets {entry.range.start} to {entry.range.end - 1}, "
            f"{entry.records:,} records, {format_size(entry.size_bytes)}: {entry.key}"
        )


def _print_commit_line(commit: Any, summary: Any) -> None:
    line = {
        "message_type": "commit",
        "commit": commit.number,
        "at_ms": commit.at_ms,
        "records": summary.records,
        "objects": summary.objects,
    }
    if not print_json(line):
        raise typer.Exit(0)  # nobody reads the output any more


def _pairs(summary: Any) -> dict[str, Any]:
    rate = summary.records / summary.seconds if summary.seconds else 0
    waiting = f"{summary.waiting:,} offsets not archived yet; the next run reads them"
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
