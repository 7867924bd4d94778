"""What a log holds of each topic: the same when it is summed up at once or commit by commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.archive_builder import (
    ObjectPlan,
    build_archive,
    partition,
    records,
    write_object,
)

from kafkeep.archive.commit import Changes, Gap, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.connect.catalog.archives.archives import FRESH_S, ArchivePlace, Archives
from kafkeep.connect.catalog.topics.logged_topics import Summary, read_on_summary, summarize_log
from kafkeep.store.open import open_store


def facts(summary: Summary) -> list[tuple[Any, ...]]:
    """Return all of a summary but the log."""
    return [
        (
            (name, one.info, sorted(one.positions.items()), one.gaps),
            (one.records, one.size_bytes, one.objects, one.oldest_ms, one.newest_ms),
        )
        for name, several in summary.items()
        for one in several
    ]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_summary_that_is_read_on_is_that_of_the_whole_log(
    tmp_path: Path, checkpoint: bool
) -> None:
    store, now = open_store(str(tmp_path)), 0.0
    lost = OffsetRange(25, 30)
    topics = {"orders": [partition(0, 10, 25, gaps=[lost]), partition(0, 4)]}
    built = build_archive(store, topics, checkpoint=checkpoint)
    place = ArchivePlace(address=str(tmp_path))
    archives = Archives(lambda: [place], monotonic=lambda: now)
    log = archives.log(place, "backup")
    summary = summarize_log(log)
    orders, users, again = (
        PartitionId("orders", 1, 1),
        PartitionId("users", 1, 0),
        PartitionId("orders", 2, 0),
    )
    infos = [
        TopicInfo(
            topic=pid.topic,
            incarnation=pid.incarnation,
            topic_id=f"id-{pid.folder}",
            partitions=1,
            replication_factor=1,
            configs={},
        )
        for pid in (users, again)
    ]
    steps = [
        (orders, 4, 9, ()),
        (users, 0, 3, (infos[0],)),
        (again, 0, 2, (infos[1],)),
        (orders, 12, 15, ()),
    ]
    for pid, start, end, described in steps:
        entry = write_object(store, pid, ObjectPlan(records=records(start, end)))
        gaps = (Gap(pid, OffsetRange(9, 12), "retention", 1),) if start == 12 else ()
        built.log.append(
            Changes(entries=(entry,), positions={pid: end}, topics=described, gaps=gaps)
        )
        now += FRESH_S + 1
        grown = archives.log(place, "backup")
        summary, log = read_on_summary(summary, log, grown), grown
        assert facts(summary) == facts(summarize_log(grown))
        assert all(one.log is grown for several in summary.values() for one in several)
    assert [one.info.incarnation for one in summary["orders"]] == [1, 2]


def test_a_log_that_was_loaded_anew_is_summed_up_again(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    built = build_archive(store, {"orders": [partition(0, 10, 25)]})
    place = ArchivePlace(address=str(tmp_path))
    before = Archives(lambda: [place]).log(place, "backup")
    pid = PartitionId("orders", 1, 0)
    built.log.append(Changes(retired={pid: 10}, positions={pid: 10}))
    after = Archives(lambda: [place]).log(place, "backup")
    summary = read_on_summary(summarize_log(before), before, after)
    assert facts(summary) == facts(summarize_log(after))
    assert summary["orders"][0].records == 10
