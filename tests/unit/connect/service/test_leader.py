"""A worker's threads: jobs run while it leads, and stop in time when it does not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest
from tests.support.waiting import PATIENCE_S, until

from kafkeep.connect.jobs.job import ConnectorJob, JobContext, Progress
from kafkeep.connect.model import ConnectorType, PluginInfo
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.documents import RunDocuments
from kafkeep.connect.safety.secrets import SecretRedactor
from kafkeep.connect.service.journal import Journal
from kafkeep.connect.service.leader import LeaderLoop
from kafkeep.connect.service.lease import Lease
from kafkeep.connect.service.state import StateChange
from kafkeep.connect.service.supervisor import Supervisor
from kafkeep.errors import TransientError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.store.memory import MemoryStore

TIMEOUT_S = 1.0


class Store(MemoryStore):
    """A store that, when it is told so, does not answer before a long time is over."""

    def __init__(self, patience_s: float) -> None:
        super().__init__("state")
        self.answers = threading.Event()
        self.answers.set()
        self.hanging = 0
        self._patience_s = patience_s

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._wait()
        return super().get_range(key, start, end)

    def put_new(self, key: str, body: bytes, *args: object, **more: object) -> None:
        self._wait()
        super().put_new(key, body)

    def _wait(self) -> None:
        self.hanging += 1
        answered = self.answers.wait(self._patience_s)
        self.hanging -= 1
        if not answered:
            raise TransientError("no answer")


class Job:
    type: ConnectorType = "sink"
    task_count = 1
    running = started = 0

    def __init__(self) -> None:
        self.progress = Progress()

    def run(self, stop: threading.Event) -> None:
        Job.started += 1
        Job.running += 1
        stop.wait()
        Job.running -= 1


def make(_name: str, _config: Mapping[str, str], _: JobContext) -> ConnectorJob:
    return Job()


class Worker:
    """A loop whose journal waits long for its store, as it does, and whose lease does not."""

    def __init__(self) -> None:
        self.state, self.beats = Store(30), Store(0.1)
        context = JobContext(
            kafka=KafkaOptions("localhost:9092"),
            run_tasks=lambda *_: [],
            slots=lambda: 2,
            state_address="memory:x",
        )
        self.supervisor = Supervisor(
            make_job=make,
            context_for=lambda _: context,
            resolve=dict,
            describe=lambda _: PluginInfo(type="sink", version="7"),
            secrets=SecretRedactor(),
            worker_id="me:1",
        )
        lease = Lease(self.beats, worker_id="me:1", url="http://me:1", timeout_s=TIMEOUT_S)
        runs = RunBoard(RunDocuments(self.state), (), worker_id="me:1")
        journal = Journal(self.state, sleep=lambda _: None)
        self.loop = LeaderLoop(journal, lease, self.supervisor, runs)

    def run_connector(self) -> None:
        self.loop.start()
        until(self.loop.leads)
        self.loop.commit(lambda _: StateChange(kind="define", name="one"))
        until(lambda: Job.running == 1)

    def answer(self, *, state: bool, beats: bool) -> None:
        for store, answers in ((self.state, state), (self.beats, beats)):
            if answers:
                store.answers.set()
            else:
                store.answers.clear()


@pytest.fixture
def worker() -> Iterator[Worker]:
    Job.running = Job.started = 0
    made = Worker()
    yield made
    made.answer(state=True, beats=True)
    assert made.loop.close(PATIENCE_S)


def test_jobs_stop_in_time_though_the_state_is_being_read_from_a_store_that_hangs(
    worker: Worker,
) -> None:
    worker.run_connector()
    worker.answer(state=False, beats=True)
    until(lambda: worker.state.hanging > 0, "the next look at the state hangs")
    worker.answer(state=False, beats=False)
    until(lambda: Job.running == 0)
    worker.answer(state=True, beats=True)
    until(lambda: Job.running == 1)


def test_what_is_started_just_as_the_lease_is_lost_does_not_stay(worker: Worker) -> None:
    worker.run_connector()
    worker.answer(state=True, beats=False)
    until(lambda: Job.running == 0)
    connector = worker.loop.journal.state.connectors["one"]
    before = Job.started
    worker.supervisor.restart(connector)  # by a call that had seen the lease held
    until(lambda: Job.started > before and Job.running == 0)


def test_a_failure_nobody_foresaw_does_not_end_the_work_for_good(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile, failed = worker.supervisor.reconcile, threading.Event()

    def fail_once(*args: object) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("can't start new thread")
        reconcile(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(worker.supervisor, "reconcile", fail_once)
    worker.loop.start()
    until(failed.is_set)
    worker.loop.journal.commit(lambda _: StateChange(kind="define", name="one"))
    until(lambda: Job.running == 1)
