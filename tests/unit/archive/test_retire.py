from __future__ import annotations

from dataclasses import replace

import pytest

from kafkeep.archive import document
from kafkeep.archive.adoption import plan_digest
from kafkeep.archive.codec import encode_commit
from kafkeep.archive.commit import (
    Changes,
    Commit,
    Gap,
    Intent,
    PlannedRange,
    Retirement,
    TopicInfo,
    is_retired,
    with_retirement,
)
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.keys import checkpoint_key, data_key, log_key
from kafkeep.archive.state import LogState, apply, check_changes
from kafkeep.archive.view import check_log, load_view
from kafkeep.errors import NewerFormatError

PID = PartitionId("orders", 1, 0)
OTHER = PartitionId("orders", 1, 1)
STATE = LogState(
    name="backup",
    positions={PID: 100, OTHER: 50},
    leader_epochs={PID: 7, OTHER: 7},
    groups={"all": {PID: 90, OTHER: 50}, "first": {PID: 80}},
)


def after(state: LogState, changes: Changes) -> LogState:
    commit = Commit(
        log="backup", number=state.commit + 1, previous=state.digest, epoch=1, writer="w",
        at_ms=0, changes=changes,
    )  # fmt: skip
    return apply(state, commit, f"d{commit.number}")


def test_a_position_moves_back_only_where_it_is_retired() -> None:
    with pytest.raises(ValueError, match="moves back"):
        check_changes(STATE, Changes(positions={PID: 40}))
    moved = after(STATE, Changes(retired={PID: 40}, positions={PID: 40}))
    assert moved.positions == {PID: 40, OTHER: 50}
    assert moved.leader_epochs == {OTHER: 7}
    assert moved.groups == {"all": {PID: 40, OTHER: 50}, "first": {PID: 40}}
    assert (moved.generation(PID), moved.last_folder("orders")) == (2, 2)


def test_a_partition_retired_from_its_beginning_may_be_forgotten() -> None:
    moved = after(STATE, Changes(retired={PID: 0}))
    assert moved.positions == {OTHER: 50}
    assert moved.groups == {"all": {OTHER: 50}}
    with pytest.raises(ValueError, match="without a new position"):
        check_changes(STATE, Changes(retired={PID: 10}))


@pytest.mark.parametrize("retired", [{PID: 101}, {PID: -1}, {PartitionId("new", 1, 0): 0}])
def test_what_is_not_there_cannot_be_retired(retired) -> None:
    with pytest.raises(ValueError, match="cannot be retired"):
        check_changes(STATE, Changes(retired=retired, positions={PID: 200}))


def test_an_open_intent_is_closed_by_the_commit_that_retires() -> None:
    state = replace(STATE, intent=Intent(ranges=(), options={}, at_ms=1))
    moves = Changes(retired={PID: 0})
    with pytest.raises(ValueError, match="an intent is open"):
        check_changes(state, moves)
    check_changes(state, replace(moves, closes_intent=True))


def test_entries_gaps_and_ranges_have_the_current_generation(make_entry) -> None:
    moved = after(STATE, Changes(retired={PID: 40}, positions={PID: 40}))
    entry = make_entry(40, 50)
    gap = Gap(PID, OffsetRange(40, 50), "r", 1)
    planned = PlannedRange(partition_id=PID, topic_id="t", range=OffsetRange(40, 50))
    for wrong in (
        Changes(entries=(entry,), positions={PID: 50}),
        Changes(gaps=(gap,), positions={PID: 50}),
        Changes(intent=Intent(ranges=(planned,), options={}, at_ms=1)),
    ):
        with pytest.raises(ValueError, match="generation 0, not 2"):
            check_changes(moved, wrong)
    check_changes(moved, Changes(entries=(replace(entry, generation=2),), positions={PID: 50}))
    right = moved.planned(planned)
    assert (
        data_key(right.folder_id, 40, ".x") == "topics/orders~2/partition=0/orders+0+0000000040.x"
    )
    assert plan_digest("backup", right, {}) != plan_digest("backup", planned, {})


def test_folders_are_numbered_over_incarnations_and_moves() -> None:
    state = after(STATE, Changes(retired={PID: 0}))
    topic = TopicInfo(topic="orders", incarnation=state.last_folder("orders") + 1, topic_id="new",
                      partitions=1, replication_factor=1, configs={})  # fmt: skip
    new = PartitionId("orders", 3, 0)
    state = after(state, Changes(topics=(topic,), positions={new: 9}))
    state = after(state, Changes(retired={new: 0}))
    assert state.generations == {("orders", 1): 2, ("orders", 3): 4}
    assert state.last_folders() == {"orders": 4}


def test_retirements_that_are_covered_are_dropped() -> None:
    steps = with_retirement((), 2, 50)
    steps = with_retirement(steps, 3, 70)
    assert steps == (Retirement(2, 50), Retirement(3, 70))
    assert with_retirement(steps, 4, 50) == (Retirement(4, 50),)
    assert [is_retired(steps, generation, 60) for generation in (0, 2, 3)] == [True, False, False]
    assert [is_retired(steps, generation, 71) for generation in (0, 2, 3)] == [True, True, False]
    assert not is_retired(steps, 0, 50)


def test_a_thousand_resets_leave_no_more_in_the_state_than_one() -> None:
    state = STATE
    for _ in range(1000):
        state = after(state, Changes(retired={PID: 0}, positions={PID: 5}))
    assert state.retired == {PID: (Retirement(1001, 0),)}
    assert state.generations == {("orders", 1): 1001}


@pytest.mark.parametrize("checkpoint_every", [1, 3, 100])
def test_views_show_what_counted_at_their_commit(
    store, open_log, make_entry, checkpoint_every
) -> None:
    log = open_log(checkpoint_every=checkpoint_every)
    log.append(Changes(entries=(make_entry(0, 10), make_entry(10, 20)), positions={PID: 20}))
    log.checkpoint_if_due()
    gap = Gap(PID, OffsetRange(20, 30), "retention", 1)
    before = log.append(Changes(gaps=(gap,), positions={PID: 30})).number
    log.checkpoint_if_due()
    log.append(Changes(retired={PID: 10}, positions={PID: 10}))
    log.checkpoint_if_due()
    again = replace(make_entry(10, 25), key="topics/orders~2/partition=0/orders+0+10.log.zst")
    log.append(Changes(entries=(again,), positions={PID: 25}))
    log.checkpoint_if_due()
    view = load_view(store, "backup")
    assert [e.key for e in view.entries("orders")] == [make_entry(0, 10).key, again.key]
    assert [e.key for e in view.retired()] == [make_entry(10, 20).key]
    assert (view.gaps, view.positions[PID]) == ((), 25)
    old = load_view(store, "backup", commit=before)
    assert [e.range.end for e in old.entries()] == [10, 20]
    assert [g.range for g in old.gaps] == [OffsetRange(20, 30)]
    assert check_log(store, "backup") == []


def test_an_older_kafkeep_refuses_a_log_with_retirements_and_reads_others(
    store, open_log, make_entry, monkeypatch
) -> None:
    log = open_log(checkpoint_every=2)
    plain = log.append(Changes(entries=(make_entry(0, 10),), positions={PID: 10}))
    assert b'"version":1' in encode_commit(plain)
    moved = log.append(Changes(retired={PID: 5}, positions={PID: 5}))
    assert b'"version":2' in encode_commit(moved)
    log.append(Changes(positions={PID: 6}))
    log.checkpoint()
    monkeypatch.setattr(document, "FORMAT_VERSION", 1)
    with pytest.raises(NewerFormatError, match="version 2 needs a newer kafkeep"):
        load_view(store, "backup")
    with pytest.raises(NewerFormatError, match="version 2 needs"):
        open_log("an older one")
    assert load_view(store, "backup", commit=plain.number).positions == {PID: 10}
    # Without the root, which says the same, the commit itself tells.
    store.delete(checkpoint_key("backup", log.state.commit))
    with pytest.raises(NewerFormatError, match=log_key("backup", moved.number)):
        load_view(store, "backup")
