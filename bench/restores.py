"""Restores of a kind: at exact offsets, and of a small part of an archive."""

from __future__ import annotations

import statistics
import time

from bench import topics
from bench.measure import Cost, run_kafkeep
from bench.runs import backup, delete, kafka_options, new_archive, restore
from bench.traffic import Counter
from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.admin.fill_offsets import LARGEST_FILLER, filler_batch
from kafkeep.kafka.batch.rewrite import stamp
from kafkeep.kafka.client.wire import Wire

PARTITIONS = 3
LOG_START = 50_000_000
TRANSACTIONS = 300
LARGE_MESSAGES = {"max.message.bytes": "8388608"}


def exact_offsets(status: DevStatus, records: int, repeat: int) -> dict[str, float]:
    """Logs that begin at 50,000,000; and a topic with a hole after every transaction."""
    filled = _runs(status, "bench-late", min(records // 30, 100_000), repeat, _late)
    holes = _runs(status, "bench-transactions", 0, repeat, _transactional)
    return {
        "offsets filled": filled[0].summary["filled"],
        "fill seconds": statistics.median(run.summary["seconds"] for run in filled),
        "offsets filled/s": statistics.median(
            run.summary["filled"] / run.summary["seconds"] for run in filled
        ),
        "holes": holes[0].summary["holes"],
        "holes seconds": statistics.median(run.summary["seconds"] for run in holes),
        "holes/s": statistics.median(
            run.summary["holes"] / run.summary["seconds"] for run in holes
        ),
    }


def _runs(status: DevStatus, topic: str, records: int, repeat: int, make) -> list[Cost]:
    topics.create(status.bootstrap_servers, topic, PARTITIONS, **LARGE_MESSAGES)
    make(status, topic, records)
    archive = new_archive(status)
    backup(status, topic, archive)
    costs = []
    for number in range(max(1, repeat - 1)):
        target = f"{topic}-exact-{number}"
        costs.append(restore(status, topic, target, archive, "--exact-offsets"))
        delete(status, target)
    delete(status, topic)
    return costs


def _late(status: DevStatus, topic: str, records: int) -> None:
    """Fill offsets as a topic does over years, delete them, and go on with records."""
    body = filler_batch(LARGEST_FILLER, time.time_ns() // 1_000_000)
    stamp(body, -1, -1, -1)
    with Wire(kafka_options(status)) as wire:
        for _ in range(LOG_START // LARGEST_FILLER):
            request = {(topic, p): bytes(body) for p in range(PARTITIONS)}
            wire.produce(request).result()
        Admin(wire).delete_records({(topic, p): LOG_START for p in range(PARTITIONS)})
    topics.fill(status.bootstrap_servers, topic, records, PARTITIONS)


def _transactional(status: DevStatus, topic: str, _records: int) -> None:
    topics.transactions(status.bootstrap_servers, topic, TRANSACTIONS, PARTITIONS)


def one_hundredth(status: DevStatus, records: int, repeat: int) -> dict[str, float]:
    """What is read from S3, counted on the way, to restore 1 % by offsets and by times."""
    topic = "bench-part"
    topics.create(status.bootstrap_servers, topic, PARTITIONS)
    topics.fill(status.bootstrap_servers, topic, records, PARTITIONS)
    archive = new_archive(status)
    backup(status, topic, archive)
    size = run_kafkeep("du", "--archive", archive).summary["data_bytes"]
    (log,) = run_kafkeep("info", "--archive", archive, "--topic", topic).summary["logs"]
    (told,) = log["topics"]
    numbers: dict[str, float] = {"archive MB": size / 1e6}
    for way, flags in {"offsets": _offsets(told), "times": _times(told)}.items():
        with Counter(status.s3.endpoint) as counter:
            environment = {"AWS_ENDPOINT_URL": counter.url}
            target = f"{topic}-by-{way}"
            done = restore(status, topic, target, archive, *flags, environment=environment)
        delete(status, target)
        numbers |= {
            f"by {way}: records restored %": done.summary["records"] / told["records"] * 100,
            f"by {way}: bytes read from S3 %": counter.received / size * 100,
            f"by {way}: seconds": done.summary["seconds"],
        }
    delete(status, topic)
    return numbers


def _offsets(told: dict) -> tuple[str, ...]:
    """Choose a hundredth of each partition, in its middle."""
    picks = []
    for partition in told["partitions"]:
        middle, size = partition["end"] // 2, max(1, partition["end"] // 100)
        picks.append(f"{told['topic']}:{partition['partition']}:{middle}-{middle + size}")
    return "--offsets", ",".join(picks)


def _times(told: dict) -> tuple[str, ...]:
    """Choose a hundredth of the time in which records were made, in its middle."""
    span = told["last_ms"] - told["first_ms"]
    middle = told["first_ms"] + span // 2
    return "--from", str(middle), "--until", str(middle + max(1, span // 100))
