"""Archives as pages see them: kept in memory, read again when they have grown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.archive_builder import (
    FIRST_MS,
    ObjectPlan,
    build_archive,
    partition,
    records,
    write_object,
)
from tests.support.waiting import until

from kafkeep.archive.commit import Changes, Gap, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.connect.catalog.archives.archives import FRESH_S, RELOAD_EVERY, ArchivePlace, Archives
from kafkeep.connect.model import RestError
from kafkeep.store.open import open_store


class Scene:
    """An archive with a log, and a clock that is set by hand."""

    def __init__(self, folder: Path) -> None:
        self.place = ArchivePlace(address=str(folder), connectors=("sink",))
        self.store = open_store(str(folder))
        self.now = 0.0
        self.archives = Archives(lambda: [self.place], monotonic=lambda: self.now)

    def pass_time(self) -> None:
        self.now += FRESH_S + 0.1


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_index_has_a_row_for_each_entry(scene: Scene, checkpoint: bool) -> None:
    built = build_archive(
        scene.store,
        {"orders": [partition(0, 10, 25), partition(5, 9)], "users": [partition(0, 3)]},
        checkpoint=checkpoint,
    )
    log = scene.archives.log(scene.place, "backup")
    rows = log.entries.to_pylist()
    assert sorted(row["key"] for row in rows) == sorted(one.key for one in built.entries)
    assert {(row["topic"], row["partition"], row["start"], row["end"]) for row in rows} == {
        ("orders", 0, 0, 10),
        ("orders", 0, 10, 25),
        ("orders", 1, 5, 9),
        ("users", 0, 0, 3),
    }
    assert {row["view"] for row in rows} == {"value"}


def test_a_log_is_read_again_only_when_it_has_grown(scene: Scene) -> None:
    built = build_archive(scene.store, {"orders": [partition(0, 10)]})
    first = scene.archives.log(scene.place, "backup")
    scene.pass_time()
    assert scene.archives.log(scene.place, "backup") is first
    built.log.append(Changes(groups={"g": {PartitionId("orders", 1, 0): 4}}))
    assert scene.archives.log(scene.place, "backup") is first  # looked at a moment ago
    scene.pass_time()
    again = scene.archives.log(scene.place, "backup")
    assert again is not first
    assert again.view.groups == {"g": {PartitionId("orders", 1, 0): 4}}


def test_retired_entries_are_not_in_the_index(scene: Scene) -> None:
    built = build_archive(scene.store, {"orders": [partition(0, 10, 25)]})
    pid = PartitionId("orders", 1, 0)
    built.log.append(Changes(retired={pid: 10}, positions={pid: 10}))
    rows = scene.archives.log(scene.place, "backup").entries.to_pylist()
    kept = {entry.key for entry in scene.archives.log(scene.place, "backup").view.entries()}
    assert {row["key"] for row in rows} == kept
    assert [(row["start"], row["end"]) for row in rows] == [(0, 10)]


def test_unknown_archives_and_logs_are_not_found(scene: Scene) -> None:
    build_archive(scene.store, {"orders": [partition(0, 10)]})
    assert scene.archives.place(scene.place.id) == scene.place
    assert scene.archives.log_names(scene.place) == ["backup"]
    with pytest.raises(RestError, match="No connector of this service uses an archive"):
        scene.archives.place("0123456789")
    with pytest.raises(RestError, match="has no log named 'other'"):
        scene.archives.log(scene.place, "other")


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_log_that_grows_has_the_same_entries_and_gaps_as_one_that_is_loaded_anew(
    scene: Scene, checkpoint: bool
) -> None:
    lost = OffsetRange(25, 30)
    build_archive(
        scene.store,
        {"orders": [partition(0, 10, 25, gaps=[lost])]},
        checkpoint=checkpoint,
    )
    before = scene.archives.log(scene.place, "backup")
    scene.pass_time()
    log = CommitLog.open(scene.store, "backup", writer="second", now_ms=lambda: 2 * FIRST_MS)
    pid = PartitionId("users", 1, 0)
    entry = write_object(scene.store, pid, ObjectPlan(records=records(0, 3)))
    info = TopicInfo(
        topic="users",
        incarnation=1,
        topic_id="id-users",
        partitions=1,
        replication_factor=1,
        configs={},
    )
    gap = Gap(pid, OffsetRange(3, 5), "retention", 1)
    added = log.append(
        Changes(entries=(entry,), gaps=(gap,), topics=(info,), positions={pid: 5})
    ).number
    grown = scene.archives.log(scene.place, "backup")
    anew = Archives(lambda: [scene.place]).log(scene.place, "backup")
    assert grown is not before
    assert grown.view.commit == anew.view.commit == added
    assert grown.entries.to_pylist() == anew.entries.to_pylist()
    assert grown.gaps == anew.gaps
    assert [one.range for one in grown.gaps] == [lost, OffsetRange(3, 5)]
    assert grown.view.positions == anew.view.positions
    row = grown.entries.to_pylist()[-1]
    assert (row["first_commit"], row["last_commit"]) == (added, added)
    assert (row["sha256"], row["codec"]) == (entry.sha256, "zstd")


def test_a_log_that_has_grown_by_many_commits_is_read_from_its_checkpoint(scene: Scene) -> None:
    built = build_archive(scene.store, {"orders": [partition(0, 10)]})
    scene.archives.log(scene.place, "backup")
    for number in range(RELOAD_EVERY + 2):
        built.log.append(Changes(groups={"g": {PartitionId("orders", 1, 0): number % 10}}))
    built.log.checkpoint()
    scene.pass_time()
    log = scene.archives.log(scene.place, "backup")
    assert log.view.commit == built.log.state.commit
    assert not log.loaded.tail
    assert len(log.entries) == 1


def test_an_archive_that_was_begun_anew_is_read_again(scene: Scene) -> None:
    build_archive(scene.store, {"orders": [partition(0, 10)]})
    assert scene.archives.log(scene.place, "backup").entries.num_rows == 1
    for info in list(scene.store.list("")):
        scene.store.delete(info.key)
    build_archive(
        scene.store, {"orders": [partition(0, 5, 7)], "users": [partition(0, 2)]}, checkpoint=True
    )
    scene.pass_time()
    assert scene.archives.log(scene.place, "backup").entries.num_rows == 3


def test_a_second_connector_of_an_archive_does_not_load_it_again(scene: Scene) -> None:
    build_archive(scene.store, {"orders": [partition(0, 10)]})
    first = scene.archives.log(scene.place, "backup")
    scene.place = replace(scene.place, connectors=("sink", "other"))
    scene.pass_time()
    again = scene.archives.log(scene.place, "backup")
    assert again.place.connectors == ("sink", "other")
    assert again.entries is first.entries


def test_a_log_can_be_asked_for_its_very_newest_commit(scene: Scene) -> None:
    built = build_archive(scene.store, {"orders": [partition(0, 10)]})
    first = scene.archives.log(scene.place, "backup")
    built.log.append(Changes(groups={"g": {PartitionId("orders", 1, 0): 4}}))
    again = scene.archives.log(scene.place, "backup", max_age_s=0)
    assert again.view.commit == first.view.commit + 1


def test_a_watched_log_is_read_on_without_a_page(tmp_path: Path) -> None:
    place = ArchivePlace(address=str(tmp_path))
    built = build_archive(open_store(str(tmp_path)), {"orders": [partition(0, 10)]})
    archives = Archives(lambda: [place], is_watching=True)
    first = archives.log(place, "backup")
    commit = built.log.append(Changes(groups={"g": {PartitionId("orders", 1, 0): 4}}))
    until(lambda: archives._logs[place.id, "backup"].log is not first, "the log is read on")
    assert archives.log(place, "backup").view.commit == commit.number
    archives.close()
