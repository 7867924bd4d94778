"""The options of a backup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkeep.archive.names import log_name
from kafkeep.errors import UsageError
from kafkeep.options.java_regex import java_regex
from kafkeep.options.option import one_of, option, topic_names
from kafkeep.options.registry import RegistryOptions
from kafkeep.options.units import above_zero, parse_duration, parse_size

MIB = 1024 * 1024
FORMATS = ("segment", "json", "avro", "parquet", "bytes")


@dataclass(frozen=True, kw_only=True)
class BackupOptions(RegistryOptions):
    """What to back up, and how objects are cut."""

    topics: tuple[str, ...] = option(
        "topics", "Topics to back up: a,b,c.", default=(), parse=topic_names, metavar="NAMES"
    )
    topics_regex: str | None = option(
        "topics.regex",
        "Back up every topic whose whole name matches; looked at again in every cycle.",
        default=None,
        parse=java_regex,
        metavar="REGEX",
    )
    name: str = option(
        "name", "Name of the log in the archive: one per writer.", default="backup", parse=log_name
    )
    format: str = option(
        "format",
        "How objects are written: segment keeps everything; the others are for other readers.",
        default="segment",
        parse=one_of("--format", *FORMATS),
    )
    follow: bool = option("follow", "Go on backing up until stopped.", default=False)
    interval_ms: int = option(
        "interval",
        "How often to look for new records while following.",
        default=10_000,
        parse=above_zero(parse_duration),
        metavar="DURATION",
        goes_with="follow",
    )
    isolation_level: str = option(
        "isolation.level",
        "read_committed drops aborted records; read_uncommitted keeps and marks them.",
        default="read_committed",
        parse=one_of("isolation level", "read_committed", "read_uncommitted"),
    )
    on_gap: str = option(
        "on.gap",
        "When Kafka deleted records before they were archived: record the gap, or fail.",
        default="record",
        parse=one_of("on-gap", "record", "fail"),
    )
    segment_bytes: int = option(
        "segment.bytes",
        "Close an object after this many bytes of record batches.",
        default=128 * MIB,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    segment_age_ms: int = option(
        "segment.age",
        "While following: close an object this long after its first record was seen waiting.",
        default=60_000,
        parse=parse_duration,
        metavar="DURATION",
        goes_with="follow",
    )
    cycle_bytes: int = option(
        "cycle.bytes",
        "Commit at least after this many bytes.",
        default=8192 * MIB,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    cycle_ms: int = option(
        "cycle.time",
        "Commit about this often while there is data to read.",
        default=30_000,
        parse=above_zero(parse_duration),
        metavar="DURATION",
    )

    sink: Mapping[str, str] | None = None
    """Options that shape a sink's objects, under Connect's names; None for segments."""
    sink_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    keeps_tail: bool = False
    """As a connector: what no rule has closed stays in Kafka, also at the end of a run."""
    tasks_max: int | None = None
    """Read with at most so many tasks at once."""
    connector: str | None = None
    """As a connector: what its user calls it; its log may have to bear another name."""
    start_at: str = "earliest"
    """Where topics begin that are there when a log first meets them: earliest or latest."""
    group: str | None = None
    """As a connector: a log that has met no topic begins at the offsets of this consumer group."""
    details_ms: int = 0
    """How long settings, sizes and group offsets are believed; 0: read at every look."""

    def __post_init__(self) -> None:
        if bool(self.topics) == bool(self.topics_regex):
            raise UsageError(
                "topics must be given either by list or by regular expression",
                hint="Use --topics orders,events or --topics-regex 'order.*'.",
            )
        self.registry()  # what is wrong with it is told at once

    @property
    def called(self) -> str:
        """What people know it by: the connector's own name, or the log's."""
        return self.connector or self.name

    @property
    def keeps_aborted(self) -> bool:
        """Whether aborted records are archived (and marked)."""
        return self.isolation_level == "read_uncommitted"
