"""Where groups go, and what is remembered of where they were."""

from __future__ import annotations

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import PartitionId
from kafkeep.errors import DamagedError, PreflightError, UsageError
from kafkeep.restore.groups.plan import ALL, GroupPosition, choose_groups, plan_groups
from kafkeep.restore.groups.rollback import GroupChange, group_changes, load_history, save_change
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan
from kafkeep.store.memory import MemoryStore

INFO = TopicInfo(
    topic="t", incarnation=2, topic_id="", partitions=2, replication_factor=1, configs={}
)
PLAN = RestorePlan(
    "id", "log", 1, (TopicPlan(INFO, "new", (PartitionPlan(0, ()), PartitionPlan(1, ()))),)
)
ARCHIVED = {
    "g": {PartitionId("t", 2, 0): 10, PartitionId("t", 2, 1): 20, PartitionId("t", 1, 0): 5},
    "old": {PartitionId("t", 1, 0): 7},
    "other": {PartitionId("u", 1, 0): 7},
}


def test_groups_of_other_topics_and_incarnations_are_not_moved() -> None:
    assert list(choose_groups(ARCHIVED, PLAN, ALL)) == ["g"]
    assert len(choose_groups(ARCHIVED, PLAN, ("g",))["g"]) == 2
    with pytest.raises(UsageError, match="group old has no offset on these topics"):
        choose_groups(ARCHIVED, PLAN, ("old",))
    assert list(choose_groups(ARCHIVED, PLAN, ("old", "g"), strict=False)) == ["g"]


def test_old_offsets_stay_inside_of_what_is_there() -> None:
    place = GroupPosition(50, 90)
    assert [place.offset(at)[0] for at in (0, 50, 77, 90, 99)] == [50, 50, 77, 90, 90]
    assert place.offset(0)[1] == "the archive begins at 50" and not place.offset(77)[1]


def test_translated_offsets_count_records_from_the_base() -> None:
    place = GroupPosition(0, 0, 100, {10: 4})
    moves = plan_groups(choose_groups(ARCHIVED, PLAN, ALL), PLAN, {("new", 0): place})
    assert moves.of("g") == {("new", 0): 104}
    assert moves.left_out == ("group g: new-1 is not restored",)


def test_what_stood_first_is_put_back_and_only_once() -> None:
    store = MemoryStore()
    key = ("new", 0)
    assert load_history(store, "id").before() == {}
    save_change(store, "id", GroupChange(0, 1, {"g": {key: None}}))
    save_change(store, "id", GroupChange(1, 2, {"g": {key: 7, ("new", 1): 8}, "h": {key: 9}}))
    history = load_history(store, "id")
    assert history.moved and history.next_revision == 2
    assert history.before() == {"g": {key: None, ("new", 1): 8}, "h": {key: 9}}
    save_change(store, "id", GroupChange(2, 3, {}, rolled_back=True))
    assert load_history(store, "id").before() == {} and not load_history(store, "id").moved
    with pytest.raises(PreflightError, match="another run"):
        save_change(store, "id", GroupChange(2, 3, {}))


def test_damage_is_named() -> None:
    store = MemoryStore()
    group_changes(store, "id").try_create(0, b"[]")
    with pytest.raises(DamagedError, match="is not a change of groups"):
        load_history(store, "id")
