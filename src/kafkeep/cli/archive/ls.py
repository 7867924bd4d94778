"""``kafkeep ls`` and ``kafkeep du``: the objects of an archive, and the space they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.flags import (
    ArchiveSource,
    PartitionsOption,
    TopicsOption,
    reads_archive,
)
from kafkeep.cli.output import Output, OutputOption, print_json, print_pairs, print_table, when
from kafkeep.options.units import format_size

if TYPE_CHECKING:
    from kafkeep.archive.object_store import ObjectStore
    from kafkeep.maintenance.inspect.inventory import ListedObject, Usage
    from kafkeep.options.unlogged import UnloggedOptions


LongOption = Annotated[bool, typer.Option("--long", "-l", help="Show all columns.")]


@reads_archive
def ls_command(
    *,
    source: ArchiveSource,
    topics: TopicsOption = None,
    partition: PartitionsOption = None,
    long: LongOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the objects of an archive.

    The list comes from the logs; in a bucket without a log, from the names of the objects.

    Exits with 0, or with 10 when there is no such archive or topic.
    """
    from kafkeep.maintenance.inspect.inventory import list_objects  # noqa: PLC0415 - keeps --help fast
    from kafkeep.objects.choose_log import choose_logs  # noqa: PLC0415

    store, unlogged = source.open()
    if unlogged is not None:
        _show_named(store, unlogged, topics, partition, long, output)
        return
    found = list_objects(
        store, choose_logs(store, source.name), topics=topics or None, partitions=partition or None
    )
    if output is Output.JSON:
        objects = [listed.to_json() for listed in found]
        print_json({"archive": store.describe(), "objects": objects})
        return
    columns = _LONG if long else _SHORT
    print_table(columns, [(_long_row if long else _short_row)(listed) for listed in found])


_SHORT = ("topic", "partition", "from", "to", "records", "stored", "key")
_LONG = (
    *("log", "topic", "partition", "from", "to", "records", "holes", "raw", "stored"),
    *("first record", "last record", "format", "sha256", "key"),
)


def _short_row(listed: ListedObject) -> tuple[object, ...]:
    entry = listed.entry
    return (
        entry.partition_id.folder,
        entry.partition_id.partition,
        entry.range.start,
        entry.range.end,
        entry.records,
        format_size(entry.size_bytes),
        entry.key,
    )


def _long_row(listed: ListedObject) -> tuple[object, ...]:
    entry = listed.entry
    return (
        listed.log,
        entry.partition_id.folder,
        entry.partition_id.partition,
        entry.range.start,
        entry.range.end,
        entry.records,
        entry.holes,
        format_size(entry.raw_bytes),
        format_size(entry.size_bytes),
        when(entry.min_timestamp),
        when(entry.max_timestamp),
        f"{entry.format}/{entry.codec}",
        entry.sha256[:12],
        entry.key,
    )


def _show_named(  # noqa: PLR0917
    store: ObjectStore,
    unlogged: UnloggedOptions,
    topics: list[str] | None,
    partitions: list[int] | None,
    long: bool,
    output: Output,
) -> None:
    from kafkeep.maintenance.unlogged import describe_object, sort_by_topic  # noqa: PLC0415
    from kafkeep.objects.unlogged.scan import list_objects  # noqa: PLC0415

    rows = [
        describe_object(one)
        for topic in sort_by_topic(list_objects(store, unlogged), topics)
        for one in topic.objects
        if not partitions or one.name.partition in partitions
    ]
    if output is Output.JSON:
        print_json({"archive": store.describe(), "objects": rows})
        return
    more = ("view", "format", "codec") if long else ()
    print_table(
        ("topic", "partition", "from", *more, "stored", "key"),
        [
            (
                *(row[name] for name in ("topic", "partition", "start", *more)),
                format_size(row["size_bytes"]),
                row["key"],
            )
            for row in rows
        ],
    )


@reads_archive
def du_command(
    *,
    source: ArchiveSource,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how much space topics, logs and orphans use.

    Orphans are objects that no log names; in a bucket without a log, objects whose names do not
    match. Objects that a log names and the store no longer has use no space: they count as gone.

    Exits with 0, or with 10 when there is no such archive.
    """
    usage = _usage(source)
    if output is Output.JSON:
        print_json(usage.to_json())
        return
    print_table(
        ("topic", "log", "format", "objects", "records", "raw", "stored", "share"),
        [
            (
                topic.folder,
                topic.log,
                ", ".join(topic.formats),
                topic.objects,
                topic.records,
                None if topic.raw_bytes is None else format_size(topic.raw_bytes),
                format_size(topic.stored_bytes),
                f"{usage.share(topic):.1%}",
            )
            for topic in usage.topics
        ],
    )
    print_pairs(
        {
            "data": f"{format_size(usage.data_bytes)} in {usage.data_objects:,} objects",
            "logs": f"{format_size(usage.log_bytes)} in {usage.log_objects:,} objects",
            "retired": f"{format_size(usage.retired_bytes)} in {usage.retired:,} objects",
            "left-overs": f"{format_size(usage.orphan_bytes)} in {usage.orphans:,} objects",
            **({"gone": f"{usage.gone:,} objects, expired or lost"} if usage.gone else {}),
            "total": format_size(usage.total_bytes),
        }
    )


def _usage(source: ArchiveSource) -> Usage:
    store, unlogged = source.open()
    if unlogged is None:
        from kafkeep.maintenance.inspect.inventory import load_usage  # noqa: PLC0415
        from kafkeep.objects.choose_log import choose_logs  # noqa: PLC0415 - keeps --help fast

        return load_usage(store, choose_logs(store, source.name))
    from kafkeep.maintenance.unlogged import sort_by_topic, usage_of  # noqa: PLC0415
    from kafkeep.objects.unlogged.scan import list_objects  # noqa: PLC0415

    listing = list_objects(store, unlogged)
    return usage_of(store.describe(), listing, sort_by_topic(listing))
