"""What a worker holds is bounded: many open files, and large ones, cost disk, not memory.

A worker is this file run as a process of its own, on real services. It writes a little first, as
every worker has before long; what counts is how much more it holds at its worst.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import ANY_TIME, Cluster

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.task import BackupBundle, BundledRange, archive_bundle
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.objects.segment.writer import SegmentIntent
from kafkeep.objects.sink.spec import RotateReason, SinkIntent
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.sink.sink import SinkSpec
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.jvm import WORKER_MEMORY

pytestmark = pytest.mark.integration
LONG = pytest.mark.slow
"""Each of these writes hundreds of megabytes: `make test-memory` runs them all."""

MORE_MB = 300
BATCH = 1000
RECORDS = 300_000
NOISE = 15
"""Records of a batch of noise."""
BYTE_ARRAYS = "org.apache.kafka.connect.converters.ByteArrayConverter"
HOUR_MS = 3_600_000
JSON = {"format.class": "json", "flush.size": "10000000", "flush.bytes": "8GiB"}
BY_FIELD = {"partitioner.class": "field", "partition.field.name": "user.id"}
BY_TIME = {
    "partitioner.class": "hourly",
    "timestamp.extractor": "Record",
    "locale": "en",
    "timezone": "UTC",
}
PARQUET = {
    "format.class": "parquet",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


@dataclass(frozen=True)
class Filled:
    """A topic, all of its batches alike."""

    bootstrap: str
    topic: str
    records: int
    """Of each partition."""
    partitions: int = 1


def make_batch() -> bytes:
    """A thousand users, each with one record, at any hour of a week."""
    chances = random.Random(7)
    week = 1_733_000_400_000
    records = []
    for n in range(BATCH):
        text = chances.randbytes(420).hex()
        value = json.dumps({"user": {"id": n, "name": f"user {n}"}, "amount": n / 7, "text": text})
        late = n * 61 % 168 * HOUR_MS + chances.randrange(HOUR_MS)
        records.append(Record(n, week + late, b"%d" % n, value.encode()))
    return build_batch(records)


@pytest.fixture(scope="module")
def filled(services: DevStatus) -> Filled:
    cluster = Cluster(services.bootstrap_servers)
    batch = make_batch()
    name = cluster.create(f"wide-{uuid.uuid4().hex[:8]}", 1, {**ANY_TIME, "retention.ms": "-1"})
    cluster.raw(name, [batch] * (RECORDS // BATCH))
    return Filled(services.bootstrap_servers, name, RECORDS)


@pytest.fixture(scope="module")
def noise(services: DevStatus) -> Filled:
    """Three partitions of 120 MB each that no codec makes smaller."""
    cluster = Cluster(services.bootstrap_servers)
    chances = random.Random(8)
    batch = build_batch([Record(n, 0, None, chances.randbytes(50_000)) for n in range(NOISE)])
    name = cluster.create(f"noise-{uuid.uuid4().hex[:8]}", 3, {**ANY_TIME, "retention.ms": "-1"})
    for partition in range(3):
        cluster.raw(name, [batch] * 160, partition)
    return Filled(services.bootstrap_servers, name, 160 * NOISE, 3)


def measure(filled: Filled, archive: str, options: Mapping[str, str] | None) -> Any:
    """Write a topic in a worker of its own; return what it said of itself."""
    asked = {
        "bootstrap": filled.bootstrap,
        "topic": filled.topic,
        "records": filled.records,
        "partitions": filled.partitions,
        "archive": archive,
        "options": None if options is None else {**JSON, **options},
    }
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            **WORKER_MEMORY,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
        },
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["records"] == filled.records * filled.partitions
    return told


@pytest.mark.parametrize(
    ("options", "files"),
    [
        pytest.param({**BY_FIELD, "s3.compression.type": "gzip"}, 1000, marks=LONG),
        ({**BY_FIELD, **PARQUET}, 1000),
        pytest.param(
            {**BY_TIME, "store.kafka.keys": "true", "keys.format.class": "json"},
            168 * 2,
            marks=LONG,
        ),
    ],
    ids=["fields-gzip", "fields-parquet", "late-keys"],
)
def test_a_thousand_open_files_are_held_in_bounded_memory(
    filled: Filled, archive_address: str, options: dict[str, str], files: int
) -> None:
    told = measure(filled, archive_address, options)
    assert told["objects"] == files
    assert told["more_mb"] <= MORE_MB, told


BYTES = {"format.class": "bytes", "value.converter": BYTE_ARRAYS}
AVRO = {"format.class": "avro", "avro.codec": "null", "value.converter": BYTE_ARRAYS}


@pytest.mark.parametrize(
    "options",
    [None, pytest.param(BYTES, marks=LONG), pytest.param(AVRO, marks=LONG)],
    ids=["segments", "bytes", "avro"],
)
def test_large_objects_are_held_in_bounded_memory(
    noise: Filled, archive_address: str, options: dict[str, str] | None
) -> None:
    told = measure(noise, archive_address, options)
    assert told["objects"] == 3
    assert told["more_mb"] <= MORE_MB, told


# --- in the worker


def memory_mb(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(name)


def run_worker(asked: Mapping[str, Any]) -> dict[str, float]:
    sources = [PartitionId(asked["topic"], 1, number) for number in range(asked["partitions"])]
    whole = OffsetRange(0, asked["records"])
    ranges = tuple(
        BundledRange(
            source.partition,
            PlannedRange(partition_id=source, topic_id=asked["topic_id"], range=whole),
            True,
            1 << 30,
        )
        for source in sources
    )
    write: SegmentIntent | SinkIntent = SegmentIntent(segment_bytes=128 << 20, keeps_aborted=False)
    if asked["options"] is not None:
        closes = {str(source): str(RotateReason.END) for source in sources}
        write = SinkIntent(sink=SinkSpec(asked["options"]), closes=closes)
    bundle = BackupBundle(
        ranges=ranges,
        kafka=KafkaOptions(asked["bootstrap"]),
        archive=asked["archive"],
        storage=StorageOptions.from_env(),
        log_name="sink",
        connector="sink",
        write=write,
        seconds=1000.0,
    )
    warm = f"{asked['archive']}-before"
    first = ranges[0]
    little = replace(first, planned=replace(first.planned, range=OffsetRange(0, 10)))
    list(archive_bundle(replace(bundle, ranges=(little,), log_name="before", archive=warm)))
    before = memory_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    objects = records = 0
    for kind, body in archive_bundle(bundle):
        if kind == "object":
            objects += 1
            is_value = body["entry"].get("view", "value") == "value"
            records += body["entry"]["records"] if is_value else 0
    return {
        "objects": objects,
        "records": records,
        "before_mb": before,
        "more_mb": memory_mb("VmHWM") - before,
    }


if __name__ == "__main__":
    from kafkeep.kafka.admin.admin import Admin
    from kafkeep.kafka.client.wire import wire_for

    told = json.loads(sys.stdin.read())
    topic = Admin(wire_for(KafkaOptions(told["bootstrap"]))).topics([told["topic"]])[told["topic"]]
    print(json.dumps(run_worker({**told, "topic_id": topic.topic_id})))
