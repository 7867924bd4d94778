"""The inputs of the capacity model, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.errors import UsageError
from kafkeep.options.backup import FORMATS, MIB
from kafkeep.options.option import one_of, option, positive
from kafkeep.options.units import above_zero, parse_duration, parse_size

DAY_MS = 86_400_000


def parse_amount(text: str) -> float:
    """Return a number that is not negative, such as a price."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(
            f"{text!r} is not a number of zero or more", hint="Write a number such as 0.35."
        )
    return value


def parse_ratio(text: str) -> float:
    """Return a number above zero."""
    value = parse_amount(text)
    if not value:
        raise UsageError(f"{text!r} is not above zero")
    return value


def parse_rate(text: str) -> int:
    """Return bytes per second: ``50MiB``, or ``50MiB/s``."""
    return above_zero(parse_size)(text.strip().removesuffix("/s"))


@dataclass(frozen=True, kw_only=True)
class CapacityOptions:
    """A load, how it is archived, and what storage and computing cost."""

    partitions: int = option(
        "partitions", "Partitions to back up.", parse=positive("partitions"), metavar="COUNT"
    )
    throughput_bytes: int = option(
        "throughput",
        "Bytes per second that Kafka receives for them, as stored by Kafka: 50MiB.",
        parse=parse_rate,
        metavar="SIZE",
    )
    record_bytes: int = option(
        "record.size",
        "Average size of a record, as stored by Kafka.",
        default=1024,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    retention_ms: int = option(
        "retention",
        "How long the archive keeps its objects.",
        default=30 * DAY_MS,
        parse=above_zero(parse_duration),
        metavar="DURATION",
    )
    format: str = option(
        "format",
        "Format of the objects.",
        default="segment",
        parse=one_of("format", *FORMATS),
    )
    segment_bytes: int = option(
        "segment.bytes",
        "As in backup: close an object when it holds this many bytes.",
        default=128 * MIB,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    segment_age_ms: int = option(
        "segment.age",
        "As in backup: archive waiting records at the latest after this time.",
        default=60_000,
        parse=above_zero(parse_duration),
        metavar="DURATION",
    )
    interval_ms: int = option(
        "interval",
        "As in backup: check for new records this often.",
        default=10_000,
        parse=above_zero(parse_duration),
        metavar="DURATION",
    )
    stored_ratio: float | None = option(
        "stored.ratio",
        "Size of objects divided by the size in Kafka. Default: by format.",
        default=None,
        parse=parse_ratio,
        metavar="NUMBER",
    )
    task_rate_bytes: int | None = option(
        "task.rate",
        "Bytes per second that one task slot archives. Default: by format.",
        default=None,
        parse=parse_rate,
        metavar="SIZE",
    )
    restore_rate_bytes: int = option(
        "restore.rate",
        "Bytes per second that one task slot restores.",
        default=50 * MIB,
        parse=parse_rate,
        metavar="SIZE",
    )
    headroom: float = option(
        "headroom",
        "How many times the throughput the cluster can read, to catch up after a break.",
        default=2.0,
        parse=parse_ratio,
        metavar="NUMBER",
    )
    executor_cores: int = option(
        "executor.cores",
        "Task slots of one executor.",
        default=4,
        parse=positive("executor.cores"),
        metavar="COUNT",
    )
    price_storage: float = option(
        "price.storage",
        "Price of one GB (10^9 bytes) stored for a month.",
        default=0.023,
        parse=parse_amount,
        metavar="PRICE",
    )
    price_writes: float = option(
        "price.writes",
        "Price of 1,000 PUT and LIST requests.",
        default=0.005,
        parse=parse_amount,
        metavar="PRICE",
    )
    price_reads: float = option(
        "price.reads",
        "Price of 1,000 GET requests.",
        default=0.0004,
        parse=parse_amount,
        metavar="PRICE",
    )
    price_core_hour: float = option(
        "price.core.hour",
        "Price of one executor core for an hour.",
        default=0.05,
        parse=parse_amount,
        metavar="PRICE",
    )
