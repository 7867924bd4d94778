"""How an archive grew, and its newest objects, from the log that the catalog keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.archive_builder import (
    FIRST_MS,
    Built,
    ObjectPlan,
    build_archive,
    partition,
    records,
    write_object,
)

from kafkeep.archive.commit import Changes
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.connect.catalog.archives.archives import ArchiveLog, ArchivePlace, Archives
from kafkeep.connect.catalog.archives.stored_objects import newest_objects
from kafkeep.connect.service.archive_growth import ArchiveGrowth
from kafkeep.store.open import open_store

TOPICS = {"orders": [partition(0, 10, 25)], "users": [partition(0, 3)]}


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path))


def open_log(tmp_path: Path) -> ArchiveLog:
    place = ArchivePlace(address=str(tmp_path))
    return Archives(lambda: [place]).log(place, "backup")


def add_object(store: ObjectStore, built: Built) -> str:
    pid = PartitionId("users", 1, 0)
    entry = write_object(store, pid, ObjectPlan(records=records(3, 7)))
    built.log.append(Changes(entries=(entry,), positions={pid: 7}))
    return entry.key


def test_each_commit_after_the_checkpoint_is_a_point(store: ObjectStore, tmp_path: Path) -> None:
    built = build_archive(store, TOPICS)
    add_object(store, built)
    points = ArchiveGrowth().points(open_log(tmp_path))
    assert [(one.at_ms, one.objects, one.records) for one in points] == [
        (FIRST_MS + 1000, 2, 25),
        (FIRST_MS + 2000, 3, 28),
        (FIRST_MS + 3000, 4, 32),
    ]
    assert points[-1].bytes == open_log(tmp_path).entries["size_bytes"].to_numpy().sum()


def test_a_table_of_the_checkpoint_is_one_point(store: ObjectStore, tmp_path: Path) -> None:
    built = build_archive(store, TOPICS, checkpoint=True)
    add_object(store, built)
    points = ArchiveGrowth().points(open_log(tmp_path))
    assert [(one.at_ms, one.objects, one.records) for one in points] == [
        (FIRST_MS + 2000, 3, 28),
        (FIRST_MS + 3000, 4, 32),
    ]


def test_a_log_without_objects_has_no_points_and_no_objects(
    store: ObjectStore, tmp_path: Path
) -> None:
    build_archive(store, {})
    log = open_log(tmp_path)
    assert ArchiveGrowth().points(log) == ()
    assert newest_objects(log, 10) == ()


def test_the_newest_objects_come_first(store: ObjectStore, tmp_path: Path) -> None:
    built = build_archive(store, TOPICS, checkpoint=True)
    last = add_object(store, built)
    found = newest_objects(open_log(tmp_path), 3)
    assert [(one.partition_id.topic, one.start, one.end) for one in found] == [
        ("users", 3, 7),
        ("orders", 10, 25),
        ("orders", 0, 10),
    ]
    assert (found[0].key, found[0].committed_ms) == (last, FIRST_MS + 3000)
    assert (found[0].archive, found[0].log) == (ArchivePlace(address=str(tmp_path)).id, "backup")
    assert found[1].committed_ms is None
