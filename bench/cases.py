"""What is measured. Each case returns names and numbers; ratios are taken inside one run."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory

from bench import topics
from bench.beside import Beside, Numbers, beside, figures
from bench.capacity_points import capacity_points
from bench.connectors import many_connectors
from bench.floors import fetch_floor, produce_floor
from bench.growth import partitions_of_the_same_bytes, ten_times_the_records
from bench.pages import console_pages
from bench.restores import exact_offsets, one_hundredth
from bench.runs import backup, delete, kafka_options, new_archive, new_topic, restore
from bench.scale import scale
from bench.standalone import standalone_workers
from bench.whole_runs import whole_runs
from kafkeep.archive.commit import Changes
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key
from kafkeep.archive.log import CommitLog
from kafkeep.clock import now_ms
from kafkeep.dev import DevStatus
from kafkeep.options.kafka import KafkaOptions
from kafkeep.store.open import open_store


def large_batches(status: DevStatus, records: int, repeat: int) -> Numbers:
    """Backup and restore of one topic in 3 partitions, beside the floors."""
    topic = "bench"
    topics.create(status.bootstrap_servers, topic, 3)
    topics.fill(status.bootstrap_servers, topic, records, 3)
    options = kafka_options(status)
    _, data = fetch_floor(options, topic, keep=True)
    backups, restores = [], []
    for _ in range(repeat):
        archive, target = new_archive(status), new_topic()
        backups.append(
            beside(
                lambda: fetch_floor(options, topic)[0],
                partial(backup, status, topic, archive),
            )
        )
        restores.append(
            beside(
                lambda: _produce(status, data),
                partial(restore, status, topic, target, archive),
            )
        )
        delete(status, target)
    numbers: Numbers = {
        "fetch floor seconds": statistics.median(run.floor for run in backups),
        "produce floor seconds": statistics.median(run.floor for run in restores),
    }
    numbers |= figures("backup", backups)
    numbers |= figures("restore", restores)
    if shutil.which("kcat"):
        numbers["kcat seconds"] = _kcat(status, topic)
    delete(status, topic)
    return numbers


def _produce(status: DevStatus, data: list[list[bytes]]) -> float:
    target = new_topic()
    topics.create(status.bootstrap_servers, target, 3, **{"max.message.bytes": "8388608"})
    seconds = produce_floor(kafka_options(status), target, data)
    delete(status, target)
    return seconds


def _kcat(status: DevStatus, topic: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        ["kcat", "-C", "-b", status.bootstrap_servers, "-t", topic, "-e", "-q", "-o", "beginning"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def single_record_batches(status: DevStatus, records: int, repeat: int) -> Numbers:
    """A topic whose producer made one batch per record, beside the same records in large ones."""
    count = min(records // 3, 1_000_000)
    numbers: Numbers = {"records": count}
    seconds = {}
    for kind, producer in {
        "large": {},
        "single": {"batch.num.messages": 1, "linger.ms": 0},
    }.items():
        topic = f"bench-{kind}"
        topics.create(status.bootstrap_servers, topic, 3)
        topics.fill(status.bootstrap_servers, topic, count, 3, **producer)
        archive = new_archive(status)
        numbers[f"backup of {kind} batches seconds"] = backup(status, topic, archive).summary[
            "seconds"
        ]
        runs = []
        for _ in range(max(1, repeat - 1)):
            runs.append(restore(status, topic, f"{topic}-back", archive).summary["seconds"])
            delete(status, f"{topic}-back")
        seconds[kind] = numbers[f"restore of {kind} batches seconds"] = min(runs)
        delete(status, topic)
    numbers["restore single / large"] = seconds["single"] / seconds["large"]
    return numbers


def many_partitions(status: DevStatus, records: int, repeat: int) -> Numbers:
    """A topic with 500 partitions."""
    count = min(records, 500_000)
    topics.create(status.bootstrap_servers, "bench-wide", 500)
    topics.fill(status.bootstrap_servers, "bench-wide", count, 500)
    archive = new_archive(status)
    saved = backup(status, "bench-wide", archive)
    back = restore(status, "bench-wide", "bench-wide-back", archive)
    delete(status, "bench-wide", "bench-wide-back")
    return {
        "records": count,
        "backup seconds": saved.summary["seconds"],
        "backup objects": saved.summary["objects"],
        "restore seconds": back.summary["seconds"],
        "backup largest worker MB": saved.worker_mb,
        "restore largest worker MB": back.worker_mb,
    }


def commit_cost(status: DevStatus, records: int, repeat: int) -> Numbers:
    """What a commit and opening cost with 1,000 and with 100,000 entries in the log."""
    numbers: Numbers = {}
    for entries in (1_000, 100_000):
        with TemporaryDirectory() as folder:
            store = open_store(folder)
            log = CommitLog.open(store, "bench", writer="fill", now_ms=now_ms)
            for number in range(entries // 10):
                log.append(_changes(number * 10, 10))
                log.checkpoint_if_due()
            began = time.perf_counter()
            log = CommitLog.open(store, "bench", writer="again", now_ms=now_ms)
            numbers[f"open with {entries:,} entries ms"] = (time.perf_counter() - began) * 1000
            times = []
            for number in range(100):
                began = time.perf_counter()
                log.append(_changes(entries + number, 1))
                log.checkpoint_if_due()
                times.append(time.perf_counter() - began)
            numbers[f"commit with {entries:,} entries ms (mean)"] = statistics.mean(times) * 1000
    return numbers


def _changes(start: int, count: int) -> Changes:
    pid = PartitionId("orders", 1, 0)
    entries = tuple(
        Entry(
            key=data_key(pid, offset, ".log.zst"),
            partition_id=pid,
            topic_id="A" * 22,
            range=OffsetRange(offset, offset + 1),
            records=1,
            min_timestamp=0,
            max_timestamp=0,
            size_bytes=100,
            raw_bytes=100,
            format="segment",
            codec="zstd",
            sha256="0" * 64,
        )
        for offset in range(start, start + count)
    )
    return Changes(entries=entries, positions={pid: start + count})


def encrypted(status: DevStatus, records: int, repeat: int) -> Numbers:
    """The same over TLS with SCRAM."""
    listener = status.secured("scram")
    count = min(records, 1_000_000)
    topics.create(status.bootstrap_servers, "bench-tls", 3)
    topics.fill(status.bootstrap_servers, "bench-tls", count, 3)
    config = str(listener.properties_file)
    archive = new_archive(status)
    floor, _ = fetch_floor(KafkaOptions.load(listener.bootstrap_servers, config), "bench-tls")
    secured = {"at": listener.bootstrap_servers}
    saved = backup(status, "bench-tls", archive, "--command-config", config, **secured)
    back = restore(
        status, "bench-tls", "bench-tls-back", archive, "--command-config", config, **secured
    )
    delete(status, "bench-tls", "bench-tls-back")
    return {
        "records": count,
        "fetch floor seconds (TLS)": floor,
        "backup seconds": saved.summary["seconds"],
        "backup / floor": saved.summary["seconds"] / floor,
        "restore seconds": back.summary["seconds"],
    }


GZIP = ("--format", "json", "--set", "s3.compression.type=gzip")
SINKS = {
    "JSON+gzip": GZIP,
    "JSON": ("--format", "json"),
    "Avro": ("--format", "avro"),
    "Avro without compression": ("--format", "avro", "--set", "avro.codec=null"),
    "Parquet": ("--format", "parquet"),
    "JSON+gzip by field (1,000 values)": (
        *GZIP,
        *("--set", "partitioner.class=field", "--set", "partition.field.name=amount"),
    ),
}
LATE = "JSON+gzip by the hour, late by up to a week"


def sink_formats(status: DevStatus, records: int, repeat: int) -> Numbers:
    """The same topic written in each format of the sink, beside the fetch floor."""
    topic = "bench-formats"
    topics.create(status.bootstrap_servers, topic, 3)
    topics.fill(status.bootstrap_servers, topic, records, 3)
    options = kafka_options(status)
    runs: dict[str, list[Beside]] = {name: [] for name in SINKS}
    fetch_floor(options, topic)
    for _ in range(repeat):
        for name, flags in SINKS.items():
            runs[name].append(
                beside(
                    lambda: fetch_floor(options, topic)[0],
                    partial(backup, status, topic, new_archive(status), *flags),
                )
            )
    delete(status, topic)
    runs[LATE] = [_late(status, records)]
    floors = [run.floor for measured in runs.values() for run in measured]
    numbers: Numbers = {"fetch floor seconds": statistics.median(floors)}
    for name, measured in runs.items():
        numbers |= {
            key: value
            for key, value in figures(name, measured).items()
            if not key.endswith(("MB/s", "(all processes)", "worker MB"))
        }
    return numbers


def _late(status: DevStatus, records: int) -> Beside:
    topic = "bench-late"
    topics.create(status.bootstrap_servers, topic, 3, **{"retention.ms": "-1"})
    topics.fill(status.bootstrap_servers, topic, records, 3, is_late=True)
    hourly = ("partitioner.class=hourly", "locale=en", "timezone=UTC", "timestamp.extractor=Record")
    flags = [word for one in hourly for word in ("--set", one)]
    run = beside(
        lambda: fetch_floor(kafka_options(status), topic)[0],
        partial(backup, status, topic, new_archive(status), *GZIP, *flags),
    )
    delete(status, topic)
    return run


CASES: dict[str, Callable[[DevStatus, int, int], Numbers]] = {
    "whole runs": whole_runs,
    "large batches": large_batches,
    "one batch per record": single_record_batches,
    "500 partitions": many_partitions,
    "2,000 partitions": partitions_of_the_same_bytes,
    "ten times the records": ten_times_the_records,
    "two standalone workers": standalone_workers,
    "cost of a commit": commit_cost,
    "TLS and SCRAM": encrypted,
    "exact offsets": exact_offsets,
    "one hundredth of an archive": one_hundredth,
    "formats of the sink": sink_formats,
    "50 connectors": many_connectors,
    "console": console_pages,
    "scale": scale,
    "capacity": capacity_points,
}
