"""Plan a restore with routing: the target of records, and checks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkeep.archive.entry import Entry
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import UsageError
from kafkeep.objects.sink.read_windows import ENVELOPE, SEGMENT
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.sink.converters import ConverterClass
from kafkeep.options.sink.formats import FormatKind
from kafkeep.options.units import format_time
from kafkeep.restore.plan import RestorePlan, TopicPlan
from kafkeep.restore.routing.routing import holds_times

_LATEST = 2**63 - 1
_BYTES = {kind.rpartition(".")[2] for kind in (ConverterClass.BYTES, ConverterClass.ALREADY_BYTES)}


def oldest_time(topic: TopicPlan, options: RestoreOptions) -> int | None:
    """Return the oldest possible time of a restored record; None if there is none."""
    oldest = topic.oldest_ms
    if oldest is not None and options.from_ms is not None:
        oldest = max(oldest, options.from_ms)
    return oldest if oldest is None or oldest < 0 else oldest + topic.routing.shift_ms


def largest_target(topic: TopicPlan) -> int:
    """Return the maximum size of a target partition: all keys may go into one."""
    sizes = (sum(one.raw_bytes for one in sources) for sources in topic.sources().values())
    return max(sizes, default=0)


def target_shares(topic: TopicPlan) -> Iterator[dict[str, Any]]:
    """Yield the sources of each target partition, and the bytes read for it.

    With another number of partitions, the topic is read once for all of them. The number of records
    for each is then unknown in advance.
    """
    distributed = topic.routing.partition_count is not None
    for number, sources in topic.sources().items():
        yield {
            "partition": number,
            "from": [source.partition for source in sources],
            "records": None if distributed else sum(source.records for source in sources),
            "read_bytes": sum(source.read_bytes for source in sources),
        }


def check_routing(plan: RestorePlan, options: RestoreOptions) -> list[Check]:
    """Describe the routing; fail if it is impossible."""
    return [check for topic in plan.topics for check in _check_topic(topic, options)]


def _check_topic(topic: TopicPlan, options: RestoreOptions) -> Iterator[Check]:
    routing = topic.routing
    if options.changes is not None:
        yield from _check_changes(topic, options.changes)
        if options.schemas == "map" and any(_is_row(entry) for entry in topic.entries):
            what = "a converter assigns the schema ids of sink rows: --schemas map and transforms"
            yield Check(
                CheckStatus.FAIL,
                topic.target,
                f"{what} cannot be combined",
                "Leave out one of them.",
            )
    if routing.partition_count is not None:
        yield Check(
            CheckStatus.PASS,
            topic.target,
            f"{len(topic.sources()[0])} partitions are distributed to {routing.partition_count} "
            "by key; records without a key go to them in turn",
        )
    elif routing.routed:
        for number, sources in topic.sources().items():
            several = [str(source.partition) for source in sources]
            if len(several) > 1:
                what = f"partitions {', '.join(several)} are merged into {number} by record time"
                yield Check(CheckStatus.PASS, topic.target, what)
    if routing.shift_ms:
        yield from _check_times(topic, options)


def _check_changes(topic: TopicPlan, changes: ChangeOptions) -> Iterator[Check]:
    """Describe the transforms; fail if they read fields of undecoded bytes."""
    if changes.transforms:
        steps = ", ".join(
            f"{spec.alias} ({spec.kind}{'$' + spec.side if spec.side else ''})"
            for spec in changes.transforms
        )
        yield Check(CheckStatus.PASS, topic.target, f"each record is transformed by {steps}")
    if any(_holds_bytes(entry) for entry in topic.entries):
        try:
            changes.check_bytes()
        except UsageError as error:
            yield Check(CheckStatus.FAIL, topic.target, error.message, error.hint)
    if changes.time_field is not None and all(holds_times(entry) for entry in topic.entries):
        what = f"its objects hold the times of records: the field {changes.time_field} is not used"
        yield Check(CheckStatus.WARN, topic.target, what)


def _is_row(entry: Entry) -> bool:
    return bool(entry.own_records) and entry.format != SEGMENT and entry.converter != ENVELOPE


def _holds_bytes(entry: Entry) -> bool:
    """Return whether an object holds values as their bytes in Kafka."""
    whole = entry.format in (SEGMENT, FormatKind.BYTES) or entry.converter == ENVELOPE
    return whole or (entry.view == "value" and entry.converter in _BYTES)


def _check_times(topic: TopicPlan, options: RestoreOptions) -> Iterator[Check]:
    if any(entry.min_timestamp < 0 for entry in topic.entries):
        yield Check(CheckStatus.WARN, topic.target, "records without a time are not shifted")
    timed = [entry.min_timestamp for entry in topic.entries if entry.min_timestamp >= 0]
    first = max(min(timed, default=_LATEST), options.from_ms or 0)
    last = max((entry.max_timestamp for entry in topic.entries), default=0)
    hint = f"Records have times from {format_time(first)} to {format_time(last)}."
    if first + topic.routing.shift_ms < 0:
        what = "shift-time moves records to before 1970"
        yield Check(CheckStatus.FAIL, topic.target, what, hint)
    elif last + topic.routing.shift_ms > _LATEST:
        what = "shift-time moves records past the largest timestamp"
        yield Check(CheckStatus.FAIL, topic.target, what, hint)
