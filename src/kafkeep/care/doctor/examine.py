"""All checks, in the order in which they help: the machine, Kafka, the store, then Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafkeep.care.doctor.bucket import check_store
from kafkeep.care.doctor.check import guarded
from kafkeep.care.doctor.cluster import check_kafka
from kafkeep.care.doctor.exact import SUBJECT, check_exact_offsets
from kafkeep.care.doctor.machine import check_disk, check_java, check_spark
from kafkeep.check import Check
from kafkeep.clock import now_ms
from kafkeep.config.kafka import KafkaOptions
from kafkeep.config.spark import SparkOptions
from kafkeep.config.storage import StorageOptions


@dataclass(frozen=True, kw_only=True)
class DoctorPlaces:
    """What to look at; None is left out."""

    archive: str | None = None
    storage: StorageOptions = field(default_factory=StorageOptions)
    kafka: KafkaOptions | None = None
    exact: bool = False
    """Also try in Kafka what a restore at exact offsets needs."""
    spark: SparkOptions | None = None


def examine(places: DoctorPlaces, clock: Callable[[], int] = now_ms) -> Iterator[Check]:
    """Yield each check as soon as it is done; one that fails does not stop the others."""
    yield from guarded("java", check_java())
    yield from guarded("disk", check_disk())
    if places.kafka is not None:
        yield from guarded("kafka", check_kafka(places.kafka))
        if places.exact:
            yield from guarded(SUBJECT, check_exact_offsets(places.kafka))
    if places.archive is not None:
        yield from guarded("store", check_store(places.archive, places.storage, clock))
    if places.spark is not None:
        yield from guarded("spark", check_spark(places.spark))
