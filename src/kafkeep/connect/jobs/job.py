"""A connector's job as the service sees it: work that runs until it is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkeep.connect.jobs.progress import Progress
from kafkeep.connect.model import ConnectorType
from kafkeep.errors import TransientError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.retry import CONNECTOR

logger = logging.getLogger(__name__)

RunTasks = Callable[..., Any]
"""``SharedSpark.run_tasks``: bundles in, rows out."""
TASKS_UNKNOWN = 100
"""The most tasks to show while the number of partitions is unknown."""


def shown_tasks(tasks_max: int | None, partitions: int | None = None) -> int:
    """Return how many tasks to show; ``partitions`` is None while unknown.

    ``tasks.max`` may be any number, and every task shown takes room in all answers.
    """
    return max(1, min(tasks_max or 1, TASKS_UNKNOWN if partitions is None else partitions))


def expected_tasks(new: Mapping[str, str], old: Mapping[str, str], shown: int) -> int:
    """Return how many tasks a changed connector will show when the old one shows ``shown``.

    ``tasks.max`` decides, unless there were fewer partitions than that already.
    """
    wanted, had = _wanted_tasks(new), _wanted_tasks(old)
    if wanted is None or had is None or wanted == had:
        return shown
    return min(wanted, shown) if shown < had else wanted


def _wanted_tasks(config: Mapping[str, str]) -> int | None:
    """Return what ``tasks.max`` asks for; None for a reference, which is not resolved here."""
    text = config.get("tasks.max", "1").strip()
    return shown_tasks(int(text)) if text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a worker gives to each of its jobs."""

    kafka: KafkaOptions
    """The worker's cluster; a connector's overrides apply on top."""
    run_tasks: RunTasks
    cores: int
    state_address: str
    """Where the service keeps its state. Restore documents lie beside it."""
    state_storage: StorageOptions | None = None
    """How to reach it; None: as the environment says."""
    slot: AbstractContextManager[None] = field(default_factory=nullcontext)
    """Entered where a job is busy in this process; ``run_tasks`` releases it meanwhile."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Keys of the worker's file that apply to connectors without them, e.g. value.converter."""


class ConnectorJob(Protocol):
    """One run of a connector. Each start makes a new job; it may run again after any end."""

    type: ConnectorType
    task_count: int
    """How many tasks to show: at most ``tasks.max``, and at most the number of partitions."""
    progress: Progress

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set, then end cleanly. A source ends by itself when it is done.

        Retries after transient errors. Raises KafkeepError when it cannot continue.
        """


class MakeJob(Protocol):
    """Makes the job of a connector; see ``connect/jobs/make.py``."""

    def __call__(self, name: str, config: Mapping[str, str], context: JobContext) -> ConnectorJob:
        """Return the job; ``config`` is resolved, with secrets. UsageError if it is wrong."""


def interruptible_sleep(stop: threading.Event) -> Callable[[float], None]:
    """Return a ``sleep`` for retries that raises TransientError once ``stop`` is set."""

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise TransientError("the connector is stopping and does not try again")

    return sleep


def run_with_retries(name: str, work: Callable[[], None], stop: threading.Event) -> None:
    """Call ``work`` until it returns, again after each TransientError, until ``stop`` is set."""
    failures = 0
    while not stop.is_set():
        try:
            work()
            return
        except TransientError as error:
            logger.warning("connector %s: %s; trying again", name, error.message)
        failures += 1
        stop.wait(CONNECTOR.wait_s(failures))
