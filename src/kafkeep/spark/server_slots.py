"""How a Spark Connect server cuts work into tasks, and how many of them it runs at once.

Both depend on one setting of the session. So while it makes a task of each row of a job, the number
of slots is the one that was found before. Runs on the client.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from kafkeep.options.spark import usable_cores
from kafkeep.spark.internals.connect import explain

_LEAF_TASKS = "spark.sql.leafNodeDefaultParallelism"
_SPLITS = re.compile(r"\bRange \(.*\bsplits=(\d+)")


@dataclass
class _Jobs:
    """The jobs that run in a session, and what held before the first of them."""

    setting: str | None
    slots: int
    rows: list[int] = field(default_factory=list)


_running: dict[int, _Jobs] = {}
"""By the id of their session, which is alive while they run."""
_lock = threading.Lock()


def running_slots_of_server(session: SparkSession) -> int:
    """Ask a server how many tasks its executors run at once; no job runs for it."""
    with _lock:
        jobs = _running.get(id(session))
        return jobs.slots if jobs is not None else _ask(session)


@contextmanager
def one_task_per_row(session: SparkSession, rows: int) -> Iterator[None]:
    """Have the server make a task of each row of a local relation, while the body runs.

    A server that refuses the setting cuts rows into as many tasks as it runs at once.
    """
    with _lock:
        jobs = _running.get(id(session))
        if jobs is None:
            jobs = _running[id(session)] = _Jobs(_setting(session), _ask(session))
        jobs.rows.append(rows)
        with suppress(Exception):
            session.conf.set(_LEAF_TASKS, str(max(jobs.rows)))
    try:
        yield
    except BaseException:  # the server may be gone: the client would ask it for ten minutes
        threading.Thread(target=_end, args=(session, jobs, rows), daemon=True).start()
        raise
    _end(session, jobs, rows)


def _end(session: SparkSession, jobs: _Jobs, rows: int) -> None:
    """Put the setting back after the last job."""
    with _lock:
        jobs.rows.remove(rows)
        if not jobs.rows:
            del _running[id(session)]
            _put_back(session, jobs.setting)


def _setting(session: SparkSession) -> str | None:
    with suppress(Exception):  # it may not be allowed to see it
        setting: str | None = session.conf.get(_LEAF_TASKS, None)
        return setting
    return None


def _put_back(session: SparkSession, setting: str | None) -> None:
    with suppress(Exception):  # the server may be gone
        if setting is None:
            session.conf.unset(_LEAF_TASKS)
        else:
            session.conf.set(_LEAF_TASKS, setting)


def _ask(session: SparkSession) -> int:
    """Return into how many tasks the server would cut a range."""
    with suppress(Exception):
        if found := _SPLITS.search(explain(session.range(1))):
            return max(1, int(found[1]))
    return usable_cores()
