"""``kafkeep info``: what an archive holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkeep.cli.flags import ArchiveSource, TopicsOption, reads_archive
from kafkeep.cli.output import Output, OutputOption, print_json, print_table, when
from kafkeep.options.units import format_size

if TYPE_CHECKING:
    from kafkeep.archive.object_store import ObjectStore
    from kafkeep.maintenance.inspect.info import LogInfo, TopicSummary
    from kafkeep.maintenance.unlogged import NamedTopic
    from kafkeep.options.unlogged import UnloggedOptions


@reads_archive
def info_command(
    *,
    source: ArchiveSource,
    topics: TopicsOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what an archive holds: logs, topics, offsets, sizes, times, consumer groups.

    With --topics, also shows each partition. In a bucket without a log, shows what the names of the
    objects reveal.

    Exits with 0, or with 10 when there is no such archive or topic.
    """
    from kafkeep.maintenance.inspect.info import load_info  # noqa: PLC0415 - keeps --help fast
    from kafkeep.objects.choose_log import choose_logs  # noqa: PLC0415

    store, unlogged = source.open()
    if unlogged is not None:
        _show_named(store, unlogged, topics, output)
        return
    logs = load_info(store, choose_logs(store, source.name), topics=topics or None)
    if output is Output.JSON:
        print_json({"archive": store.describe(), "logs": [log.to_json() for log in logs]})
        return
    sys.stdout.write(f"archive {store.describe()}\n")
    for log in logs:
        _show_log(log, partitions=bool(topics))


def _show_log(log: LogInfo, *, partitions: bool) -> None:
    begun = ", a backup is running or was interrupted" if log.intent_open else ""
    sys.stdout.write(
        f"\nlog {log.name}: {log.commits:,} commits, the last ({log.commit}) at {when(log.at_ms)}"
        f" by {log.writer}{begun}\n"
    )
    print_table(
        ("topic", "partitions", "records", "raw", "stored", "objects", "format", "gaps",
         "first record", "last record"),
        [_topic_row(topic) for topic in log.topics],
    )  # fmt: skip
    for topic in log.topics:
        for sentence in topic.missing:
            sys.stdout.write(f"{topic.folder}: {sentence}\n")
    if partitions:
        for topic in log.topics:
            _show_topic(topic)
    _show_groups(log)
    _show_schemas(log)


def _show_schemas(log: LogInfo) -> None:
    if log.schemas is None:
        return
    content = "which cannot be read"
    if log.schemas["subjects"] is not None:
        content = f"{log.schemas['subjects']:,} subjects, {log.schemas['versions']:,} versions"
    sys.stdout.write(f"\nschemas {log.schemas['document'][:12]}: {content}\n")


def _topic_row(topic: TopicSummary) -> tuple[object, ...]:
    return (
        topic.folder + (" (deleted)" if topic.deleted else ""),
        topic.partition_count,
        topic.records,
        format_size(topic.raw_bytes),
        format_size(topic.stored_bytes),
        topic.objects,
        ", ".join(topic.formats),
        topic.gap_offsets,
        when(topic.first_ms),
        when(topic.last_ms),
    )


def _show_topic(topic: TopicSummary) -> None:
    sys.stdout.write(f"\ntopic {topic.folder}, id {topic.topic_id}\n")
    for key, value in sorted(topic.configs.items()):
        sys.stdout.write(f"  {key}={value}\n")
    print_table(
        ("partition", "from", "to", "records", "holes", "gaps", "objects", "raw", "stored",
         "first record", "last record"),
        [
            (
                p.partition,
                p.start,
                p.end,
                p.records,
                p.holes,
                p.gap_offsets,
                p.objects,
                format_size(p.raw_bytes),
                format_size(p.stored_bytes),
                when(p.first_ms),
                when(p.last_ms),
            )
            for p in topic.partitions
        ],
    )  # fmt: skip
    for p in topic.partitions:
        for gap in p.gaps:
            lost = f"offsets {gap.range.start} to {gap.range.end - 1}"
            sys.stdout.write(f"gap in {gap.partition_id}: {lost}: {gap.reason}\n")


def _show_groups(log: LogInfo) -> None:
    rows = [
        (group, str(partition_id), offset)
        for group, offsets in log.groups.items()
        for partition_id, offset in offsets.items()
    ]
    if rows:
        sys.stdout.write("\n")
        print_table(("group", "partition", "offset"), rows)


def _show_named(
    store: ObjectStore, unlogged: UnloggedOptions, topics: list[str] | None, output: Output
) -> None:
    from kafkeep.maintenance.unlogged import NOTE, sort_by_topic  # noqa: PLC0415
    from kafkeep.objects.unlogged.scan import list_objects  # noqa: PLC0415

    found = sort_by_topic(list_objects(store, unlogged), topics)
    if output is Output.JSON:
        described = [topic.to_json() for topic in found]
        print_json({"archive": store.describe(), "logs": [], "topics": described, "note": NOTE})
        return
    sys.stdout.write(f"archive {store.describe()}\n\n")
    print_table(
        ("topic", "partitions", "objects", "stored", "format", "beside values"),
        [
            (
                topic.topic,
                len(topic.partitions),
                len(topic.objects),
                format_size(topic.stored_bytes),
                ", ".join(topic.formats),
                ", ".join(topic.beside) or "-",
            )
            for topic in found
        ],
    )
    for topic in found if topics else ():
        _show_named_topic(topic)
    sys.stdout.write(f"{NOTE}\n")


def _show_named_topic(topic: NamedTopic) -> None:
    sys.stdout.write(f"\ntopic {topic.topic}\n")
    print_table(
        ("partition", "from", "last object from", "objects", "stored"),
        [
            (p.partition, p.start, p.last_start, len(p.objects), format_size(p.stored_bytes))
            for p in topic.partitions
        ],
    )
