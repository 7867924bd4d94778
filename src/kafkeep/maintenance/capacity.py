"""Estimate what archiving a load takes: tasks, requests, objects, storage, cost. Pure.

docs/scale.md explains the model and compares it with measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from kafkeep.options.backup import MIB
from kafkeep.options.capacity import DAY_MS, CapacityOptions

TASK_RATES = {
    "segment": 100 * MIB,
    "json": 40 * MIB,
    "avro": 30 * MIB,
    "parquet": 40 * MIB,
    "bytes": 40 * MIB,
}
"""Bytes of Kafka that one task slot archives per second."""
STORED_RATIOS = {"segment": 0.35, "json": 1.2, "avro": 1.0, "parquet": 0.3, "bytes": 1.0}
"""Size of the objects to the size in Kafka. Records that compress better take less."""
PART_BYTES = 16 * MIB
SINGLE_PUT_BYTES = 64 * MIB
READ_BYTES = 16 * MIB
LARGEST_TASK_BYTES = 512 * MIB
SMALLEST_TASK_BYTES = 8 * MIB
ENTRY_BYTES = 520
"""An object in a commit, without its index."""
INDEX_POINT_BYTES = 60
"""For each MiB of an object."""
RANGE_BYTES = 130
"""A range in an intent."""
COMMITS_PER_CYCLE = 2
CHECKPOINT_EVERY = 64
TABLE_SHARE = 0.25
"""Entry tables repeat the commits, compressed, and merged a few times."""
TASK_OBJECTS = 100
"""Objects that one task slot stores per second, beside their bytes."""
RESTORE_OBJECTS = 50
"""Objects that one task slot restores per second, beside their bytes."""
SHORTEST_CYCLE_MS = 500
PLANNED_ENTRY_BYTES = 100
"""An object in the plan of a restore, in the driver's memory, without its index."""
PLANNED_POINT_BYTES = 20
HOURS_PER_MONTH = 730
DAYS_PER_MONTH = HOURS_PER_MONTH / 24


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """What the model says of a load."""

    slots: int
    executors: int
    tasks_per_day: int
    cycles_per_day: int
    object_bytes: int
    """The average size of an object in the store."""
    objects_per_day: int
    objects: int
    """All that the archive keeps."""
    writes_per_day: int
    """Requests to the store."""
    restore_reads: int
    log_bytes_per_day: int
    stored_bytes: int
    records: int
    storage_per_month: float
    requests_per_month: float
    computing_per_month: float
    restore_seconds: float
    restore_driver_bytes: int
    """Memory of the driver for the plan to restore everything."""
    restore_cost: float
    """The price of its requests."""

    @property
    def cost_per_month(self) -> float:
        return self.storage_per_month + self.requests_per_month + self.computing_per_month

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``--output json``."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        rounded = {n: round(v, 2) if isinstance(v, float) else v for n, v in fields.items()}
        return {**rounded, "cost_per_month": round(self.cost_per_month, 2)}


def plan_capacity(options: CapacityOptions) -> CapacityPlan:
    """Estimate what a following backup of an even load takes."""
    load, ratio = options.throughput_bytes, _stored_ratio(options)
    period_ms = _object_period_ms(options)
    object_raw = load / options.partitions * period_ms / 1000
    per_day = options.partitions * DAY_MS / period_ms
    kept_days = options.retention_ms / DAY_MS
    slots = _slots(options, per_day)
    cycles = DAY_MS / max(_interval_ms(options), period_ms / options.partitions)
    cycle_raw = load * DAY_MS / 1000 / cycles
    tasks = min(max(1, cycle_raw // SMALLEST_TASK_BYTES), slots * _tasks_per_slot(cycle_raw, slots))
    writes = per_day * _writes_of(object_raw * ratio) + cycles * COMMITS_PER_CYCLE * (
        1 + 2 / CHECKPOINT_EVERY
    )
    entry = ENTRY_BYTES + RANGE_BYTES + INDEX_POINT_BYTES * object_raw / MIB
    log_bytes = per_day * entry * (1 + TABLE_SHARE)
    raw_kept = load * options.retention_ms / 1000
    stored = raw_kept * ratio + log_bytes * kept_days
    objects = ceil(per_day * kept_days)
    reads = objects * max(1, ceil(object_raw * ratio / READ_BYTES))
    restoring = raw_kept / options.restore_rate_bytes + objects / RESTORE_OBJECTS
    return CapacityPlan(
        slots=slots,
        executors=ceil(slots / options.executor_cores),
        tasks_per_day=round(cycles * tasks),
        cycles_per_day=round(cycles),
        object_bytes=round(object_raw * ratio),
        objects_per_day=round(per_day),
        objects=objects,
        writes_per_day=round(writes),
        restore_reads=reads,
        log_bytes_per_day=round(log_bytes),
        stored_bytes=round(stored),
        records=round(raw_kept / options.record_bytes),
        storage_per_month=stored / 1e9 * options.price_storage,
        requests_per_month=writes * DAYS_PER_MONTH / 1000 * options.price_writes,
        computing_per_month=slots * HOURS_PER_MONTH * options.price_core_hour,
        restore_seconds=restoring / slots,
        restore_driver_bytes=round(
            objects * (PLANNED_ENTRY_BYTES + PLANNED_POINT_BYTES * (object_raw // MIB))
        ),
        restore_cost=reads / 1000 * options.price_reads,
    )


def _object_period_ms(options: CapacityOptions) -> float:
    """Return how often a partition gets an object: when a segment is full, or old enough.

    Records are noticed at the next check, so half an interval passes before their age counts, and
    half of one after it has passed. Before that, the first record has to come.
    """
    byte_ms = options.partitions / options.throughput_bytes * 1000
    old = options.record_bytes * byte_ms + options.segment_age_ms + _interval_ms(options)
    return min(max(options.segment_bytes, options.record_bytes) * byte_ms, old)


def _interval_ms(options: CapacityOptions) -> int:
    return max(options.interval_ms, SHORTEST_CYCLE_MS)


def _slots(options: CapacityOptions, objects_per_day: float) -> int:
    """Return the slots for the bytes and for the objects; a backlog has full ones."""
    rate = options.task_rate_bytes or TASK_RATES[options.format]
    objects = objects_per_day * 1000 / DAY_MS / TASK_OBJECTS
    return max(1, ceil(options.throughput_bytes * options.headroom / rate + objects))


def _stored_ratio(options: CapacityOptions) -> float:
    return options.stored_ratio or STORED_RATIOS[options.format]


def _tasks_per_slot(cycle_bytes: float, slots: int) -> int:
    return min(3, max(1, ceil(cycle_bytes / (LARGEST_TASK_BYTES * slots))))


def _writes_of(size: float) -> int:
    """Return the requests that store an object: one, or a multipart upload."""
    return 1 if size <= SINGLE_PUT_BYTES else ceil(size / PART_BYTES) + 2
