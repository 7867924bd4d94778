"""Watch a job on a Spark Connect server: report its progress, and cancel it.

The counterpart of ``watch_job``, which knows jobs of a classic session by their group. Here the
operations of a thread have a tag.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar

from pyspark.sql import SparkSession

CANCEL_AFTER_S = 10.0
"""How long tasks may continue after ``stop``: enough to finish, if nothing holds them up."""
_POLL_SECONDS = 0.2
_TAG_SEPARATOR = ","
"""Spark refuses it in a tag."""


@contextmanager
def watch_operation(
    session: SparkSession,
    *,
    description: str,
    count: int,
    on_progress: Callable[[int, int], None] | None,
    stop: threading.Event | None,
    abandoned: threading.Event | None,
) -> Iterator[None]:
    """Run the body's operation under a tag; cancel it when the body is interrupted.

    It is cancelled as well once ``abandoned`` is set, and when it has not ended some seconds after
    ``stop`` was set. A second tag describes the operation: a server describes its jobs itself, by
    the first bytes of the request.
    """
    tag = f"kafkeep-{uuid.uuid4().hex}"
    done = threading.Event()
    report = None
    if on_progress is not None and hasattr(session, "registerProgressHandler"):  # Spark 4.0
        report = _Progress(count, on_progress)
    shown = description.replace(_TAG_SEPARATOR, ";")
    for each in (tag, shown):
        session.addTag(each)
    if report is not None:
        session.registerProgressHandler(report)
    cancel_when(partial(session.interruptTag, tag), done, stop=stop, abandoned=abandoned)
    try:
        yield
        if on_progress is not None:
            on_progress(count, count)
    except KeyboardInterrupt:
        with suppress(Exception):  # the server may be gone; the interrupt matters more
            session.interruptTag(tag)
        raise
    finally:
        done.set()
        for each in (tag, shown):
            session.removeTag(each)
        if report is not None:
            session.removeProgressHandler(report)
            report.end()


class _Progress:
    """Called by Spark Connect's client with the stages of every operation of the session.

    It follows the first operation with as many tasks that no other has followed.
    """

    _followed: ClassVar[set[str]] = set()

    def __init__(self, count: int, on_progress: Callable[[int, int], None]) -> None:
        self._count = count
        self._on_progress = on_progress
        self._operation = ""

    def __call__(
        self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str, done: bool
    ) -> None:
        mine = [stage for stage in stages or () if stage.num_tasks == self._count]
        if mine and not self._operation and operation_id not in self._followed:
            self._operation = operation_id
            self._followed.add(operation_id)
        if mine and not done and operation_id == self._operation:
            self._on_progress(max(stage.num_completed_tasks for stage in mine), self._count)

    def end(self) -> None:
        """Forget the operation."""
        self._followed.discard(self._operation)


def cancel_when(
    cancel: Callable[[], object],
    done: threading.Event,
    *,
    stop: threading.Event | None,
    abandoned: threading.Event | None,
) -> None:
    """Call ``cancel`` once ``abandoned`` is set, or if ``done`` is not set soon after ``stop``.

    A thread watches the events, if there are any. It cancels again until the job is done: Spark
    forgets a request that comes before the job has begun.
    """

    def watch() -> None:
        cancel_at = None
        while not done.wait(_POLL_SECONDS):
            if cancel_at is None and stop is not None and stop.is_set():
                cancel_at = time.monotonic() + CANCEL_AFTER_S
            is_late = cancel_at is not None and time.monotonic() >= cancel_at
            if is_late or (abandoned is not None and abandoned.is_set()):
                with suppress(Exception):  # what is gone runs nothing
                    cancel()

    if stop is not None or abandoned is not None:
        threading.Thread(target=watch, daemon=True).start()
