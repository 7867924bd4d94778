"""``kafkeep du``."""

from __future__ import annotations

from kafkeep.cli.output import Output, OutputOption, print_json, print_pairs, print_table
from kafkeep.cli.places import ArchiveOption, EndpointOption, ProfileOption, RegionOption
from kafkeep.cli.reading import NameOption, open_archive
from kafkeep.config.units import format_size


def du_command(
    *,
    archive: ArchiveOption,
    name: NameOption = None,
    s3_endpoint: EndpointOption = None,
    s3_region: RegionOption = None,
    s3_profile: ProfileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what takes up room: topics, the logs themselves, left-overs.

    Left-overs are objects that no log names. Exits 0, or 10 when there is no such archive.
    """
    from kafkeep.care.logs import choose_logs  # noqa: PLC0415 - keeps --help fast
    from kafkeep.care.usage import load_usage  # noqa: PLC0415

    store = open_archive(archive, s3_endpoint, s3_region, s3_profile)
    usage = load_usage(store, choose_logs(store, name))
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
                format_size(topic.raw_bytes),
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
            "total": format_size(usage.total_bytes),
        }
    )
