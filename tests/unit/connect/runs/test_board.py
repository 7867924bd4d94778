"""The life of a run: its stages, its threads, and what the next worker finds in the store."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.waiting import PATIENCE_S, until

from kafkeep.connect.model import RestError
from kafkeep.connect.runs import board as board_module
from kafkeep.connect.runs.board import AT_ONCE, RunBoard, shown_asked
from kafkeep.connect.runs.documents import RunDocuments
from kafkeep.connect.runs.kind import RunResult, RunWork
from kafkeep.connect.runs.run import Run, RunProgress, RunStage
from kafkeep.errors import FencedError, PreflightError, TransientError, UsageError
from kafkeep.maintenance.report import Bars, ReportPage, Table, report_from_json
from kafkeep.options.option import ConfigErrors
from kafkeep.store.memory import MemoryStore

PAGE = ReportPage(
    title="Restore",
    verdict="done",
    mood="good",
    summary="It is there.",
    facts=[("records", "7")],
    sections=[Table("Topics", ("topic", "records"), [("a", 7)]), Bars("Records", [("a", 7)])],
    document={"records": 7},
)


class Work:
    """A kind whose runs end when the test lets them, or when they are stopped."""

    name = "work"

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.begun: list[str] = []
        self.errors: list[Exception] = []

    def check(self, asked: Mapping[str, str]) -> None:
        if "wrong" in asked:
            raise UsageError("wrong is not an option")

    def execute(self, work: RunWork) -> RunResult:
        self.begun.append(work.id)
        if self.errors:
            raise self.errors.pop(0)
        work.report(RunProgress(phase="Working", done=3, total=7))
        while not self.may_end.wait(0.005):
            if work.stop.is_set():
                raise TransientError("cancelled")
        work.report(RunProgress(phase="Working", done=7, total=7))
        return RunResult(verdict="good", summary={"records": 7}, report=PAGE)


class Worker:
    """One worker's board over a shared store."""

    def __init__(self, store: MemoryStore, name: str = "w", **more: Any) -> None:
        self.work = Work()
        self.board = RunBoard(RunDocuments(store), [self.work], worker_id=name, **more)

    def leads(self) -> Worker:
        self.board.reconcile()
        return self

    def started(self, **asked: str) -> Run:
        run = self.board.create("work", asked, "ann")
        return self.board.start(run.id, "ann")

    def stage(self, run: Run) -> RunStage:
        return self.board.find(run.id).stage

    def wait(self, run: Run, stage: RunStage) -> Run:
        until(lambda: self.stage(run) is stage, f"the run is {stage}")
        return self.board.find(run.id)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore("state")


@pytest.fixture
def worker(store: MemoryStore) -> Worker:
    return Worker(store).leads()


def test_a_run_is_done_with_its_result_and_its_report(worker: Worker, store: MemoryStore) -> None:
    run = worker.started(topics="a")
    assert run.stage is RunStage.RUNNING
    until(lambda: worker.board.find(run.id).progress is not None, "progress is published")
    worker.work.may_end.set()
    done = worker.wait(run, RunStage.DONE)
    assert (done.verdict, done.result, done.started_by) == ("good", {"records": 7}, "ann")
    follower = Worker(store, "other").board
    seen = follower.find(run.id)
    assert seen.progress is not None
    assert (seen.stage, seen.progress.done) == (RunStage.DONE, 7)
    stored = follower.report(seen)
    assert stored is not None
    page = report_from_json(stored)
    assert (page.document, [one.title for one in page.sections]) == (
        {"records": 7},
        ["Topics", "Records"],
    )


def test_a_paused_run_continues_and_a_cancelled_one_says_what_it_wrote(worker: Worker) -> None:
    run = worker.started()
    until(lambda: worker.board.find(run.id).progress is not None, "it works")
    assert worker.board.pause(run.id).stage is RunStage.PAUSED
    until(lambda: not worker.board.find(run.id).is_stopping, "its work ends")
    worker.board.start(run.id, "bob")
    until(lambda: worker.work.begun == [run.id, run.id], "it works again")
    worker.board.cancel(run.id)
    until(lambda: not worker.board.find(run.id).is_stopping, "its work ends")
    found = worker.board.find(run.id)
    assert found.stage is RunStage.CANCELLED
    assert found.progress is not None
    assert (found.progress.done, found.progress.total) == (3, 7)
    with pytest.raises(RestError, match="is cancelled and cannot be started") as refused:
        worker.board.start(run.id, "ann")
    assert refused.value.status == 409


def test_a_run_that_is_started_while_it_still_stops_runs_once_more(worker: Worker) -> None:
    run = worker.started()
    until(lambda: worker.work.begun == [run.id], "it works")
    worker.board.pause(run.id)
    worker.board.start(run.id, "ann")
    until(lambda: worker.work.begun == [run.id, run.id], "it works again")
    worker.work.may_end.set()
    worker.wait(run, RunStage.DONE)


def test_the_next_leader_continues_what_was_running(store: MemoryStore, worker: Worker) -> None:
    running, paused = worker.started(), worker.started()
    worker.board.pause(paused.id)
    worker.board.stop_all()  # as after the lease was lost
    until(lambda: worker.board.find(running.id).stage is RunStage.RUNNING, "it stays running")
    other = Worker(store, "other").leads()
    until(lambda: other.work.begun == [running.id], "the next leader does it")
    assert other.stage(paused) is RunStage.PAUSED
    assert other.board.find(running.id).worker_id == "other"
    other.work.may_end.set()
    other.wait(running, RunStage.DONE)


def test_a_worker_that_lost_the_lease_changes_nothing(store: MemoryStore, worker: Worker) -> None:
    run = worker.started()
    other = Worker(store, "other").leads()
    with pytest.raises(FencedError):
        worker.board.pause(run.id)
    assert other.stage(run) is RunStage.RUNNING
    worker.work.may_end.set()  # its result comes too late
    until(lambda: not worker.board._attempts, "its thread ends")
    assert other.stage(run) is RunStage.RUNNING
    other.work.may_end.set()
    other.wait(run, RunStage.DONE)


def test_a_service_that_ends_leaves_its_runs_to_the_next(
    store: MemoryStore, worker: Worker
) -> None:
    run = worker.started()
    assert worker.board.close(PATIENCE_S)
    again = Worker(store).leads()
    until(lambda: again.work.begun == [run.id], "it is done again")
    again.work.may_end.set()
    again.wait(run, RunStage.DONE)


def test_few_runs_work_at_once_and_the_others_wait(worker: Worker) -> None:
    runs = [worker.started() for _ in range(AT_ONCE + 2)]
    stages = [worker.stage(run) for run in runs]
    assert stages == [RunStage.RUNNING] * AT_ONCE + [RunStage.QUEUED] * 2
    worker.board.pause(runs[-1].id)
    worker.work.may_end.set()
    for run in runs[:-1]:
        worker.wait(run, RunStage.DONE)
    assert worker.stage(runs[-1]) is RunStage.PAUSED


def test_an_error_fails_the_run_and_a_transient_one_is_tried_again(worker: Worker) -> None:
    worker.work.errors = [PreflightError("t: it is not empty", hint="Use --into-non-empty.")]
    failed = worker.wait(worker.started(), RunStage.FAILED)
    assert failed.error == "t: it is not empty"
    assert failed.hint == "Use restore.into.non.empty."
    worker.work.errors = [TransientError("Kafka does not answer")]
    run = worker.board.start(failed.id, "ann")

    def note() -> str:
        progress = worker.board.find(run.id).progress
        return progress.note if progress is not None else ""

    until(lambda: note() == "Kafka does not answer; trying again", "the reason is shown")
    worker.work.may_end.set()
    assert worker.wait(run, RunStage.DONE).error == ""


def test_a_draft_is_checked_when_it_is_started_and_secrets_stay_masked(worker: Worker) -> None:
    run = worker.board.create("work", {"wrong": "1", "producer.override.ssl.key.password": "s"}, "")
    assert shown_asked(run)["producer.override.ssl.key.password"] == "******"
    with pytest.raises(UsageError, match="wrong"):
        worker.board.start(run.id, "ann")
    changed = worker.board.change(run.id, {"producer.override.ssl.key.password": "******"})
    assert changed.asked == {"producer.override.ssl.key.password": "s"}
    with pytest.raises(ConfigErrors):
        worker.board.create("work", {"producer.override.ssl.key.password": "******"}, "")
    assert "secret" not in repr(run)
    worker.board.start(run.id, "ann")
    with pytest.raises(RestError, match="cannot be changed"):
        worker.board.change(run.id, {})


def test_a_worker_that_has_just_taken_the_lead_knows_all_runs(
    store: MemoryStore, worker: Worker
) -> None:
    run = worker.board.create("work", {}, "ann")
    assert Worker(store, "other").board.change(run.id, {"topics": "a"}).asked == {"topics": "a"}


def test_a_result_that_cannot_be_stored_fails_the_run(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = RunResult(verdict="good", summary={"cannot be JSON": object()})
    monkeypatch.setattr(worker.work, "execute", lambda work: result)
    failed = worker.wait(worker.started(), RunStage.FAILED)
    assert failed.error == "unexpected error: TypeError"


def test_history_is_bounded_and_active_runs_stay(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, store: MemoryStore
) -> None:
    monkeypatch.setattr(board_module, "KEPT_PER_KIND", 3)
    active = worker.started()
    drafts = [worker.board.create("work", {}, "ann") for _ in range(5)]
    kept = {run.id for run in worker.board.find_all("work")}
    assert len(kept) == 4
    assert {active.id, drafts[-1].id} <= kept
    assert {key.split("/")[1] for key in (i.key for i in store.list("runs/"))} == kept
    with pytest.raises(RestError, match="cannot be deleted"):
        worker.board.delete(active.id)
    worker.board.delete(drafts[-1].id)
    with pytest.raises(RestError, match="There is no run"):
        worker.board.find(drafts[-1].id)
    worker.work.may_end.set()
    worker.wait(active, RunStage.DONE)


def test_a_damaged_run_hides_no_other_one(store: MemoryStore, worker: Worker) -> None:
    good, bad = (worker.board.create("work", {}, "ann") for _ in range(2))
    for info in list(store.list(f"runs/{bad.id}/")):
        store.delete(info.key)
        store.put_new(info.key, b"{}")
    other = Worker(store, "other").board
    assert [run.id for run in other.find_all()] == [good.id]


def test_few_revisions_of_a_run_are_kept(store: MemoryStore, worker: Worker) -> None:
    run = worker.board.create("work", {}, "ann")
    for number in range(6):
        worker.board.change(run.id, {"topics": str(number)})
    assert len(list(store.list(f"runs/{run.id}/"))) == 2
    assert Worker(store).board.find(run.id).asked == {"topics": "5"}
