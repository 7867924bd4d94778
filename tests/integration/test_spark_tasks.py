from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from tests.support.waiting import until

from kafkeep.errors import DamagedError, KafkeepError, TransientError
from kafkeep.spark.session import context_of
from kafkeep.spark.tasks import TaskRow, TaskRunner

pytestmark = [pytest.mark.integration, pytest.mark.core(suite="session")]
Rows = Iterator[tuple[str, dict[str, Any]]]
FAR_TOO_LONG_S = 400.0


@pytest.fixture(scope="module")
def runner(open_spark: TaskRunner) -> TaskRunner:
    return open_spark


def note(folder: Path, bundle: int) -> int:
    """Leave a mark for this attempt and return how many there are."""
    (folder / f"{bundle}-{time.monotonic_ns()}").touch()
    return len(list(folder.glob(f"{bundle}-*")))


def test_each_bundle_is_one_task_and_runs_once(runner: TaskRunner, tmp_path: Path) -> None:
    def task(bundle: int) -> Rows:
        note(tmp_path, bundle)
        for number in range(3):
            yield "done", {"bundle": bundle, "number": number}

    rows = runner.run_tasks(range(11), task, label="once")
    assert rows == [
        TaskRow(bundle, "done", {"bundle": bundle, "number": number})
        for bundle in range(11)
        for number in range(3)
    ]
    assert len(list(tmp_path.iterdir())) == 11


def test_no_bundles_is_no_job(runner: TaskRunner) -> None:
    assert runner.run_tasks([], lambda _: iter(()), label="none") == []


def test_a_lasting_error_comes_back_as_itself_and_is_not_tried_again(
    runner: TaskRunner, tmp_path: Path
) -> None:
    def task(bundle: int) -> Rows:
        note(tmp_path, bundle)
        yield "half", {}
        if bundle in (1, 2):
            raise DamagedError(f"object {bundle} is damaged", hint="Look at it.")

    with pytest.raises(DamagedError, match="object 1 is damaged") as caught:
        runner.run_tasks(range(4), task, label="damaged")
    assert caught.value.hint == "Look at it."
    assert len(list(tmp_path.iterdir())) == 4


def test_a_transient_error_is_tried_again(runner: TaskRunner, tmp_path: Path) -> None:
    def task(bundle: int) -> Rows:
        if note(tmp_path, bundle) < 3:
            raise TransientError("not yet")
        yield "done", {}

    assert len(runner.run_tasks([7], task, label="again")) == 1
    assert len(list(tmp_path.iterdir())) == 3


def test_a_transient_error_that_lasts_is_reported_in_one_sentence(runner: TaskRunner) -> None:
    def task(_: int) -> Rows:
        raise TransientError("the broker is away")
        yield

    with pytest.raises(TransientError) as caught:
        runner.run_tasks([0], task, label="away")
    assert caught.value.message == "the broker is away"
    assert caught.value.__cause__ is not None


def test_an_unexpected_error_is_reported_in_one_sentence(runner: TaskRunner) -> None:
    def task(_: int) -> Rows:
        yield "x", {"value": {}["missing"]}

    with pytest.raises(KafkeepError) as caught:
        runner.run_tasks([0], task, label="backup")
    assert caught.value.message == "a task of backup failed: KeyError: 'missing'"


def test_a_killed_worker_is_replaced(runner: TaskRunner, tmp_path: Path) -> None:
    def task(bundle: int) -> Rows:
        if note(tmp_path, bundle) == 1 and bundle == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        yield "done", {}

    assert [row.bundle for row in runner.run_tasks(range(3), task, label="kill")] == [0, 1, 2]


def test_a_worker_killed_each_time_is_a_transient_error(runner: TaskRunner) -> None:
    def task(_: int) -> Rows:
        os.kill(os.getpid(), signal.SIGKILL)
        yield "done", {}

    with pytest.raises(TransientError, match="lost its Python worker"):
        runner.run_tasks([0], task, label="kill")


def test_progress_counts_up_to_the_total(runner: TaskRunner, tmp_path: Path) -> None:
    def task(bundle: int) -> Rows:
        """The last ones wait until it was told that others are done."""
        while bundle >= 4 and not (tmp_path / "told").exists():
            time.sleep(0.02)
        yield "done", {}

    seen: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        seen.append((done, total))
        if done:
            (tmp_path / "told").touch()

    runner.run_tasks(range(6), task, label="p", on_progress=tell)
    assert seen[-1] == (6, 6)
    assert len(seen) > 1
    assert seen == sorted(set(seen))


def test_an_interrupt_cancels_the_job_at_once(runner: TaskRunner, tmp_path: Path) -> None:
    def task(bundle: int) -> Rows:
        note(tmp_path, bundle)
        time.sleep(FAR_TOO_LONG_S)
        yield "done", {}

    def interrupt() -> None:
        until(lambda: list(tmp_path.iterdir()), "a task runs")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        runner.run_tasks(range(4), task, label="long")
    assert time.monotonic() - began < FAR_TOO_LONG_S / 2
    assert len(runner.run_tasks([0], lambda _: iter([("ok", {})]), label="after")) == 1


def test_a_stop_ends_tasks_that_do_not_end_by_themselves(
    runner: TaskRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(bundle: int) -> Rows:
        time.sleep(0.1)
        yield "done", {}

    def long(bundle: int) -> Rows:
        time.sleep(FAR_TOO_LONG_S)
        yield "done", {}

    stop = threading.Event()
    stop.set()
    assert len(runner.run_tasks(range(2), short, label="short", stop=stop)) == 2
    monkeypatch.setattr("kafkeep.spark.operation.CANCEL_AFTER_S", 2.0)
    began = time.monotonic()
    with pytest.raises(KafkeepError):
        runner.run_tasks(range(2), long, label="long", stop=stop)
    assert time.monotonic() - began < FAR_TOO_LONG_S / 2
    assert len(runner.run_tasks([0], lambda _: iter([("ok", {})]), label="after")) == 1


def test_abandoned_tasks_are_cancelled_even_if_their_job_has_not_begun(runner: TaskRunner) -> None:
    def long(bundle: int) -> Rows:
        time.sleep(FAR_TOO_LONG_S)
        yield "done", {}

    abandoned = threading.Event()
    abandoned.set()
    began = time.monotonic()
    with pytest.raises(KafkeepError):
        runner.run_tasks(range(2), long, label="long", abandoned=abandoned)
    assert time.monotonic() - began < FAR_TOO_LONG_S / 2
    assert len(runner.run_tasks([0], lambda _: iter([("ok", {})]), label="after")) == 1


def test_other_threads_have_the_callers_properties_and_a_job_group_each(
    runner: TaskRunner,
) -> None:
    context = context_of(runner.driver)
    if context is None:
        pytest.skip("Spark Connect has no local properties")

    def task(bundle: int) -> Rows:
        time.sleep(0.05)
        told = TaskContext.get()
        assert told is not None
        names = {"caller": "kafkeep.test", "group": "spark.jobGroup.id"}
        yield "done", {key: told.getLocalProperty(name) for key, name in names.items()}

    context.setLocalProperty("kafkeep.test", "mine")
    run = partial(runner.for_threads(), range(2), task)
    context.setLocalProperty("kafkeep.test", "changed")
    with ThreadPoolExecutor(4) as threads:
        jobs = list(threads.map(lambda label: run(label=label), "abcdefgh"))
    groups = [{row.body["group"] for row in rows} for rows in jobs]
    assert all(len(group) == 1 for group in groups)
    assert len(set.union(*groups)) == len(jobs)
    assert {row.body["caller"] for rows in jobs for row in rows} == {"mine"}


def test_jobs_at_once_do_each_their_own(runner: TaskRunner) -> None:
    def run(name: str) -> list[TaskRow]:
        def task(bundle: int) -> Rows:
            time.sleep(0.05)
            yield "done", {"name": name, "bundle": bundle}

        return runner.run_tasks(range(2), task, label=name)

    with ThreadPoolExecutor(4) as threads:
        for name, rows in zip("abcdefgh", threads.map(run, "abcdefgh"), strict=True):
            assert [row.body for row in rows] == [{"name": name, "bundle": n} for n in range(2)]


@pytest.mark.parametrize("size", [10, 500_000, 5_000_000])
def test_bundles_of_any_size_arrive(runner: TaskRunner, size: int) -> None:
    def task(bundle: bytes) -> Rows:
        yield "done", {"size": len(bundle)}

    rows = runner.run_tasks([os.urandom(size)] * 3, task, label="size")
    assert [row.body["size"] for row in rows] == [size] * 3


def test_each_task_gets_its_own_bundle_only(runner: TaskRunner) -> None:
    """Not all bundles with each: of a hundred large ones that would be gigabytes."""

    def task(bundle: bytes) -> Rows:
        reader: Any = TaskContext.get()
        yield "done", {"partition": reader.partitionId(), "first": bundle[0]}

    rows = runner.run_tasks([bytes([n]) * 100 for n in range(40)], task, label="own")
    assert [row.body for row in rows] == [{"partition": n, "first": n} for n in range(40)]


def test_pools_and_job_groups_of_the_caller_are_put_back(runner: TaskRunner) -> None:
    context = runner.session.sparkContext
    context.setJobGroup("mine", "my job")
    runner.run_tasks([0], lambda _: iter(()), label="x", pool="backup")
    assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    assert context.getLocalProperty("spark.scheduler.pool") is None
