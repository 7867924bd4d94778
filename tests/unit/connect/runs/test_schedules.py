"""Schedules: when they are due, what the leader starts, and what the next leader finds."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from tests.support.waiting import until

from kafkeep.connect.model import RestError
from kafkeep.connect.runs import schedules
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.documents import RunDocuments
from kafkeep.connect.runs.kind import RunResult, RunWork
from kafkeep.connect.runs.run import RunStage
from kafkeep.connect.runs.schedules import RunSchedule
from kafkeep.errors import DamagedError, FencedError, TransientError, UsageError
from kafkeep.store.memory import MemoryStore

DAY_MS = 86_400_000
NIGHTLY = {"every": "day", "at": "03:30"}


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


MORNING = at("2026-11-18T09:00:00")  # a Wednesday


class Work:
    """A kind whose runs end at once, unless they are held."""

    name = "work"

    def __init__(self) -> None:
        self.done: list[Mapping[str, str]] = []
        self.refusal: Exception | None = None
        self.may_end = threading.Event()
        self.may_end.set()

    def check(self, asked: Mapping[str, str]) -> None:
        if self.refusal is not None:
            raise self.refusal

    def execute(self, work: RunWork) -> RunResult:
        while not self.may_end.wait(0.005):
            if work.stop.is_set():
                raise TransientError("stopped")
        self.done.append(work.asked)
        return RunResult(verdict="good")


class Worker:
    """A worker over a shared store, with a clock that is set by hand."""

    def __init__(self, store: MemoryStore) -> None:
        self.now_ms = MORNING
        self.work = Work()
        self.board = RunBoard(
            RunDocuments(store), [self.work], worker_id="w", clock_ms=lambda: self.now_ms
        )

    def pass_to(self, when: str) -> None:
        self.now_ms = at(when)
        self.board.reconcile()

    def wait_done(self, count: int) -> None:
        until(lambda: len(self.work.done) == count, f"{count} runs are done")
        until(
            lambda: all(run.stage is RunStage.DONE for run in self.board.find_all()), "all are done"
        )


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore("state")


@pytest.fixture
def worker(store: MemoryStore) -> Worker:
    worker = Worker(store)
    worker.board.reconcile()
    return worker


def make(every: str, time: str) -> RunSchedule:
    return RunSchedule(
        id="s",
        kind="work",
        asked={},
        every=every,
        at=time,
        created_ms=0,
        created_by="ann",
        last_due_ms=0,
    )


@pytest.mark.parametrize(
    ("every", "time", "latest", "following"),
    [
        ("day", "03:30", "2026-11-18T03:30", "2026-11-19T03:30"),
        ("day", "09:00", "2026-11-18T09:00", "2026-11-19T09:00"),
        ("day", "09:01", "2026-11-17T09:01", "2026-11-18T09:01"),
        ("wednesday", "08:00", "2026-11-18T08:00", "2026-11-25T08:00"),
        ("wednesday", "10:00", "2026-11-11T10:00", "2026-11-18T10:00"),
        ("thursday", "00:00", "2026-11-12T00:00", "2026-11-19T00:00"),
    ],
)
def test_a_schedule_is_due_at_its_time_of_day_in_utc(
    every: str, time: str, latest: str, following: str
) -> None:
    schedule = make(every, time)
    assert schedule.latest_ms(MORNING) == at(latest)
    assert schedule.next_ms(MORNING) == at(following)
    assert RunSchedule.from_json(schedule.to_json()) == schedule


def test_the_leader_starts_a_run_once_at_each_time(worker: Worker) -> None:
    made = worker.board.schedules.create("work", {"topics": "a"}, NIGHTLY, "ann")
    worker.pass_to("2026-11-19T03:29:59")
    assert worker.board.find_all() == []
    for _ in range(3):
        worker.pass_to("2026-11-19T03:30:00")
    worker.wait_done(1)
    [run] = worker.board.find_all()
    assert (run.created_by, run.asked["topics"]) == ("ann", "a")
    assert run.asked["schedule"] == made.id
    worker.pass_to("2026-11-20T04:00:00")
    worker.wait_done(2)


def test_times_that_passed_without_a_leader_are_made_up_for_by_one_run(
    worker: Worker, store: MemoryStore
) -> None:
    worker.board.schedules.create("work", {}, NIGHTLY, "ann")
    worker.board.stop_all()
    other = Worker(store)
    other.pass_to("2026-11-28T12:00:00")
    other.wait_done(1)
    other.pass_to("2026-11-28T12:00:05")
    assert len(other.board.find_all()) == 1


@pytest.mark.parametrize("place", ["schedule.created", "schedule.started"])
def test_a_leader_that_dies_in_between_makes_the_next_one_start_no_second_run(
    worker: Worker, store: MemoryStore, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.board.schedules.create("work", {}, NIGHTLY, "ann")

    def die(name: str) -> None:
        if name == place:
            raise KeyboardInterrupt

    worker.work.may_end.clear()
    monkeypatch.setattr(schedules, "failpoint", die)
    with pytest.raises(KeyboardInterrupt):
        worker.pass_to("2026-11-19T03:30:00")
    worker.board.stop_all()
    monkeypatch.setattr(schedules, "failpoint", lambda _: None)
    other = Worker(store)
    other.pass_to("2026-11-19T03:31:00")
    other.wait_done(1)
    other.pass_to("2026-11-19T03:32:00")
    [run] = other.board.find_all()
    assert run.asked["due"] == str(at("2026-11-19T03:30:00"))
    assert other.board.schedules.find_all()[0].last_due_ms == at("2026-11-19T03:30:00")


def test_a_run_that_cannot_start_is_noted_and_the_next_time_is_tried_again(worker: Worker) -> None:
    worker.board.schedules.create("work", {}, NIGHTLY, "ann")
    worker.work.refusal = DamagedError("the log is damaged")
    worker.pass_to("2026-11-19T03:30:00")
    assert worker.board.find_all() == []
    assert worker.board.schedules.find_all()[0].problem == "the log is damaged"
    worker.work.refusal = None
    worker.pass_to("2026-11-20T03:30:00")
    worker.wait_done(1)
    assert worker.board.schedules.find_all()[0].problem == ""


def test_a_store_that_does_not_answer_only_delays_the_run(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.board.schedules.create("work", {}, NIGHTLY, "ann")
    worker.work.refusal = TransientError("the store does not answer")
    worker.pass_to("2026-11-19T03:30:00")
    assert worker.board.schedules.find_all()[0].problem == ""
    worker.work.refusal = None
    worker.pass_to("2026-11-19T03:30:10")
    assert worker.board.find_all() == []  # it waits before it tries again
    monkeypatch.setattr(worker.board.schedules, "_retry_at", 0.0)
    worker.pass_to("2026-11-19T03:30:20")
    worker.wait_done(1)


def test_a_time_is_skipped_while_the_run_before_goes_on(worker: Worker) -> None:
    worker.board.schedules.create("work", {}, NIGHTLY, "ann")
    worker.work.may_end.clear()
    worker.pass_to("2026-11-19T03:30:00")
    worker.pass_to("2026-11-20T03:30:00")
    assert len(worker.board.find_all()) == 1
    assert "has not ended" in worker.board.schedules.find_all()[0].problem
    worker.work.may_end.set()
    worker.wait_done(1)


def test_a_follower_sees_the_schedules_and_cannot_change_what_the_leader_changed(
    worker: Worker, store: MemoryStore
) -> None:
    made = worker.board.schedules.create("work", {}, NIGHTLY, "ann")
    other = Worker(store)
    assert other.board.schedules.find_all() == [made]
    other.board.reconcile()
    other.board.schedules.create("work", {}, {"every": "monday", "at": "00:00"}, "bob")
    with pytest.raises(FencedError):
        worker.board.schedules.delete(made.id)
    assert len(worker.board.schedules.find_all()) == 2
    other.board.schedules.delete(made.id)
    other.board.schedules.expire()
    assert [one.every for one in other.board.schedules.find_all()] == ["monday"]


def test_what_is_no_schedule_is_refused(worker: Worker) -> None:
    book = worker.board.schedules
    for when in ({"every": "never", "at": "03:30"}, {"every": "day", "at": "24:00"}, {}):
        with pytest.raises(RestError, match="must be"):
            book.create("work", {}, when, "ann")
    with pytest.raises(RestError, match="no kind of run"):
        book.create("other", {}, NIGHTLY, "ann")
    worker.work.refusal = UsageError("wrong is not an option")
    with pytest.raises(UsageError):
        book.create("work", {"wrong": "1"}, NIGHTLY, "ann")
    with pytest.raises(RestError, match="no schedule"):
        book.delete("none")
    assert book.find_all() == []
