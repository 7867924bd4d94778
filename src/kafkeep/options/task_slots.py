"""How many tasks run at once: as the options set it, or as Spark's settings promise. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafkeep.options.option import option, positive
from kafkeep.options.spark import SparkOptions, usable_cores

UNLIMITED_SLOTS = 32
"""Planned for where Spark may start any number of executors. Only tasks that have enough to do are
made, and the cluster decides how many of them run at a time."""
_INFINITE = (1 << 31) - 1
"""Spark's default of the greatest number of executors."""
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """How many tasks a command plans for."""

    tasks: int | None = option(
        "tasks",
        "Plan for this many tasks at a time, instead of as many as Spark's executors run now.",
        default=None,
        parse=positive("tasks"),
        metavar="N",
    )


def expected_slots(options: SparkOptions) -> int:
    """Return how many tasks a session with these options will run at once, as far as they say."""
    if options.remote is None and (local := _LOCAL.fullmatch(options.master)):
        count = local[1] or "1"
        return usable_cores() if count == "*" else max(1, int(count))
    return slots_on_demand(options.conf) or fixed_slots(options.conf) or usable_cores()


def slots_on_demand(conf: Mapping[str, str], cores_of_executor: int = 1) -> int:
    """Return how many tasks run at once when dynamic allocation has started all it may.

    0 without dynamic allocation. ``cores_of_executor`` counts where ``spark.executor.cores`` is not
    set.
    """
    if conf.get("spark.dynamicAllocation.enabled", "").strip().lower() != "true":
        return 0
    cores = _number(conf, "spark.executor.cores") or cores_of_executor
    executors = _number(conf, "spark.dynamicAllocation.maxExecutors")
    limits = [
        executors * max(1, cores // _task_cpus(conf)),
        _number(conf, "spark.cores.max") // _task_cpus(conf),
    ]
    return min([limit for limit in limits if limit], default=UNLIMITED_SLOTS)


def fixed_slots(conf: Mapping[str, str]) -> int:
    """Return how many tasks the executors run that the settings ask for; 0 if they do not say."""
    executors = _number(conf, "spark.executor.instances")
    cores = executors * (_number(conf, "spark.executor.cores") or 1)
    return (cores or _number(conf, "spark.cores.max")) // _task_cpus(conf)


def _task_cpus(conf: Mapping[str, str]) -> int:
    return _number(conf, "spark.task.cpus") or 1


def _number(conf: Mapping[str, str], key: str) -> int:
    text = conf.get(key, "").strip()
    number = int(text) if text.isdigit() else 0
    return number if number < _INFINITE else 0
