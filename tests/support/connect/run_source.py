"""Run a source connector to its end in a process that may die at a named place."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S

from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.make import make_job
from kafkeep.failpoint import arm
from kafkeep.options.kafka import KafkaOptions
from kafkeep.restore.follow.follower import Follower
from kafkeep.spark.tasks import TaskRow

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["kafkeep.connect.jobs.make", "kafkeep.restore.follow.follower"])


def run_source(
    name: str, config: Mapping[str, str], around: JobContext, failpoints: str, trace: Path
) -> int | None:
    """Run it, tasks in the same process, with one object of each partition in a round.

    Returns its exit code.
    """
    where = around.kafka.bootstrap_servers, around.state_address
    process = _processes.Process(target=_run, args=(name, config, where, failpoints, str(trace)))
    process.start()
    process.join(PATIENCE_S)
    code = process.exitcode
    process.kill()
    return code


def _run(
    name: str, config: Mapping[str, str], where: tuple[str, str], failpoints: str, trace: str
) -> None:
    os.environ["KAFKEEP_FAILPOINT_TRACE"] = trace
    arm(failpoints)
    Follower.max_cycle_bytes = 1
    around = JobContext(
        kafka=KafkaOptions(where[0]), run_tasks=_run_tasks, slots=lambda: 1, state_address=where[1]
    )
    make_job(name, config, around).run(threading.Event())


def _run_tasks(bundles: Sequence[Any], task: Callable[[Any], Any], **_: Any) -> list[TaskRow]:
    return [TaskRow(n, kind, body) for n, one in enumerate(bundles) for kind, body in task(one)]
