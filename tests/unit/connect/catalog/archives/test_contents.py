"""Sums, objects, commits and warnings of an archive, as pages and REST show them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

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
from tests.support.waiting import until

from kafkeep.archive.commit import Changes, Commit
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.archive.object_store import ObjectStore
from kafkeep.connect.catalog.archives import commit_history
from kafkeep.connect.catalog.archives.archives import ArchiveLog, ArchivePlace, Archives
from kafkeep.connect.catalog.archives.commit_history import CommitHistory
from kafkeep.connect.catalog.archives.left_overs import FRESH_MS, LeftOverFinder, LeftOverState
from kafkeep.connect.catalog.archives.overview import (
    MANY_OBJECTS,
    describe_archive,
    find_small_objects,
)
from kafkeep.connect.catalog.archives.storage import (
    sum_days,
    sum_entries,
    sum_partitions,
    sum_topics,
)
from kafkeep.connect.catalog.archives.stored_objects import find_object, find_objects
from kafkeep.connect.model import RestError
from kafkeep.maintenance.gc import OrphanAction
from kafkeep.maintenance.inspect.commit_summary import CommitSummary, UnreadCommit, load_commit
from kafkeep.maintenance.inspect.inventory import load_usage
from kafkeep.store.open import open_store

ORDERS = PartitionId("orders", 1, 0)
DAY_MS = 86_400_000


class Scene:
    """An archive with two topics; ``orders`` has a gap and was created again once."""

    def __init__(self, folder: Path, *, checkpoint: bool = False) -> None:
        self.store: ObjectStore = open_store(str(folder))
        self.place = ArchivePlace(address=str(folder), connectors=("sink",))
        self.built: Built = build_archive(
            self.store,
            {
                "orders": [partition(0, 10, 25, gaps=[OffsetRange(25, 30)]), partition(5, 9)],
                "orders~2": [partition(0, 2)],
                "users": [partition(0, 3)],
            },
            checkpoint=checkpoint,
        )

    def archives(self) -> Archives:
        return Archives(lambda: [self.place])

    def log(self) -> ArchiveLog:
        return self.archives().log(self.place, "backup")


@pytest.fixture(params=[False, True], ids=["commits", "checkpoint"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Scene:
    return Scene(tmp_path, checkpoint=request.param)


def test_topics_are_summed_as_du_does(scene: Scene) -> None:
    usage = {one.folder: one for one in load_usage(scene.store, ["backup"]).topics}
    found = sum_topics(scene.log())
    assert [one.folder for one in found] == ["orders", "orders~2", "users"]
    for one in found:
        known = usage[one.folder]
        assert one.sums.objects == known.objects
        assert one.sums.records == known.records
        assert one.sums.size_bytes == known.stored_bytes
        assert one.sums.raw_bytes == known.raw_bytes
    assert [one.partitions for one in found] == [2, 1, 1]
    assert sum_entries(scene.log().entries).objects == len(scene.built.entries)


def test_objects_of_keys_and_headers_add_no_records(scene: Scene) -> None:
    pid = PartitionId("users", 1, 0)
    value = write_object(scene.store, pid, ObjectPlan(records=records(3, 6)))
    keys = replace(value, key=f"{value.key}.keys", view="keys", parts=2)
    scene.built.log.append(Changes(entries=(replace(value, parts=2), keys), positions={pid: 6}))
    [users] = [one for one in sum_topics(scene.log()) if one.topic == "users"]
    assert (users.sums.objects, users.sums.records) == (3, 6)


def test_partitions_have_their_first_and_last_offsets(scene: Scene) -> None:
    found = sum_partitions(scene.log(), "orders", 1)
    assert [(one.partition, one.start, one.end, one.sums.records) for one in found] == [
        (0, 0, 25, 25),
        (1, 5, 9, 4),
    ]
    assert sum_partitions(scene.log(), "nothing", 1) == []


def test_days_are_those_of_the_newest_records_and_odd_times_have_none(scene: Scene) -> None:
    pid = PartitionId("users", 1, 0)
    plan = ObjectPlan(records=records(3, 6))
    entry = write_object(scene.store, pid, plan)
    later = replace(entry, max_timestamp=FIRST_MS + 2 * DAY_MS)
    odd = write_object(scene.store, pid, ObjectPlan(records=records(6, 7)))
    odd = replace(odd, min_timestamp=-1, max_timestamp=-1)
    nanos = write_object(scene.store, pid, ObjectPlan(records=records(7, 8)))
    nanos = replace(nanos, max_timestamp=FIRST_MS * 1_000_000)
    scene.built.log.append(Changes(entries=(later, odd, nanos), positions={pid: 8}))
    days = sum_days(scene.log().entries)
    assert [str(one.day) for one in days] == ["2023-11-16", "2023-11-14", "None"]
    assert [one.sums.objects for one in days] == [1, len(scene.built.entries), 2]
    assert days[0].at_ms == (FIRST_MS // DAY_MS + 2) * DAY_MS


def test_an_archive_of_a_log_without_objects_has_no_sums(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    build_archive(store, {})
    place = ArchivePlace(address=str(tmp_path))
    log = Archives(lambda: [place]).log(place, "backup")
    assert sum_topics(log) == []
    assert sum_days(log.entries) == []
    assert sum_entries(log.entries).ratio is None
    assert find_small_objects([log]) == []


def test_objects_of_a_partition_come_in_offset_order_a_page_at_a_time(scene: Scene) -> None:
    log = scene.log()
    first = find_objects(log, "orders", 1, 0, page=1, size=1)
    second = find_objects(log, "orders", 1, 0, page=2, size=1)
    assert [(one.start, one.end) for one in (*first.items, *second.items)] == [(0, 10), (10, 25)]
    assert (first.last, first.count) == (2, 2)
    assert find_objects(log, "orders", 1, 0, page=99, size=1).number == 2
    [holds] = find_objects(log, "orders", 1, 0, offset=17).items
    assert (holds.start, holds.end) == (10, 25)
    assert find_objects(log, "orders", 1, 0, offset=25).items == ()


def test_an_object_is_described_as_its_entry_does(scene: Scene) -> None:
    log = scene.log()
    for entry in scene.built.entries:
        found = find_object(log, entry.key)
        assert found.partition_id == entry.partition_id
        assert (found.start, found.end) == (entry.range.start, entry.range.end)
        assert (found.sha256, found.codec, found.holes) == (entry.sha256, "zstd", 0)
        assert found.first_commit <= found.last_commit <= log.view.commit
    with pytest.raises(RestError, match="names no object"):
        find_object(log, "topics/none")


def test_commits_say_what_they_brought_the_newest_first(scene: Scene) -> None:
    log = scene.log()
    page = CommitHistory().page(log, None, 2)
    assert [one.number for one in page.commits] == [log.view.commit, log.view.commit - 1]
    users, again = page.commits
    assert isinstance(users, CommitSummary)
    assert (users.named_topics, users.sums.records, users.changed_topics) == (("users",), 3, 1)
    assert isinstance(again, CommitSummary)
    assert again.named_topics == ("orders~2",)
    older = CommitHistory().page(log, page.older, 50)
    assert [one.number for one in older.commits] == list(range(page.older or 0))[::-1]
    assert older.older is None
    orders = older.commits[0]
    assert isinstance(orders, CommitSummary)
    assert (orders.gaps, orders.lost_offsets, orders.sums.records) == (1, 5, 29)


def test_a_listed_commit_is_read_once_and_a_large_one_only_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, checkpoint=True)
    log = scene.log()
    history = CommitHistory()
    monkeypatch.setattr(commit_history, "_READ_BYTES", 1)
    page = history.page(log, None, 10)
    assert all(isinstance(one, UnreadCommit) and one.size_bytes for one in page.commits)
    history.commit(log, log.view.commit)
    [newest, *_] = history.page(log, None, 10).commits
    assert isinstance(newest, CommitSummary)
    (tmp_path / log_key("backup", log.view.commit)).unlink()
    [newest, *_] = history.page(log, None, 10).commits
    assert isinstance(newest, CommitSummary)


def test_a_sample_of_commits_covers_the_log_and_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    for _ in range(200):
        scene.built.log.append(Changes(note="x"))
    scene.built.log.checkpoint()
    log = scene.log()
    reads: list[int] = []

    def read(*given: Any) -> Commit:
        reads.append(given[-1])
        return load_commit(*given)

    monkeypatch.setattr(commit_history, "load_commit", read)
    (tmp_path / log_key("backup", 64)).write_text("{}")
    sampled = [128, 192, 96, 160, 32, 64, 0]
    history = CommitHistory()
    found = [one.number for one in history.sample(log, 10)]
    assert found == sorted(set(sampled) - {64}, reverse=True)  # what is damaged is left out
    assert sorted(reads) == sorted(sampled)
    history.sample(log, 10)
    assert len(reads) == len(sampled) + 1  # only the damaged one again


def test_a_sample_that_takes_too_long_still_covers_the_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_history, "_AT_ONCE", 1)
    scene = Scene(tmp_path)
    for _ in range(200):
        scene.built.log.append(Changes(note="x"))
    scene.built.log.checkpoint()
    ticks = iter([0.0, *[0.5] * 3, *[1.0] * 100])
    history = CommitHistory(monotonic=lambda: next(ticks))
    assert [one.number for one in history.sample(scene.log(), 10)] == [128, 64, 0]


def test_missing_and_damaged_commits_are_named_in_the_list(tmp_path: Path) -> None:
    scene = Scene(tmp_path, checkpoint=True)
    log = scene.log()
    (tmp_path / log_key("backup", 1)).unlink()
    (tmp_path / log_key("backup", 2)).write_text("{}")
    page = CommitHistory().page(log, 3, 2)
    damaged, missing = page.commits
    assert isinstance(damaged, UnreadCommit)
    assert log_key("backup", 2) in damaged.problem
    assert isinstance(missing, UnreadCommit)
    assert missing.problem == "it is missing in the store"
    with pytest.raises(RestError, match="has no commit 99"):
        CommitHistory().commit(log, 99)


def test_an_overview_has_all_logs_and_says_which_cannot_be_read(scene: Scene) -> None:
    build_archive(scene.store, {"events": [partition(0, 4)]}, name="second")
    found = describe_archive(scene.archives(), scene.place)
    assert [one.name for one in found.logs] == ["backup", "second"]
    assert found.sums.records == 38
    assert (found.gaps, found.logs[0].lost_offsets) == (1, 5)
    assert (found.problems, found.verified_ms) == ((), None)
    newest = max(scene.store.list("_kafkeep/second/log/"), key=lambda one: one.key).key
    Path(scene.place.address, newest).write_text("{}")
    broken = describe_archive(scene.archives(), scene.place)
    assert newest in broken.problems[0]
    assert broken.logs[0].sums.records == 34


def test_an_archive_that_does_not_exist_yet_has_no_logs(tmp_path: Path) -> None:
    place = ArchivePlace(address=str(tmp_path / "later"))
    found = describe_archive(Archives(lambda: [place]), place)
    assert (found.logs, found.problems, found.at_ms) == ((), (), None)


def test_only_topics_with_many_small_objects_are_warned_of(scene: Scene) -> None:
    assert find_small_objects([scene.log()]) == []
    pid = PartitionId("users", 1, 0)
    first = write_object(scene.store, pid, ObjectPlan(records=records(3, 4)))
    many = [
        replace(
            first,
            key=f"{first.key}-{number}",
            range=OffsetRange(number, number + 1),
            closed_by="flush.size" if number % 3 else "timeout",
        )
        for number in range(3, 3 + MANY_OBJECTS)
    ]
    scene.built.log.append(Changes(entries=tuple(many), positions={pid: 3 + MANY_OBJECTS}))
    [users] = find_small_objects([scene.log()])
    assert (users.folder, users.small, users.objects) == ("users", 101, 101)
    assert users.closed_by == "flush.size"
    assert users.average_bytes < 1000


def test_left_overs_are_searched_again_only_after_a_while(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    now = 0
    finder = LeftOverFinder(scene.archives(), clock=lambda: now)
    assert finder.find(scene.place).plan.left_overs == ()
    metadata = {"kafkeep-writer": "backup"}
    scene.store.put_new("topics/orders/partition=0/orders+0+77.log.zst", b"x", metadata)
    assert finder.find(scene.place).plan.left_overs == ()
    now = FRESH_MS
    [found] = finder.find(scene.place).plan.left_overs
    assert found.fate is OrphanAction.KEEP
    assert found.name.endswith("77.log.zst")


def test_a_search_in_the_background_has_a_state_and_a_result(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    finder = LeftOverFinder(scene.archives(), clock=lambda: 5)
    assert finder.state(scene.place) == LeftOverState()
    with finder._searching:
        finder.start(scene.place)
        finder.start(scene.place)
        assert finder.state(scene.place) == LeftOverState(is_running=True)
    until(lambda: not finder.state(scene.place).is_running, "the search ends")
    last = finder.state(scene.place).last
    assert last is not None
    assert (last.at_ms, last.plan.left_overs) == (5, ())


def test_a_search_that_fails_says_why(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    finder = LeftOverFinder(scene.archives())
    missing = replace(scene.place, address=str(tmp_path / "none"))
    finder.start(missing)
    until(lambda: not finder.state(missing).is_running, "the search ends")
    assert "none" in finder.state(missing).problem
