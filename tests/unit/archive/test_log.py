from __future__ import annotations

import pytest
from tests.support.forge import forged

from kafkeep.archive.codec import decode_commit
from kafkeep.archive.commit import Changes, Intent
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import load_view
from kafkeep.errors import (
    FencedError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    TransientError,
    UnknownOutcomeError,
    UsageError,
)
from kafkeep.failpoint import arm
from kafkeep.retry import COMMIT
from kafkeep.store.memory import MemoryStore

PID = PartitionId("orders", 1, 0)


class LosingStore(MemoryStore):
    """Its next answers are lost; with ``vanishing`` a taken key is at first not found."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0
        self.effect = True
        self.vanishing = 0
        self.sent: list[bytes] = []

    def put_new(self, key, body, metadata=None):
        self.sent.append(body)
        if self.lost:
            self.lost -= 1
            if self.effect:
                super().put_new(key, body, metadata)
            raise UnknownOutcomeError(key)
        if self.vanishing:
            raise KeyExistsError(key)
        super().put_new(key, body, metadata)

    def get(self, key):
        if self.vanishing:
            self.vanishing -= 1
            raise KeyMissingError(key)
        return super().get(key)


def test_commit_0_has_version_name_and_writer(store, open_log) -> None:
    open_log("host-1-abc")
    body = store.get(log_key("backup", 0))
    commit = decode_commit(body, "k", log="backup", number=0)
    assert b'"version":1' in body
    assert (commit.log, commit.epoch, commit.previous) == ("backup", 1, "")
    assert commit.changes.note == "log backup begun by host-1-abc"


def test_opening_without_create_refuses_a_log_that_is_not_there(open_log) -> None:
    with pytest.raises(NoSuchArchiveError, match="no log named 'backup'"):
        open_log(create=False)


def test_a_name_that_cannot_be_a_folder_is_refused(store) -> None:
    with pytest.raises(UsageError, match="valid log name"):
        CommitLog.open(store, "../x", writer="w", now_ms=lambda: 0)


def test_a_restarted_writer_continues_where_the_log_ends(open_log, make_entry) -> None:
    open_log("w1").append(Changes(entries=(make_entry(0, 10),), positions={PID: 10}))
    state = open_log("w2").state
    assert (state.commit, state.epoch, state.writer) == (2, 2, "w2")
    assert state.positions == {PID: 10}


def test_an_open_intent_is_there_for_the_next_writer(open_log) -> None:
    intent = Intent(ranges=(), options={"level": 3, "names": ["a"]}, at_ms=5)
    open_log("w1").append(Changes(intent=intent))
    assert open_log("w2").state.intent == intent


def test_a_replaced_writer_is_fenced_with_the_name_and_time_of_the_other(open_log) -> None:
    old = open_log("old")
    open_log("new")
    for _ in range(2):
        with pytest.raises(
            FencedError, match=r"backup: new took over the log at 2023-11-14T.*epoch 2"
        ):
            old.append(Changes(note="late"))


def test_bad_changes_are_refused_and_nothing_is_sent(store, open_log, make_entry) -> None:
    log = open_log()
    with pytest.raises(ValueError, match="past the position"):
        log.append(Changes(entries=(make_entry(0, 10),)))
    assert load_view(store, "backup").commit == 0
    log.append(Changes(note="still usable"))


@pytest.mark.parametrize("effect", [True, False])
def test_a_lost_answer_is_asked_for_with_the_same_bytes(open_log, effect: bool) -> None:
    store = LosingStore()
    log = open_log(store=store)
    store.lost, store.effect, store.sent = 1, effect, []
    assert log.append(Changes(note="once")).number == 1
    assert len(store.sent) == 2
    assert store.sent[0] == store.sent[1]
    assert log.append(Changes(note="next")).number == 2


def test_exists_followed_by_not_found_is_sent_again(open_log) -> None:
    store = LosingStore()
    log = open_log(store=store)
    store.vanishing = 2
    assert log.append(Changes(note="x")).number == 1


def test_a_log_without_any_answer_stops_until_it_is_opened_again(open_log) -> None:
    store = LosingStore()
    log = open_log(store=store)
    assert COMMIT.attempts is not None
    store.lost, store.effect = COMMIT.attempts, False
    for _ in range(2):
        with pytest.raises(UnknownOutcomeError, match="did not confirm it"):
            log.append(Changes(note="x"))
    assert len(store.sent) == 1 + COMMIT.attempts
    assert open_log("w2", store=store).append(Changes(note="y")).number == 2


def test_time_never_moves_back_in_the_log(store) -> None:
    CommitLog.open(store, "backup", writer="a", now_ms=lambda: 500)
    log = CommitLog.open(store, "backup", writer="b", now_ms=lambda: 100)
    assert log.state.at_ms == 500


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("action", ["raise", "drop"])
def test_failing_at_any_place_of_a_commit_leaves_one_commit(open_log, place, action) -> None:
    log = open_log()
    try:
        arm(f"commit.{place}:{action}@1")
        assert log.append(Changes(note="x")).number == 1
    finally:
        arm("")
    assert log.state.commit == 1


def test_a_checkpoint_that_fails_for_now_is_made_later(open_log) -> None:
    log = open_log(checkpoint_every=1)
    log.append(Changes(note="x"))
    try:
        arm("checkpoint.before:raise@1")
        assert not log.checkpoint_if_due()
        assert log.checkpoint_if_due()
    finally:
        arm("")
    assert not log.checkpoint_if_due()


def test_a_table_that_exists_and_is_not_found_puts_the_checkpoint_off(open_log, make_entry) -> None:
    store = LosingStore()
    log = open_log(store=store, checkpoint_every=1)
    log.append(Changes(entries=(make_entry(0, 10),), positions={PID: 10}))
    store.vanishing = 1
    assert not log.checkpoint_if_due()
    assert log.checkpoint_if_due()


def test_writers_that_keep_coming_first_end_the_attempt_to_open(open_log) -> None:
    class Contested(MemoryStore):
        def put_new(self, key, body, metadata=None):
            if not key.endswith("0000.json"):
                rival = decode_commit(body, key, log="backup", number=int(key[-25:-5]))
                super().put_new(key, forged(body, rival.writer.encode(), b"rival"), metadata)
            super().put_new(key, body, metadata)

    store = Contested()
    open_log("w0", store=store)
    with pytest.raises(TransientError, match="other writers keep taking over"):
        open_log("w1", store=store)
