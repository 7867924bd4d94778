"""Why a window was closed, as the log names it."""

from __future__ import annotations

from enum import StrEnum


class RotateReason(StrEnum):
    """Why a window was closed."""

    COUNT = "flush.size records"
    BYTES = "flush.bytes reached"
    INTERVAL = "rotate.interval.ms passed by the records' time"
    PATH = "the directory changed"
    FILES = "partitioner.max.open.files are open"
    SCHEMA = "the schema changed"
    SCHEDULE = "rotate.schedule.interval.ms is due"
    IDLE = "rotate.interval.ms passed and no record came"
    END = "end of a one-shot backup"
    AGE = "records have waited long enough"
    GAP = "the records that follow are gone from Kafka"
    PLAN = "end of the planned range"
