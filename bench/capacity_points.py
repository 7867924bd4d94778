"""The capacity model beside three loads that a following backup archives: an hour of each.

Small segments and ages make a minute show what takes hours with the default ones.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from bench import topics
from bench.beside import Numbers
from bench.runs import delete, new_archive, new_topic
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.archive.view import iter_commits
from kafkeep.dev import DevStatus
from kafkeep.maintenance.capacity import plan_capacity
from kafkeep.options.backup import MIB
from kafkeep.options.capacity import DAY_MS, CapacityOptions
from kafkeep.store.open import open_store

LOADS = ((3, MIB), (48, MIB), (12, 8 * MIB))
"""Partitions, and the bytes of records produced per second."""
SEGMENT_BYTES, AGE_MS, INTERVAL_MS = 4 * MIB, 20_000, 5_000
WARM_SECONDS, MEASURED_SECONDS = 30, 50
"""Records that wait when the backup starts are not part of an even load. Both periods of an object,
of 25 seconds, are measured whole."""
RECORD = 1000
HOURS_PER_DAY = 24


def capacity_points(status: DevStatus, *_: object) -> Numbers:
    """Follow each load; return what the model says of an hour of it, and what was counted."""
    numbers: Numbers = {}
    for partitions, rate in LOADS:
        topic, archive = new_topic(), new_archive(status)
        topics.create(status.bootstrap_servers, topic, partitions)
        with _producing(status, topic, partitions, rate), _following(status, topic, archive):
            time.sleep(WARM_SECONDS)
            begin_ms = time.time_ns() // 10**6
            time.sleep(MEASURED_SECONDS)
        delete(status, topic)
        found = _count(archive, begin_ms, begin_ms + MEASURED_SECONDS * 1000)
        model = _model(partitions, found.pop("raw bytes") / 3600, found.pop("stored / raw"))
        load = f"{partitions} partitions, {rate // MIB} MiB/s"
        for what, counted in found.items():
            numbers |= {f"{load}: {what}, model": model[what], f"{load}: {what}": counted}
        print(f"{load}: {found}, model: {model}", file=sys.stderr, flush=True)
    return numbers


def _model(partitions: int, throughput: float, ratio: float) -> Numbers:
    plan = plan_capacity(
        CapacityOptions(
            partitions=partitions,
            throughput_bytes=round(throughput),
            segment_bytes=SEGMENT_BYTES,
            segment_age_ms=AGE_MS,
            interval_ms=INTERVAL_MS,
            stored_ratio=ratio,
            retention_ms=DAY_MS,
        )
    )
    return {
        "objects an hour": plan.objects_per_day / HOURS_PER_DAY,
        "KB of an object": plan.object_bytes / 1000,
        "cycles an hour": plan.cycles_per_day / HOURS_PER_DAY,
        "writes an hour": plan.writes_per_day / HOURS_PER_DAY,
        "KB of log an hour": plan.log_bytes_per_day / 1000 / HOURS_PER_DAY,
    }


def _count(archive: str, begin_ms: int, end_ms: int) -> Numbers:
    """Count what was stored in a time. Each object takes one write: none is as large as a part."""
    store = open_store(archive)
    in_time: list[ObjectInfo] = [
        info for info in store.list("") if begin_ms <= info.modified_ms < end_ms
    ]
    commits = [found.commit for found in iter_commits(store, "backup") if found.commit is not None]
    chosen = [commit.changes for commit in commits if begin_ms <= commit.at_ms < end_ms]
    entries = [entry for changes in chosen for entry in changes.entries]
    stored, raw = sum(e.size_bytes for e in entries), sum(e.raw_bytes for e in entries)
    hour = 3_600_000 / (end_ms - begin_ms)
    return {
        "raw bytes": raw * hour,
        "stored / raw": stored / raw,
        "objects an hour": len(entries) * hour,
        "KB of an object": stored / len(entries) / 1000,
        "cycles an hour": sum(bool(changes.entries) for changes in chosen) * hour,
        "writes an hour": len(in_time) * hour,
        "KB of log an hour": hour
        * sum(info.size_bytes for info in in_time if not info.key.startswith("topics/"))
        / 1000,
    }


@contextmanager
def _producing(status: DevStatus, topic: str, partitions: int, rate: int) -> Iterator[None]:
    """Produce records evenly at ``rate`` bytes per second, to each partition in turn."""
    ended = threading.Event()
    values = [random.randbytes(RECORD // 4).hex().encode() * 2 for _ in range(1000)]

    def produce() -> None:
        client = Producer({"bootstrap.servers": status.bootstrap_servers, "linger.ms": 100})
        began, sent = time.monotonic(), 0
        while not ended.wait(0.02):
            while sent * RECORD < (time.monotonic() - began) * rate:
                client.produce(topic, values[sent % 1000], partition=sent % partitions)
                sent += 1
            client.poll(0)
        client.flush()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _following(status: DevStatus, topic: str, archive: str) -> Iterator[None]:
    """Run ``kafkeep backup --follow`` meanwhile."""
    options = {
        "--bootstrap-servers": status.bootstrap_servers,
        "--topics": topic,
        "--archive": archive,
        "--segment-bytes": str(SEGMENT_BYTES),
        "--segment-age": f"{AGE_MS}ms",
        "--interval": f"{INTERVAL_MS}ms",
    }
    words = [word for pair in options.items() for word in pair]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkeep", "backup", "--follow", *words],
        stdout=subprocess.DEVNULL,
        env=os.environ,
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        if process.wait():
            raise SystemExit(f"kafkeep backup exited with {process.returncode}")
