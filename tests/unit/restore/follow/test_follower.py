"""Cycles of a following restore: what becomes of an open one when names change."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkeep.archive.commit import Changes, TopicInfo
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError, NewerFormatError
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import Phase, RestoreDocument, save_document
from kafkeep.restore.follow import log
from kafkeep.restore.follow.follower import SWEEP_EVERY, Follower
from kafkeep.restore.follow.listing import LISTING_STATES
from kafkeep.restore.follow.log import LOG_STATES, LogFollowSource, LogFollowState
from kafkeep.restore.job import RestoreJob
from kafkeep.store.memory import MemoryStore

A, B = PartitionId("a", 1, 0), PartitionId("b", 1, 0)
UNDER = {"a": "old-a", "b": "b"}


class Places:
    """The state of a connector, and places for its rounds."""

    def __init__(self) -> None:
        self.state = MemoryStore(uuid.uuid4().hex)
        self.rounds: dict[int, MemoryStore] = {}
        self.opened = 0

    def open_round(self, number: int) -> ObjectStore:
        self.opened += 1
        return self.rounds.setdefault(number, MemoryStore(uuid.uuid4().hex))

    def write_rounds(self, numbers: range, *, every_ms: int) -> None:
        """Leave documents of rounds, each written when its time came."""
        for number in numbers:
            at_ms = number * every_ms
            self.rounds[number] = MemoryStore(now_ms=lambda at_ms=at_ms: at_ms)  # type: ignore[misc]
            self.rounds[number].put_new("a", b"")

    def left(self) -> list[int]:
        """Return the rounds that have documents."""
        return [number for number, store in self.rounds.items() if any(store.list(""))]

    def follower(self, state: LogFollowState, **options: Any) -> Follower[PartitionId, int]:
        nothing: Any = None
        source = LogFollowSource(store=nothing, options=RestoreOptions(**options), now_ms=lambda: 0)
        made = Follower(
            source=source, locations=nothing, admin=nothing, store=nothing, state_store=self.state,
            open_documents=self.open_round, run_tasks=nothing, slots=lambda: 1, now_ms=lambda: 0,
        )  # fmt: skip
        made.state = state
        return made


ENDS = {A: 5, B: 3}
DONE = LogFollowState(log="x").begin(7, UNDER, ENDS).finish(ENDS)
OPEN = DONE.begin(8, UNDER, {A: 9, B: 4})


@pytest.mark.parametrize(
    ("topics", "forgotten"),
    [
        ((("a", "new-a"), ("b", "b")), {A}),
        ((("a", "old-a"),), set()),
        ((("b", "new-b"),), {B}),
        ((), {A}),  # all come back under their own names now
    ],
)
def test_a_topic_that_gets_another_name_comes_back_from_its_beginning(
    topics: tuple[tuple[str, str], ...], forgotten: set[PartitionId]
) -> None:
    follower = Places().follower(DONE, topics=topics)
    follower._apply_new_names()
    assert DONE.positions.keys() - follower.state.positions.keys() == forgotten


def test_a_round_that_has_not_begun_is_given_up_and_one_that_has_is_finished() -> None:
    places = Places()
    follower = places.follower(OPEN, topics=(("a", "new-a"), ("b", "b")))
    assert not follower._is_begun()
    follower._apply_new_names()
    assert follower.state.cycle is None and follower.state.cycles == 2
    assert LOG_STATES.load(places.state) == follower.state

    document = RestoreDocument(
        id=follower.cycle_id(2), revision=0, phase=Phase.PREPARING, log="x", commit=8,
        cluster_id="", at_ms=0, targets=(),
    )  # fmt: skip
    save_document(places.open_round(2), document)
    assert places.follower(OPEN, topics=(("a", "new-a"),))._is_begun()


def test_a_follow_cycle_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(job: RestoreJob, *_given: Any) -> Any:
        job.on_progress(3, 9)

    follower, told = Places().follower(OPEN, commit=8), []
    monkeypatch.setattr(follower, "_is_begun", lambda: True)
    monkeypatch.setattr(RestoreJob, "preflight", lambda _job: None)
    monkeypatch.setattr(RestoreJob, "run", run)
    monkeypatch.setattr(log, "load_view", lambda *_, **__: None)
    follower.on_progress = lambda done, total: told.append((done, total))
    follower.step()
    assert told == [(3, 9)]


def test_a_cycle_reads_the_entries_of_topics_with_new_records_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    infos = tuple(
        TopicInfo(
            topic=pid.topic,
            incarnation=1,
            topic_id="A" * 22,
            partitions=1,
            replication_factor=1,
            configs={},
        )
        for pid in (A, B)
    )
    archive = CommitLog.open(store, "x", writer="w", now_ms=lambda: 1)
    archive.append(Changes(topics=infos, positions={A: 5, B: 4}))
    read = []
    monkeypatch.setattr(log, "entries_of_newest", lambda _view, topic: read.append(topic) or {})
    source = LogFollowSource(store=store, options=RestoreOptions(), now_ms=lambda: 0)
    source.open_cycle(DONE, Places().open_round, max_bytes=1)
    assert read == ["b"]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_follower_does_not_wait_for_more_of_a_log_whose_last_commit_was_removed(
    checkpoint: bool,
) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    log = CommitLog.open(store, "x", writer="w", now_ms=lambda: 1)
    for number in range(7):
        log.append(Changes(note=str(number)))
    if checkpoint:
        assert log.checkpoint()
    source = LogFollowSource(store=store, options=RestoreOptions(), now_ms=lambda: 0)
    source.exhausted_commit = 7
    assert not source._has_new_commit("x")
    store.delete(log_key("x", 7))
    said = "commits from 7 on were removed" if checkpoint else "commit 7 was removed from the log"
    with pytest.raises(DamagedError, match=said):
        source._has_new_commit("x")


def test_rounds_of_two_connectors_are_called_differently() -> None:
    one, other = Places().follower(DONE), Places().follower(DONE)
    names = {one.cycle_id(1), one.cycle_id(2), other.cycle_id(1)}
    assert len(names) == 3


@pytest.mark.parametrize(
    ("load", "folder"), [(LOG_STATES.load, "followed/"), (LISTING_STATES.load, "foreign/")]
)
def test_documents_of_a_newer_kafkeep_are_refused_by_name(
    load: Callable[[ObjectStore], object], folder: str
) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    store.put_new(f"{folder}000000000000.json", b'{"version": 2}')
    with pytest.raises(NewerFormatError, match="has version 2, this kafkeep supports 1"):
        load(store)


def test_documents_of_rounds_that_come_every_minute_are_deleted_after_a_day() -> None:
    places, minute, day = Places(), 60_000, 24 * 60
    for rounds in range(SWEEP_EVERY, 10 * SWEEP_EVERY + 1, SWEEP_EVERY):
        places.write_rounds(range(rounds - SWEEP_EVERY + 1, rounds + 1), every_ms=minute)
        follower = places.follower(replace(DONE, cycles=rounds))
        follower.now_ms = lambda rounds=rounds: rounds * minute  # type: ignore[misc]
        follower.sweep()
        assert places.left() == list(range(max(1, rounds - day), rounds + 1))
    places.opened = 0
    follower.sweep()
    assert places.opened < 20  # of thousands
