"""Groups where records were dealt out anew: exact where it has a meaning, else refused by name."""

from __future__ import annotations

import pytest
from tests.support.archive_builder import build_archive, partition

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.view import load_view
from kafkeep.objects.sink.spec import NO_OPTIONS
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.groups import count_records
from kafkeep.restore.groups.count_records import count_read
from kafkeep.restore.groups.plan import GroupMove, plan_routed, positions_on
from kafkeep.restore.plan import TopicPlan, plan_restore
from kafkeep.restore.source import load_contents
from kafkeep.store.memory import MemoryStore

COUNT = 50


@pytest.fixture
def store() -> MemoryStore:
    """Two partitions whose records have the same times: merged they come in turn, 0 first."""
    store = MemoryStore()
    build_archive(store, {"t": [partition(0, 20, COUNT), partition(0, COUNT)]})
    return store


def topic_of(store: MemoryStore, options: RestoreOptions) -> TopicPlan:
    [topic] = plan_restore(
        load_contents(load_view(store, "backup"), options), options, id="id"
    ).topics
    return topic


def planned(
    store: MemoryStore, options: RestoreOptions, groups: dict[str, dict[int, int]]
) -> tuple[list[GroupMove], list[str]]:
    topic = topic_of(store, options)
    positions = list(groups.values())
    counted = count_read(store, topic, positions, restore_aborted=False, options=NO_OPTIONS)
    return plan_routed(topic, groups, counted, dict.fromkeys(range(9), 100))


MERGED = RestoreOptions(partition_map=((0, 0), (1, 0)))


def test_a_group_that_has_read_a_beginning_continues_after_it(store: MemoryStore) -> None:
    groups = {
        "none": {0: 0, 1: 0},
        "some": {0: 7, 1: 7},
        "odd": {0: 8, 1: 7},
        "all": {0: 50, 1: 50},
    }
    moves, refused = planned(store, MERGED, groups)
    assert not refused
    assert {m.group: m.offset - 100 for m in moves} == {
        "none": 0,
        "some": 14,
        "odd": 15,
        "all": 100,
    }


def test_a_group_without_such_a_place_is_refused_by_name(store: MemoryStore) -> None:
    groups = {"ahead": {0: 7, 1: 8}, "half": {0: 50}, "good": {0: 50, 1: 50}}
    moves, refused = planned(store, MERGED, groups)
    assert [move.group for move in moves] == ["good"]
    assert refused == [
        "group ahead has no valid position in t-0: "
        "records that it has read would follow unread ones",
        "group half had no offset on t-1",
    ]


@pytest.mark.parametrize("at_once", [1, 62])
def test_those_who_have_read_all_or_nothing_have_a_place_in_any_number_of_partitions(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(count_records, "AT_ONCE", at_once)
    groups = {"all": {0: 50, 1: 50}, "none": {0: 0, 1: 0}, "late": {0: 50, 1: 0}}
    moves, refused = planned(store, RestoreOptions(partition_count=3), groups)
    read = {name: [m.offset - 100 for m in moves if m.group == name] for name in groups}
    assert sum(read["all"]) == 2 * COUNT and all(read["all"]) and read["none"] == [0, 0, 0]
    assert read["late"] == [] and "group late has no valid position" in refused[0]


def test_a_partition_that_was_left_out_does_not_matter(store: MemoryStore) -> None:
    options = RestoreOptions(partition_count=1, partitions=(1,))
    moves, refused = planned(store, options, {"g": {0: 3, 1: 9}, "h": {1: 4}})
    assert not refused and {m.group: m.offset - 100 for m in moves} == {"g": 9, "h": 4}


def test_only_offsets_on_that_incarnation_count(store: MemoryStore) -> None:
    topic = topic_of(store, MERGED)
    chosen = {
        "g": {PartitionId("t", 1, 0): 5, PartitionId("t", 2, 0): 6, PartitionId("u", 1, 0): 7},
        "h": {PartitionId("u", 1, 0): 7},
    }
    assert positions_on(chosen, topic) == {"g": {0: 5}}
