"""The options of a restore, and parsers of those that change records: map, shift, filter."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkeep.errors import UsageError
from kafkeep.options.option import java_pattern, names, one_of, option, positive
from kafkeep.options.registry import SchemaOptions
from kafkeep.options.selection import LogOptions, SelectionOptions, check_times
from kafkeep.options.spark import TaskOptions
from kafkeep.options.units import above_zero, parse_duration, parse_size

if TYPE_CHECKING:
    from kafkeep.options.record_changes import ChangeOptions


MOST_PARTITIONS = 100_000
_PAIR = re.compile(r"(\d{1,6}):(\d{1,6})")
_CONDITION = re.compile(r"(!?)(key|header:([^=!^]+?))(?:(!=|\^=|=)(.*))?", re.DOTALL)
_COMMA = re.compile(r"(?<!\\),")
_HINT = (
    "Write key=a, key!=a, key^=a (begins with a) or header:NAME=a; key or header:NAME for present, "
    "!key or !header:NAME for absent; separate conditions with commas; write bytes as hex:00ff."
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the key or a header of a record: present, equal to bytes, or a prefix.

    With ``value`` None it only tests presence. If a header repeats, one match is enough.
    """

    header: str | None
    """The name of the header; None for the key."""
    value: bytes | None
    begins: bool = False
    negated: bool = False

    def to_json(self) -> list[object]:
        """Return the condition as a plain value, for the id of a restore."""
        value = None if self.value is None else self.value.hex()
        return [self.header, value, self.begins, self.negated]


def parse_partition_map(text: str) -> tuple[tuple[int, int], ...]:
    """Parse ``0:3,1:4`` into pairs of archived and target partition."""
    found: dict[int, int] = {}
    for part in text.split(","):
        match = _PAIR.fullmatch(part.strip())
        if match is None or int(match[2]) >= MOST_PARTITIONS:
            raise UsageError(
                f"{part!r} is not a pair of partitions",
                hint="Write ARCHIVED:TARGET pairs: 0:3,1:4.",
            )
        if int(match[1]) in found:
            raise UsageError(f"partition {match[1]} is mapped twice in {text!r}")
        found[int(match[1])] = int(match[2])
    return tuple(sorted(found.items()))


def parse_partition_count(text: str) -> int:
    bare = text.strip()
    if not bare.isdecimal() or not 0 < int(bare) <= MOST_PARTITIONS:
        raise UsageError(f"partition-count is {text!r}, but must be a whole number above zero")
    return int(bare)


def parse_shift(text: str) -> int:
    """Parse ``+1h`` or ``-30d`` into milliseconds; the sign is required, except for 0."""
    bare = text.strip()
    if bare in ("0", "0ms"):
        return 0
    if bare[:1] not in ("+", "-"):
        raise UsageError(f"{text!r} has no sign", hint="Write +1h for later, -30d for earlier.")
    shift = parse_duration(bare[1:])
    return -shift if bare[0] == "-" else shift


def parse_filter(text: str) -> tuple[Condition, ...]:
    """Parse ``key^=user-,header:type=created`` into conditions that must all hold.

    A backslash escapes a comma inside a value.
    """
    return tuple(_condition(part.replace("\\,", ",")) for part in _COMMA.split(text))


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text.strip(" "))
    if match is None and text.strip().startswith("time"):
        raise UsageError("filter does not select by time", hint="Use --from and --until.")
    if match is None or (match[1] and match[4]):
        raise UsageError(f"{text!r} is not a filter", hint=_HINT)
    value = None if match[4] is None else parse_bytes(match[5], hint=_HINT)
    negated = bool(match[1]) or match[4] == "!="
    return Condition(match[3], value, begins=match[4] == "^=", negated=negated)


def parse_bytes(text: str, *, hint: str) -> bytes:
    """Parse text, or bytes in hexadecimal digits after ``hex:``."""
    if not text.startswith("hex:"):
        return text.encode()
    try:
        return bytes.fromhex(text[4:])
    except ValueError as error:
        raise UsageError(f"{text!r} is not in hexadecimal digits", hint=hint) from error


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """How the target cluster is written to."""

    replication_factor: int | None = option(
        "replication.factor",
        "Replication factor of the topics that are created. Default: the archived one.",
        default=None,
        parse=positive("replication factor"),
        metavar="N",
    )
    rate_bytes: int | None = option(
        "rate",
        "Write at most this many bytes per second.",
        default=None,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )


@dataclass(frozen=True, kw_only=True)
class RestoreOptions(SchemaOptions, TargetOptions, LogOptions, SelectionOptions, TaskOptions):
    """What to restore, and how."""

    topics_regex: str | None = option(
        "topics.regex",
        "Only topics whose whole name matches.",
        default=None,
        parse=java_pattern,
        metavar="REGEX",
    )
    partition_map: tuple[tuple[int, int], ...] = option(
        "partition.map",
        "Target partition of each archived one: 0:3,1:4. Partitions with the same target are "
        "merged by timestamp.",
        default=(),
        parse=parse_partition_map,
        metavar="PAIRS",
    )
    partition_count: int | None = option(
        "partition.count",
        "Distribute records over this many partitions: by key, as Kafka's producer does, and "
        "records without a key in turn.",
        default=None,
        parse=parse_partition_count,
        metavar="N",
    )
    shift_time_ms: int = option(
        "shift.time",
        "Add this to the timestamp of every record: +1h, -30d.",
        default=0,
        parse=parse_shift,
        metavar="DURATION",
    )
    filter: tuple[Condition, ...] = option(
        "filter",
        "Only records that match all of these conditions: key=a, key!=a, key^=a (prefix), "
        "header:NAME=a; key or header:NAME for present, !key or !header:NAME for absent.",
        default=(),
        parse=parse_filter,
        metavar="CONDITIONS",
    )
    exact_offsets: bool = option(
        "exact.offsets", "Restore every record at its original offset.", default=False
    )
    fill_holes: str = option(
        "fill.holes",
        "With --exact-offsets: how to fill offsets that had no record. transactions: invisible to "
        "consumers, 7 ms per offset. tombstones: fast, but consumers see them under a key of "
        "kafkeep's own. auto: transactions, refused if they would take more than 10 minutes.",
        default="auto",
        parse=one_of("fill-holes", "auto", "transactions", "tombstones"),
        metavar="HOW",
    )
    groups: tuple[str, ...] = option(
        "groups",
        "Also restore the offsets of these consumer groups: all, or their names.",
        default=(),
        parse=names,
        metavar="NAMES",
    )
    apply_retention: bool = option(
        "apply.retention",
        "Restore retention settings even if they delete restored records at once.",
        default=False,
    )
    into_non_empty: bool = option(
        "into.non.empty", "Append to target topics that are not empty.", default=False
    )
    restore_aborted: bool = option(
        "restore.aborted",
        "Also restore records of aborted transactions, if archived.",
        default=False,
    )
    allow_missing: bool = option(
        "allow.missing",
        "Skip damaged or missing objects, and list the offsets that are lost.",
        default=False,
    )
    state: str | None = option(
        "state",
        "Folder or address for the state of the restore, if the archive is read-only.",
        default=None,
        parse=str,
        metavar="ADDRESS",
    )
    dry_run: bool = option(
        "dry.run", "Print the plan and the preflight checks; write nothing.", default=False
    )

    changes: ChangeOptions | None = field(default=None, repr=False)
    """Connect's transforms to apply to each record; None if they change nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.topics and self.topics_regex is not None:
            raise UsageError("topics and topics-regex cannot both be given")
        check_times(self.from_ms, self.until_ms)
        if self.exact_offsets and self.into_non_empty:
            raise UsageError("exact-offsets needs an empty topic: into-non-empty cannot be given")
        if self.fill_holes != "auto" and not self.exact_offsets:
            raise UsageError("fill-holes needs exact-offsets")
        self._check_routing()
        self.check_schemas()
        if self.schemas == "map" and self.changes is not None:
            self.changes.check_ids()

    def _check_routing(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if self.partition_map and self.partition_count is not None:
            raise UsageError("partition-map and partition-count cannot both be given")
        targets = [target for _, target in self.partition_map]
        merged = "a partition-map that merges" if len(set(targets)) < len(targets) else None
        mixes = "partition-count" if self.partition_count is not None else merged
        if self.exact_offsets and mixes:
            raise UsageError(f"{mixes} gives records new offsets: exact-offsets cannot be given")
        if self.exact_offsets and self.filter:
            raise UsageError(
                "filter leaves a hole for each record it drops: exact-offsets cannot be given"
            )
        if self.exact_offsets and self.changes is not None and self.changes.drops_records:
            raise UsageError(
                "a Filter leaves a hole for each record it drops: exact-offsets cannot be given"
            )
        if self.groups and self.partition_count is not None and self.schemas == "map":
            raise UsageError(
                "groups cannot be given with partition-count and schemas=map: the partition of a "
                "record depends on schema ids that are not known yet"
            )

    def wants(self, topic: str) -> bool:
        """Return whether the options select an archived topic."""
        if self.topics:
            return any(source == topic for source, _ in self.topics)
        if self.topics_regex is None:
            return True
        from kafkeep.options.java_regex import compile_java_regex  # noqa: PLC0415 - slow to load

        return compile_java_regex(self.topics_regex).matches(topic)

    @property
    def cuts_times(self) -> bool:
        """True if timestamps select records."""
        return self.from_ms is not None or self.until_ms is not None

    def selection(self) -> dict[str, object]:
        """Return the selection, for the id of the restore; empty when everything is restored."""
        picked = {
            "topics_regex": self.topics_regex,
            "partitions": self.partitions,
            "offsets": [(p.topic, p.partition, p.range.start, p.range.end) for p in self.offsets],
            "from": self.from_ms,
            "until": self.until_ms,
            "incarnations": self.incarnations,
            "exact": self.exact_offsets,
            "partition_map": self.partition_map,
            "partition_count": self.partition_count,
            "shift": self.shift_time_ms or None,
            "filter": [condition.to_json() for condition in self.filter],
            "holes": self.fill_holes if self.fill_holes == "tombstones" else None,
            **self.schema_selection(),
        }
        changed = self.changes.to_json() if self.changes is not None else {}
        # Compare with ``is``: a time of 0 is a selection.
        picked = {k: v for k, v in picked.items() if v is not None and v is not False}
        picked = {k: v for k, v in picked.items() if v not in ((), [])}
        return {**picked, **changed}
