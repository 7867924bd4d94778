"""How target partitions are shared out to tasks."""

from __future__ import annotations

import hashlib
import pickle

import pytest
from pyspark import cloudpickle

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key
from kafkeep.objects.sink.spec import NO_OPTIONS
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.document import Phase, RestoreDocument, Target, TargetPartition
from kafkeep.restore.plan import RestorePlan, TopicPlan, plan_partition
from kafkeep.restore.routing.routing import routing_of
from kafkeep.restore.selection import TimeRange
from kafkeep.restore.task import TargetWork
from kafkeep.restore.work import (
    HELD_BYTES,
    LARGEST_BUNDLE_BYTES,
    LARGEST_HELD_BYTES,
    TASKS_PER_SLOT,
    bundles_for,
    bundles_of,
    pack_work,
    work_of,
)

MIB = 1 << 20
PID = PartitionId("t", 1, 0)
INFO = TopicInfo(
    topic="t", incarnation=1, topic_id="A" * 22, partitions=1, replication_factor=1, configs={}
)


def entry_at(number: int) -> Entry:
    """Return the entry of an object of one record, with a digest of its own."""
    return Entry(
        key=data_key(PID, number, ".log.zst"), partition_id=PID, topic_id="A" * 22, records=1,
        range=OffsetRange(number, number + 1), min_timestamp=number, max_timestamp=number,
        size_bytes=100, raw_bytes=100, format="segment", codec="zstd",
        sha256=hashlib.sha256(b"%d" % number).hexdigest(),
        index=(IndexPoint(number, 0, 0, number, number),),
    )  # fmt: skip


def work(*sizes: int) -> list[TargetWork]:
    return [
        TargetWork(
            topic="t",
            topic_id="A" * 22,
            partition=number,
            place=TargetPartition(0, 1, 0),
            entries=(),
            est_bytes=size,
        )
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([], 1),
        ([160 * MIB] * 3, 1),
        ([LARGEST_BUNDLE_BYTES] * 3, 3),
        ([LARGEST_BUNDLE_BYTES] * 30, 2 * TASKS_PER_SLOT),
        ([10_000] * 5000, 1),
    ],
    ids=["nothing", "little", "much", "very much", "many small ones"],
)
def test_few_tasks_are_best(sizes: list[int], tasks: int) -> None:
    assert bundles_for(work(*sizes), 2) == tasks


@pytest.mark.parametrize(
    "sizes",
    [[MIB] * 600, [100 * MIB] * 5000, [1000 * MIB] * 10 + [MIB] * 5000],
    ids=["small ones", "large ones", "both"],
)
def test_no_task_holds_much_at_once_however_many_partitions_there_are(sizes: list[int]) -> None:
    wanted = work(*sizes)
    bundles = pack_work(wanted, bundles=bundles_for(wanted, 2))
    for bundle in bundles:
        held = sum(min(item.est_bytes, HELD_BYTES) for item in bundle)
        assert held < 2 * LARGEST_HELD_BYTES
    together = [item for bundle in bundles for item in bundle]
    assert sorted(item.partition for item in together) == list(range(len(sizes)))


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        (RestoreOptions(), False),
        (RestoreOptions(exact_offsets=True), True),
        (RestoreOptions(until_ms=500), False),
        (RestoreOptions(partition_count=3), False),
    ],
    ids=["whole", "exact", "selected", "routed"],
)
def test_a_task_gets_what_was_planned_in_a_few_bytes_for_each_object(
    options: RestoreOptions, exact: bool
) -> None:
    entries = [entry_at(number) for number in range(2000)]
    partition = plan_partition(0, entries, None, TimeRange(None, options.until_ms), 2000)
    routing = routing_of(options, entries)
    plan = RestorePlan("r", "l", 1, (TopicPlan(INFO, "t", (partition,), routing),), exact, routing)
    places = tuple(TargetPartition(0, 1, 0) for _ in range(options.partition_count or 1))
    target = Target("t", 1, "t", False, {}, topic_id="A" * 22, partitions=places)
    document = RestoreDocument(
        id="r", revision=0, phase=Phase.WRITING, log="l", commit=1, cluster_id="c", at_ms=1,
        targets=(target,),
    )  # fmt: skip
    (bundle,) = bundles_of(
        work_of(plan, document), plan, options,
        Locations(kafka=KafkaOptions(bootstrap_servers="k:1"), archive="memory:x",
                  storage=StorageOptions()),
        slots=1, reading=NO_OPTIONS,
    )  # fmt: skip
    body = cloudpickle.dumps(bundle)
    assert len(body) < 100 * len(entries)
    assert pickle.loads(body) == bundle
    slices = bundle.routes[0].sources[0].slices if bundle.routes else bundle.work[0].slices
    if slices is None:
        assert bundle.work[0].entries == entries
    else:
        chosen = [entry for part in slices for entry in part.window.entries]
        assert chosen == (entries[:500] if options.until_ms else entries)
