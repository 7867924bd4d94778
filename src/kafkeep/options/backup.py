"""The options of a backup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkeep.archive.names import log_name
from kafkeep.errors import UsageError
from kafkeep.options.option import java_pattern, one_of, option, topic_names
from kafkeep.options.registry import RegistryOptions
from kafkeep.options.spark import TaskOptions
from kafkeep.options.units import above_zero, parse_duration, parse_size

if TYPE_CHECKING:
    from kafkeep.options.sink.sink import SinkSpec

MIB = 1024 * 1024
SEGMENT_SPARE = 4
"""The last segment of a range may hold a quarter more, instead of leaving a small one."""
FORMATS = ("segment", "json", "avro", "parquet", "bytes")


@dataclass(frozen=True, kw_only=True)
class BackupOptions(RegistryOptions, TaskOptions):
    """What to back up, and when objects are closed."""

    topics: tuple[str, ...] = option(
        "topics",
        "Topics to back up, as a,b,c.",
        default=(),
        parse=topic_names,
        metavar="NAMES",
        short="-t",
    )
    topics_regex: str | None = option(
        "topics.regex",
        "Back up every topic whose whole name matches. Each cycle matches again.",
        default=None,
        parse=java_pattern,
        metavar="REGEX",
    )
    name: str = option(
        "name",
        "Name of the log to write. Each writer needs its own.",
        default="backup",
        parse=log_name,
    )
    format: str = option(
        "format",
        "Format of the objects: segment restores everything; the others suit other readers.",
        default="segment",
        parse=one_of("--format", *FORMATS),
    )
    follow: bool = option(
        "follow", "Keep running: back up new records until stopped.", default=False
    )
    interval_ms: int = option(
        "interval",
        "Check for new records this often.",
        default=10_000,
        parse=above_zero(parse_duration),
        metavar="DURATION",
        goes_with="follow",
    )
    isolation_level: str = option(
        "isolation.level",
        "read_committed skips records of aborted transactions; read_uncommitted archives and "
        "marks them.",
        default="read_committed",
        parse=one_of("isolation level", "read_committed", "read_uncommitted"),
    )
    on_gap: str = option(
        "on.gap",
        "What to do when Kafka deleted records before they were archived: record the gap, or fail.",
        default="record",
        parse=one_of("on-gap", "record", "fail"),
    )
    segment_bytes: int = option(
        "segment.bytes",
        "Close an object when it holds this many bytes of record batches. The last one of a range "
        "may hold a quarter more, instead of leaving a small object.",
        default=128 * MIB,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    segment_age_ms: int = option(
        "segment.age",
        "With --follow: archive waiting records at the latest after this time.",
        default=60_000,
        parse=parse_duration,
        metavar="DURATION",
        goes_with="follow",
    )
    cycle_bytes: int | None = option(
        "cycle.bytes",
        "Commit when this many bytes were read, even if more are waiting. Default: 8GiB, or three "
        "whole segments for each task slot if that is more.",
        default=None,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    cycle_ms: int = option(
        "cycle.time",
        "Commit about this often while there are records to read.",
        default=30_000,
        parse=above_zero(parse_duration),
        metavar="DURATION",
    )
    rate_bytes: int | None = option(
        "rate",
        "Read at most this many bytes per second from Kafka.",
        default=None,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )

    sink: SinkSpec | None = None
    """The options of a sink; None for segments."""
    keeps_tail: bool = False
    """For a connector: records that no rotation rule has closed stay in Kafka when a run ends."""
    tasks_max: int | None = None
    """The maximum number of parallel read tasks."""
    connector: str | None = None
    """For a connector: the name its user gave it; its log may have another name."""
    start_at: str = "earliest"
    """Where a new log starts in existing topics: earliest or latest."""
    group: str | None = None
    """For a connector: a new log starts at the offsets of this consumer group."""
    details_ms: int = 0
    """How long to reuse settings, sizes and group offsets; 0 reads them in every cycle."""

    def __post_init__(self) -> None:
        if bool(self.topics) == bool(self.topics_regex):
            raise UsageError(
                "give either topics or topics-regex",
                hint="Use --topics orders,events or --topics-regex 'order.*'.",
            )
        self.registry()  # raises on invalid settings

    @property
    def called(self) -> str:
        """The name to show to users: that of the connector, or of the log."""
        return self.connector or self.name

    @property
    def keeps_aborted(self) -> bool:
        """True if aborted records are archived (and marked)."""
        return self.isolation_level == "read_uncommitted"
