"""How many tasks a session runs at once, as it stands now. Runs on the driver."""

from __future__ import annotations

import time
from contextlib import suppress

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafkeep.options.spark import SLOT_KEYS, fixed_slots, slots_on_demand
from kafkeep.spark.internals import classic
from kafkeep.spark.server_slots import running_slots_of_server
from kafkeep.spark.session import Session, context_of

_START_S = 30.0
"""How long to wait for executors; the first job waits on if none came."""
_SETTLE_S = 1.0
_PROMISED_S = 5.0
_POLL_S = 0.05


def task_slots(session: Session) -> int:
    """Return how many tasks run at once: those of the executors that are there now.

    With dynamic allocation, executors come when tasks wait for them: then it is the number of tasks
    that run once all are there that Spark may start.
    """
    context = context_of(session)
    if context is None:
        assert not isinstance(session, SparkContext)
        running = running_slots_of_server(session)
        return max(running, slots_on_demand(_settings_of_server(session)))
    running = running_slots(session)
    if not runs_on_cluster(session):
        return running
    conf = dict(context.getConf().getAll())
    return max(running, slots_on_demand(conf, running // max(1, classic.count_executors(context))))


def running_slots(session: Session) -> int:
    """Return how many tasks run at once on what is there, without what Spark may start.

    A version of Spark that does not say so is asked for its parallelism. That has the same number,
    unless it is set by ``spark.default.parallelism``.
    """
    context = context_of(session)
    if context is None:
        assert not isinstance(session, SparkContext)
        return running_slots_of_server(session)
    return classic.concurrent_tasks(context) or max(1, int(context.defaultParallelism))


def runs_on_cluster(session: Session) -> bool:
    """Return whether the driver is here, and its executors are processes of a cluster."""
    context = context_of(session)
    return context is not None and context.master.partition("[")[0] != "local"


def slots_of_executors(session: Session) -> int:
    """Return how many tasks a cluster's executors run at once now: 0 while none of them runs."""
    context = context_of(session)
    return 0 if context is None else classic.concurrent_tasks(context) or 0


def await_executors(session: Session) -> None:
    """Wait for a cluster's executors, which start at about the same time: the first work is theirs.

    Return when all are there that the settings ask for, or when no more came for a while, and at
    once for an application that has run for longer. With dynamic allocation none come before there
    is work.
    """
    context = context_of(session)
    assert context is not None, "a server's executors are its own"
    conf = dict(context.getConf().getAll())
    if slots_on_demand(conf) or time.time() - context.startTime / 1000 > _START_S:
        return
    wanted, seen = fixed_slots(conf), 0
    settle_s = _PROMISED_S if wanted else _SETTLE_S
    began = changed = time.monotonic()
    while (now := time.monotonic()) - began < _START_S:
        running = classic.concurrent_tasks(context)
        if running is None:
            return
        if running != seen:
            seen, changed = running, now
        if seen and (0 < wanted <= seen or now - changed >= settle_s):
            return
        time.sleep(_POLL_S)


def _settings_of_server(session: SparkSession) -> dict[str, str]:
    """Return what a session of Spark Connect shows of the settings of its server."""
    conf = {}
    with suppress(Exception):  # managed Spark may not show them
        for key in SLOT_KEYS:
            if (value := session.conf.get(key, None)) is not None:
                conf[key] = value
    return conf
