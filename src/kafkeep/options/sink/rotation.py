"""The options that decide when a sink closes its files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kafkeep.errors import UsageError
from kafkeep.options.option import one_of, option, positive
from kafkeep.options.units import above_zero, parse_size

MIB = 1024 * 1024
_NOT_POSITIVE = re.compile(r"-\d+|0+", re.ASCII)


def _or_off(what: str) -> Callable[[str], int | None]:
    """Return a parser for milliseconds; 0 or less means off, as in Confluent's sink."""

    def parse(text: str) -> int | None:
        bare = text.strip()
        return None if _NOT_POSITIVE.fullmatch(bare) else positive(what)(bare)

    return parse


def _or_any(what: str) -> Callable[[str], int | None]:
    """Return a parser for a positive number; -1 means no limit."""

    def parse(text: str) -> int | None:
        bare = text.strip()
        if _NOT_POSITIVE.fullmatch(bare) and bare != "-1":
            raise UsageError(
                f"{what} is {bare}", hint="Write a number above 0, or -1 for no limit."
            )
        return None if bare == "-1" else positive(what)(bare)

    return parse


@dataclass(frozen=True, kw_only=True)
class RotateOptions:
    """When files are closed."""

    flush_size: int | None = option(
        "flush.size",
        "Close the files of a partition when they hold this many records in total.",
        default=None,
        parse=positive("flush.size"),
        metavar="COUNT",
    )
    flush_bytes: int = option(
        "flush.bytes",
        "Close the files of a partition when they hold this many bytes of keys, values and "
        "headers.",
        default=128 * MIB,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    rotate_interval_ms: int | None = option(
        "rotate.interval.ms",
        "Close the files when the timestamp of a record is this much later than that of their "
        "first record, with every partitioner; if no record comes, by the clock. 0 or less: off.",
        default=None,
        parse=_or_off("rotate.interval.ms"),
        metavar="MS",
    )
    rotate_schedule_interval_ms: int | None = option(
        "rotate.schedule.interval.ms",
        "Close the files at this interval of the clock, counted from midnight in timezone. 0 or "
        "less: off.",
        default=None,
        parse=_or_off("rotate.schedule.interval.ms"),
        metavar="MS",
    )
    rotate_file_on_partition_change: bool = option(
        "rotate.file.on.partition.change",
        "With a time-based partitioner and rotate.interval.ms: close the files whenever the "
        "directory changes.",
        default=True,
    )
    partitioner_max_open_files: int | None = option(
        "partitioner.max.open.files",
        "Close the files of a partition when this many directories have an open file and a record "
        "belongs to another directory. -1: no limit; memory use is bounded in any case.",
        default=None,
        parse=_or_any("partitioner.max.open.files"),
        metavar="COUNT",
    )
    schema_compatibility: str = option(
        "schema.compatibility",
        "NONE closes the files at every change of the schema. BACKWARD and FULL close them for a "
        "newer schema, FORWARD for an older one; other records are projected to the schema of the "
        "file.",
        default="NONE",
        parse=lambda text: one_of("schema.compatibility", "NONE", "BACKWARD", "FORWARD", "FULL")(
            text.upper()
        ),
    )
