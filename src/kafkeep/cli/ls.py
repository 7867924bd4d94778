"""``kafkeep ls``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.output import Output, OutputOption, print_json, print_table
from kafkeep.cli.places import ArchiveOption, EndpointOption, ProfileOption, RegionOption
from kafkeep.cli.reading import NameOption, PartitionsOption, TopicsOption, open_archive, when
from kafkeep.config.units import format_size

if TYPE_CHECKING:
    from kafkeep.care.listing import ListedObject

LongOption = Annotated[bool, typer.Option("--long", "-l", help="Show all that is known.")]


def ls_command(
    *,
    archive: ArchiveOption,
    name: NameOption = None,
    topic: TopicsOption = None,
    partition: PartitionsOption = None,
    long: LongOption = False,
    s3_endpoint: EndpointOption = None,
    s3_region: RegionOption = None,
    s3_profile: ProfileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the objects of an archive as its logs know them.

    Exits 0, or 10 when there is no such archive or topic.
    """
    from kafkeep.care.listing import list_objects  # noqa: PLC0415 - keeps --help fast
    from kafkeep.care.logs import choose_logs  # noqa: PLC0415

    store = open_archive(archive, s3_endpoint, s3_region, s3_profile)
    found = list_objects(
        store, choose_logs(store, name), topics=topic or None, partitions=partition or None
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
