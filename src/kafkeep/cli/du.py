"""``kafkeep du``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkeep.cli.output import Output, OutputOption, print_json, print_pairs, print_table
from kafkeep.cli.reading import Reading, reads_archive
from kafkeep.config.units import format_size

if TYPE_CHECKING:
    from kafkeep.care.usage import Usage


@reads_archive
def du_command(
    *,
    reading: Reading,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what takes up room: topics, the logs themselves, left-overs.

    Left-overs are objects that no log names; where there is no log, those whose names do not fit.
    What a log names and the store no longer has takes up no room: it is counted as gone.
    Exits 0, or 10 when there is no such archive.
    """
    usage = _usage(reading)
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


def _usage(reading: Reading) -> Usage:
    store, foreign = reading.open()
    if foreign is None:
        from kafkeep.care.usage import load_usage  # noqa: PLC0415
        from kafkeep.contents.choice import choose_logs  # noqa: PLC0415 - keeps --help fast

        return load_usage(store, choose_logs(store, reading.name))
    from kafkeep.care.foreign.topics import sort_by_topic, usage_of  # noqa: PLC0415
    from kafkeep.contents.foreign.find import list_objects  # noqa: PLC0415

    listing = list_objects(store, foreign)
    return usage_of(store.describe(), listing, sort_by_topic(listing))
