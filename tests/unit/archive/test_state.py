from __future__ import annotations

from dataclasses import replace

import pytest

from kafkeep.archive.commit import Changes, Commit, Gap, Intent, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.state import LogState, apply, check_changes

PID = PartitionId("orders", 1, 0)
INTENT = Intent(ranges=(), options={}, at_ms=1)
STATE = LogState(name="backup", commit=4, digest="d4", epoch=2, writer="w", at_ms=50,
              positions={PID: 100})  # fmt: skip


def commit_of(changes: Changes, **fields: object) -> Commit:
    whole = Commit(
        log="backup", number=5, previous="d4", epoch=2, writer="w", at_ms=60, changes=changes
    )
    return replace(whole, **fields)


def test_apply_moves_positions_and_keeps_the_rest(make_entry) -> None:
    changes = Changes(entries=(make_entry(100, 120),), positions={PID: 125})
    after = apply(STATE, commit_of(changes), "d5")
    assert (after.commit, after.digest, after.at_ms) == (5, "d5", 60)
    assert after.positions == {PID: 125}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"number": 7}, "cannot follow"),
        ({"previous": "other"}, "does not continue"),
        ({"epoch": 1}, "epoch moves back"),
        ({"writer": "v"}, "two writers"),
        ({"at_ms": 49}, "time moves back"),
    ],
)
def test_apply_refuses_a_commit_that_does_not_chain(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        apply(STATE, commit_of(Changes(), **fields), "d5")


@pytest.mark.parametrize(
    ("ranges", "position", "why"),
    [
        ([(90, 110)], 110, "overlaps"),
        ([(100, 110), (109, 120)], 120, "overlaps"),
        ([(100, 110)], 105, "past the position"),
        ([(100, 110)], None, "past the position"),
        ([(100, 100)], 100, "empty"),
        ([], 99, "moves back"),
    ],
)
def test_ranges_must_tile(make_entry, ranges, position, why) -> None:
    entries = tuple(make_entry(start, end) for start, end in ranges)
    positions = {} if position is None else {PID: position}
    with pytest.raises(ValueError, match=why):
        check_changes(STATE, Changes(entries=entries, positions=positions))


def test_a_gap_may_not_overlap_an_entry(make_entry) -> None:
    gap = Gap(PID, OffsetRange(105, 130), "retention", 1)
    changes = Changes(entries=(make_entry(100, 110),), gaps=(gap,), positions={PID: 130})
    with pytest.raises(ValueError, match="overlaps"):
        check_changes(STATE, changes)


def test_an_entry_cannot_hold_more_records_than_offsets(make_entry) -> None:
    entry = replace(make_entry(100, 110), records=11)
    with pytest.raises(ValueError, match="11 records in 10 offsets"):
        check_changes(STATE, Changes(entries=(entry,), positions={PID: 110}))


def test_an_intent_stays_open_until_it_is_closed() -> None:
    opened = apply(STATE, commit_of(Changes(intent=INTENT)), "d5")
    assert opened.intent == INTENT
    other = Commit(log="backup", number=6, previous="d5", epoch=3, writer="x", at_ms=60,
                   changes=Changes())  # fmt: skip
    assert apply(opened, other, "d6").intent == INTENT
    closing = replace(other, changes=Changes(closes_intent=True))
    assert apply(opened, closing, "d6").intent is None


def test_a_second_intent_is_refused_while_one_is_open() -> None:
    state = replace(STATE, intent=INTENT)
    with pytest.raises(ValueError, match="must be finished"):
        check_changes(state, Changes(intent=INTENT))
    later = replace(INTENT, at_ms=2)
    both = Changes(intent=later, closes_intent=True)
    assert apply(state, commit_of(both), "d5").intent == later


def test_closing_without_an_open_intent_is_refused() -> None:
    with pytest.raises(ValueError, match="no open intent"):
        check_changes(STATE, Changes(closes_intent=True))


def test_a_group_replaces_what_was_known_of_it_and_is_forgotten_when_empty() -> None:
    first = apply(STATE, commit_of(Changes(groups={"g": {PID: 1}, "h": {PID: 2}})), "d5")
    assert first.groups == {"g": {PID: 1}, "h": {PID: 2}}
    changes = Changes(groups={"g": {}})
    second = apply(first, commit_of(changes, number=6, previous="d5"), "d6")
    assert second.groups == {"h": {PID: 2}}


def test_latest_incarnation_is_the_newest_topic_of_that_name() -> None:
    def topic(incarnation: int) -> TopicInfo:
        return TopicInfo(topic="orders", incarnation=incarnation, topic_id=str(incarnation),
                         partitions=1, replication_factor=1, configs={})  # fmt: skip

    state = apply(STATE, commit_of(Changes(topics=(topic(2), topic(1)))), "d5")
    assert state.latest_incarnation("orders") == topic(2)
    assert state.latest_incarnation("events") is None
