"""How many tasks a session runs at once, as it stands now. Runs on the driver."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafkeep.options.spark import usable_cores
from kafkeep.options.task_slots import slots_on_demand
from kafkeep.spark.session import Session, context_of

_SPLITS = re.compile(r"\bRange \(.*\bsplits=(\d+)")


def task_slots(session: Session) -> int:
    """Return how many tasks run at once: those of the executors that are there now.

    With dynamic allocation, executors come when tasks wait for them: then it is the number of tasks
    that run once all are there that Spark may start.
    """
    context = context_of(session)
    if context is None:
        assert not isinstance(session, SparkContext)
        return _slots_of_server(session)
    running = _running_slots(context)
    if context.master.partition("[")[0] == "local":
        return running
    conf = dict(context.getConf().getAll())
    return max(running, slots_on_demand(conf, running // max(1, _executors(context))))


def _running_slots(context: SparkContext) -> int:
    """Ask the scheduler; a version of Spark that does not say so is asked for its parallelism.

    That has the same number, unless it is set by ``spark.default.parallelism``.
    """
    with suppress(Exception):
        scala: Any = context._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        if slots := int(scala.maxNumConcurrentTasks(profile)):
            return slots
    return max(1, int(context.defaultParallelism))


def _executors(context: SparkContext) -> int:
    """Return how many executors run; the driver is in Spark's list, and does not count."""
    with suppress(Exception):
        scala: Any = context._jsc.sc()
        return len(scala.statusTracker().getExecutorInfos()) - 1
    return 0


def _slots_of_server(session: SparkSession) -> int:
    """Ask a Spark Connect server into how many tasks it would cut a range; no job runs for it."""
    with suppress(Exception):
        plan: Any = session.range(1)
        if found := _SPLITS.search(plan._explain_string()):
            return max(1, int(found[1]))
    return usable_cores()
