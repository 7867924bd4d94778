from __future__ import annotations

from dataclasses import replace

from kafkeep.archive.commit import Changes, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import load_view
from kafkeep.maintenance.inspect.info import describe
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.store.memory import MemoryStore

ENTRY = Entry(
    key="topics/t/partition=0/t+0+0000000000.json",
    partition_id=PartitionId("t", 1, 0),
    topic_id="id",
    range=OffsetRange(0, 1),
    records=1,
    min_timestamp=0,
    max_timestamp=0,
    size_bytes=1,
    raw_bytes=1,
    format="json",
    codec="none",
    sha256="0" * 64,
)


def test_how_a_sink_wrote_is_asked_once_for_all_topics() -> None:
    store, asked = MemoryStore(), []
    log = CommitLog.open(store, "sink", writer="w", now_ms=lambda: 0)
    pids = [PartitionId(name, 1, 0) for name in ("a", "b", "c")]
    log.append(
        Changes(
            entries=tuple(
                replace(ENTRY, key=f"topics/{p.topic}/x.json", partition_id=p) for p in pids
            ),
            positions=dict.fromkeys(pids, 1),
            topics=tuple(
                TopicInfo(
                    topic=p.topic,
                    incarnation=1,
                    topic_id="id",
                    partitions=1,
                    replication_factor=1,
                    configs={},
                )
                for p in pids
            ),
        )
    )

    def load_options() -> ReadOptions:
        asked.append(1)
        return ReadOptions()

    found = describe(load_view(store, "sink"), load_options=load_options)
    assert [topic.records for topic in found.topics] == [1, 1, 1]
    assert len(asked) == 1
