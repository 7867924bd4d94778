"""One job of ours on a classic session: named, counted, and cancelled when nobody wants it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyspark import SparkContext

OnProgress = Callable[[int, int], None]
"""Called with the tasks done and their total, from a thread of its own."""

CANCEL_AFTER_S = 10.0
"""How long tasks may continue after ``stop``: enough to finish, if nothing holds them up."""
_POLL_SECONDS = 0.2
_POOL = "spark.scheduler.pool"


@contextmanager
def watch_job(
    context: SparkContext,
    *,
    group: str,
    label: str,
    pool: str | None,
    count: int,
    on_progress: OnProgress | None,
    stop: threading.Event | None = None,
) -> Iterator[None]:
    """Run the body's job under a group of its own; cancel it when the body is interrupted.

    It is cancelled as well when it has not ended some seconds after ``stop`` was set. The caller's
    own job group and pool are put back afterwards.
    """
    before = {key: context.getLocalProperty(key) for key in (*_GROUP_KEYS, _POOL)}
    context.setJobGroup(group, label, interruptOnCancel=True)
    if pool is not None:
        context.setLocalProperty(_POOL, pool)
    done = threading.Event()
    watcher = None
    if on_progress is not None:
        watcher = threading.Thread(
            target=_poll, args=(context, group, count, on_progress, done), daemon=True
        )
        watcher.start()
    if stop is not None:
        threading.Thread(
            target=_cancel_late, args=(context, group, stop, done), daemon=True
        ).start()
    try:
        yield
        if on_progress is not None and watcher is not None:
            done.set()
            watcher.join()  # what it is about to tell is older than the end
            on_progress(count, count)
    except KeyboardInterrupt:
        with suppress(Exception):  # the gateway may be gone; the interrupt matters more
            context.cancelJobGroup(group)
        raise
    finally:
        done.set()
        with suppress(Exception):
            for key, value in before.items():
                context.setLocalProperty(key, value)


_GROUP_KEYS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


def _cancel_late(
    context: SparkContext, group: str, stop: threading.Event, done: threading.Event
) -> None:
    while not done.wait(_POLL_SECONDS):
        if stop.is_set() and not done.wait(CANCEL_AFTER_S):
            with suppress(Exception):  # a JVM that is gone runs nothing
                context.cancelJobGroup(group)
            return


def _poll(
    context: SparkContext,
    group: str,
    count: int,
    on_progress: OnProgress,
    done: threading.Event,
) -> None:
    tracker = context.statusTracker()
    reported = -1
    while not done.wait(_POLL_SECONDS):
        with suppress(Exception):  # a figure less is no reason to fail
            finished = 0
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                stages = [tracker.getStageInfo(stage) for stage in info.stageIds] if info else []
                finished += sum(stage.numCompletedTasks for stage in stages if stage)
            if finished != reported and not done.is_set():
                on_progress(min(finished, count), count)
                reported = finished
