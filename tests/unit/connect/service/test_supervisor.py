"""Connectors in threads: what runs agrees with what is wanted, and failures stay where they are."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from tests.support.waiting import PATIENCE_S, until

from kafkeep.connect.jobs.job import (
    ConnectorJob,
    JobContext,
    Progress,
    expected_tasks,
    interruptible_sleep,
)
from kafkeep.connect.model import Connector, ConnectorType, PluginInfo, RunState, TargetState
from kafkeep.connect.safety.secrets import SecretRedactor
from kafkeep.connect.service.supervisor import Supervisor
from kafkeep.errors import KafkeepError, TransientError, UsageError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.retry import RetryPolicy
from kafkeep.store.memory import MemoryStore
from kafkeep.store.retry import RetryingStore

JOB_CONTEXT = JobContext(
    kafka=KafkaOptions("localhost:9092"),
    run_tasks=lambda *_: [],
    slots=lambda: 2,
    state_address="memory:x",
)


class Job:
    """Does what its configuration says, and counts how many of its name run at once."""

    type: ConnectorType = "sink"
    running: dict[str, int]
    most: dict[str, int]
    may_end: threading.Event

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        self.name, self.config = name, config
        self.task_count = int(config.get("tasks.max", "1"))
        self.progress = Progress()

    def run(self, stop: threading.Event) -> None:
        Job.running[self.name] = Job.running.get(self.name, 0) + 1
        Job.most[self.name] = max(Job.most.get(self.name, 0), Job.running[self.name])
        try:
            if "fails" in self.config:
                raise KafkeepError(
                    f"no way with {self.config['aws.secret.access.key']}", hint="Do."
                )
            if "ends" not in self.config:
                stop.wait()
                assert Job.may_end.wait(PATIENCE_S)
                time.sleep(float(self.config.get("slow", "0")))
        finally:
            Job.running[self.name] -= 1


class Parting(Job):
    """Says its secret once it was told to stop."""

    def run(self, stop: threading.Event) -> None:
        stop.wait()
        time.sleep(0.05)
        logging.getLogger("some.library").warning("parting with %s", self.config["x.password"])


def make(name: str, config: Mapping[str, str], _: JobContext) -> ConnectorJob:
    if "wrong" in config:
        raise UsageError("that is wrong")
    return Parting(name, config) if "x.password" in config else Job(name, config)


@pytest.fixture
def secrets() -> Iterator[SecretRedactor]:
    made = SecretRedactor()
    undo = made.install()
    yield made
    undo()


@pytest.fixture
def supervisor(secrets: SecretRedactor) -> Iterator[Supervisor]:
    Job.running, Job.most, Job.may_end = {}, {}, threading.Event()
    Job.may_end.set()
    made = Supervisor(
        make_job=make,
        context_for=lambda _: JOB_CONTEXT,
        resolve=dict,
        describe=lambda _: PluginInfo(type="sink", version="7"),
        secrets=secrets,
        worker_id="me:1",
    )
    yield made
    assert made.close(PATIENCE_S)


def connector(
    name: str, target: TargetState = TargetState.RUNNING, generation: int = 1, **config: str
) -> Connector:
    return Connector(name=name, config=config, target=target, generation=generation)


def states(supervisor: Supervisor, one: Connector) -> tuple[RunState, list[RunState]]:
    status = supervisor.status(one)
    return status.state, [task.state for task in status.tasks]


def test_a_failed_task_is_shown_with_its_trace_and_leaves_the_others_running(
    supervisor: Supervisor,
) -> None:
    bad = connector("bad", **{"fails": "1", "tasks.max": "2", "aws.secret.access.key": "hunter22"})
    good = connector("good")
    supervisor.reconcile([bad, good])
    until(lambda: states(supervisor, bad)[1] == [RunState.FAILED] * 2)
    until(lambda: states(supervisor, good) == (RunState.RUNNING, [RunState.RUNNING]))
    status = supervisor.status(bad)
    assert status.state is RunState.RUNNING
    trace = status.tasks[0].trace
    assert trace is not None
    assert trace.startswith("kafkeep.errors.KafkeepError: no way with ******\nDo.\n\tat run (")
    assert "hunter22" not in trace
    supervisor.reconcile([bad, good])
    assert states(supervisor, bad)[1] == [RunState.FAILED] * 2  # nobody restarts it by itself


def test_a_connector_that_cannot_begin_has_failed_without_tasks(supervisor: Supervisor) -> None:
    one = connector("one", wrong="1")
    supervisor.reconcile([one])
    until(lambda: supervisor.status(one).state is RunState.FAILED)
    assert supervisor.status(one).tasks == ()
    assert "that is wrong" in (supervisor.status(one).trace or "")


def test_pause_keeps_tasks_and_stop_has_none(supervisor: Supervisor) -> None:
    for target, shown in (
        (TargetState.RUNNING, (RunState.RUNNING, [RunState.RUNNING] * 3)),
        (TargetState.PAUSED, (RunState.PAUSED, [RunState.PAUSED] * 3)),
        (TargetState.STOPPED, (RunState.STOPPED, [])),
        (TargetState.PAUSED, (RunState.PAUSED, [RunState.PAUSED] * 3)),
        (TargetState.RUNNING, (RunState.RUNNING, [RunState.RUNNING] * 3)),
    ):
        one = connector("one", target, **{"tasks.max": "3"})
        supervisor.reconcile([one])
        until(lambda one=one, shown=shown: states(supervisor, one) == shown)  # type: ignore[misc]
        running = 1 if target is TargetState.RUNNING else 0
        until(lambda running=running: Job.running.get("one", 0) == running)  # type: ignore[misc]


def test_a_connector_is_not_paused_before_its_work_has_ended(supervisor: Supervisor) -> None:
    Job.may_end.clear()
    running = connector("one", **{"tasks.max": "2"})
    supervisor.reconcile([running])
    until(lambda: states(supervisor, running) == (RunState.RUNNING, [RunState.RUNNING] * 2))
    until(lambda: Job.running.get("one", 0) == 1)
    paused = connector("one", TargetState.PAUSED, **{"tasks.max": "2"})
    assert states(supervisor, paused) == (RunState.RUNNING, [RunState.RUNNING] * 2)
    supervisor.reconcile([paused])
    assert states(supervisor, paused) == (RunState.RUNNING, [RunState.RUNNING] * 2)
    Job.may_end.set()
    until(lambda: states(supervisor, paused) == (RunState.PAUSED, [RunState.PAUSED] * 2))
    assert Job.running["one"] == 0


def test_a_new_run_waits_for_the_one_before_it(supervisor: Supervisor) -> None:
    for generation in range(1, 5):
        one = connector("one", generation=generation, slow="0.05")
        supervisor.reconcile([one])
        until(lambda: Job.running.get("one", 0) == 1)
    supervisor.reconcile([])
    supervisor.reconcile([connector("one", generation=9)])
    until(lambda: Job.running.get("one", 0) == 1)
    assert Job.most["one"] == 1


def test_a_restart_runs_a_failed_connector_again(supervisor: Supervisor) -> None:
    one = connector("one", fails="1", **{"aws.secret.access.key": "x"})
    supervisor.reconcile([one])
    until(lambda: states(supervisor, one)[1] == [RunState.FAILED])
    del one.config["fails"]  # type: ignore[attr-defined]
    supervisor.restart(one)
    until(lambda: states(supervisor, one) == (RunState.RUNNING, [RunState.RUNNING]))


def test_a_source_that_is_done_stays_running(supervisor: Supervisor) -> None:
    one = connector("one", ends="1")
    supervisor.reconcile([one])
    until(lambda: states(supervisor, one) == (RunState.RUNNING, [RunState.RUNNING]))
    assert supervisor.wait_ended("one", PATIENCE_S)


def test_a_fault_that_passes_is_waited_out_while_it_begins(supervisor: Supervisor) -> None:
    faults = {"one": 1}

    def make_later(name: str, config: Mapping[str, str], _: JobContext) -> ConnectorJob:
        if faults[name]:
            faults[name] -= 1
            raise TransientError("not yet")
        return Job(name, config)

    supervisor._make_job = make_later
    one = connector("one")
    supervisor.reconcile([one])
    until(lambda: states(supervisor, one) == (RunState.RUNNING, [RunState.RUNNING]))
    assert faults == {"one": 0}


def test_wait_ended_waits_for_a_slow_job(supervisor: Supervisor) -> None:
    Job.may_end.clear()
    supervisor.reconcile([connector("one")])
    until(lambda: Job.running.get("one", 0) == 1)
    supervisor.reconcile([connector("one", TargetState.STOPPED)])
    assert not supervisor.wait_ended("one", 0.01)
    threading.Timer(0.1, Job.may_end.set).start()
    assert supervisor.wait_ended("one", PATIENCE_S)
    assert Job.running["one"] == 0


def test_a_store_that_is_away_is_not_tried_again_after_a_stop() -> None:
    stop = threading.Event()
    tried = []

    class Away(MemoryStore):
        def get(self, key: str) -> bytes:
            tried.append(key)
            threading.Timer(0.2, stop.set).start()
            raise TransientError("away")

    policy = RetryPolicy(first_wait_s=60, sleep=interruptible_sleep(stop))
    began = time.monotonic()
    with pytest.raises(TransientError, match="is stopping"):
        RetryingStore(Away("away"), policy).get("k")
    assert tried == ["k"]
    assert time.monotonic() - began < 50


def test_secrets_are_kept_out_of_logs_until_nothing_of_a_deleted_connector_runs(
    supervisor: Supervisor, secrets: SecretRedactor, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor.reconcile([connector("one", **{"x.password": "hunter22"})])
    until(lambda: secrets.redact("hunter22") != "hunter22")
    supervisor.reconcile([])
    assert supervisor.wait_ended("one", PATIENCE_S)
    assert "parting with ******" in caplog.messages
    until(lambda: secrets.redact("hunter22") == "hunter22")


@pytest.mark.parametrize("secret", ["of-a-converter", "of-the-brokers"])
def test_a_trace_reveals_no_secret_of_the_worker(supervisor: Supervisor, secret: str) -> None:
    jaas = 'org.example.Login required password="of-the-brokers";'
    supervisor._context_for = lambda _: replace(
        JOB_CONTEXT,
        kafka=KafkaOptions("localhost:9092", {"sasl.jaas.config": jaas}),
        defaults={"value.converter.basic.auth.user.info": "user:of-a-converter"},
    )

    def make_none(_name: str, _config: Mapping[str, str], _: JobContext) -> ConnectorJob:
        raise UsageError(f"no way with {secret}")

    supervisor._make_job = make_none
    one = connector("one")
    supervisor.reconcile([one])
    until(lambda: supervisor.status(one).state is RunState.FAILED)
    assert "no way with ******" in (supervisor.status(one).trace or "")


def test_a_recreated_connector_has_nothing_of_the_deleted_one(
    supervisor: Supervisor,
) -> None:
    Job.may_end.clear()
    supervisor.reconcile([connector("one")])
    until(lambda: "one" in supervisor.progress())
    supervisor.progress()["one"].topics.add("of the old one")
    supervisor.reconcile([])
    supervisor.reconcile([connector("one", generation=2)])
    assert supervisor.progress() == {}
    Job.may_end.set()
    until(lambda: "one" in supervisor.progress())
    assert supervisor.progress()["one"].topics == set()


def test_a_deleted_and_recreated_connector_with_initial_state_paused_never_shows_running(
    supervisor: Supervisor,
) -> None:
    """A real worker says PAUSED at once, while the old one's work has not ended yet."""
    Job.may_end.clear()
    supervisor.reconcile([connector("one")])
    until(lambda: Job.running.get("one") == 1)
    supervisor.reconcile([])
    anew = connector("one", TargetState.PAUSED, generation=2)
    supervisor.reconcile([anew])
    assert states(supervisor, anew) == (RunState.PAUSED, [])
    changed = connector("one", TargetState.PAUSED, generation=3)
    supervisor.reconcile([changed])
    assert supervisor.status(changed).state is RunState.PAUSED
    Job.may_end.set()
    until(lambda: states(supervisor, changed) == (RunState.PAUSED, [RunState.PAUSED]))
    assert Job.running["one"] == 0


def test_a_changed_configuration_lists_the_tasks_it_will_have_while_the_old_run_ends(
    supervisor: Supervisor,
) -> None:
    Job.may_end.clear()
    first = connector("one", **{"tasks.max": "2"})
    supervisor.reconcile([first])
    until(lambda: Job.running.get("one") == 1)
    for generation, (config, count) in enumerate(
        [({"tasks.max": "3"}, 3), ({}, 1), ({"tasks.max": "5"}, 5), ({"tasks.max": "${env:X}"}, 5)]
    ):
        changed = connector("one", generation=generation + 2, **config)
        supervisor.reconcile([changed])
        assert len(supervisor.status(changed).tasks) == count
    Job.may_end.set()


def test_a_changed_configuration_lists_no_more_tasks_than_there_are_partitions() -> None:
    assert expected_tasks({"tasks.max": "9"}, {"tasks.max": "8"}, 3) == 3
    assert expected_tasks({"tasks.max": "2"}, {"tasks.max": "8"}, 3) == 2
    assert expected_tasks({"tasks.max": "9"}, {"tasks.max": "3"}, 3) == 9
