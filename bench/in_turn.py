"""Ways to do the same in turn: a ratio is of runs that followed each other."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench.beside import Numbers
from bench.measure import Cost
from bench.runs import backup, delete, new_archive, new_topic, restore
from kafkeep.dev import DevStatus

Way = Callable[[], Numbers]
TIMES = ("seconds", "wall")
MEMORY = ("largest worker MB", "driver MB", "all processes MB")


def in_turn(ways: Mapping[str, Way], rounds: int) -> list[dict[str, Numbers]]:
    """Run each way once a round; every second round starts with the last."""
    measured: list[dict[str, Numbers]] = []
    for number in range(rounds):
        order = list(ways.items())[:: 1 if number % 2 == 0 else -1]
        measured.append({name: run() for name, run in order})
        done = f"round {number + 1} of {rounds}: {measured[-1]}"
        print(done, file=sys.stderr, flush=True)
    return measured


def ratios(
    measured: Sequence[Mapping[str, Numbers]],
    over: str,
    under: str,
    limits: Mapping[str, float | None],
) -> Numbers:
    """Return the medians of both ways, and of the ratios; None: a ratio without a limit."""
    numbers: Numbers = {}
    for key, limit in limits.items():
        for name in (under, over):
            numbers[f"{key}, {name}"] = statistics.median(one[name][key] for one in measured)
        each = [one[over][key] / one[under][key] for one in measured]
        shown = "" if limit is None else f" (limit {limit:g})"
        numbers[f"{key}, {over} / {under}{shown}"] = statistics.median(each)
        if len(each) > 1:
            numbers[f"{key}, {over} / {under}, lowest"] = min(each)
            numbers[f"{key}, {over} / {under}, highest"] = max(each)
    return numbers


def there_and_back(status: DevStatus, topic: str, *flags: str) -> Numbers:
    """Back up a topic and restore it: times and memory of both."""
    archive, target = new_archive(status), new_topic()
    runs = {
        "backup": partial(backup, status, topic, archive, *flags),
        "restore": partial(restore, status, topic, target, archive, *flags),
    }
    numbers = {
        f"{verb} {key}": value for verb, run in runs.items() for key, value in _numbers(run())
    }
    delete(status, target)
    return numbers


def limits(names: Sequence[str], limit: float | None) -> dict[str, float | None]:
    """Set one limit, or none, for both verbs."""
    return {f"{verb} {name}": limit for verb in ("backup", "restore") for name in names}


def _numbers(cost: Cost) -> list[tuple[str, float]]:
    seconds = float(cost.summary["seconds"])
    values = (seconds, cost.wall, cost.worker_mb, cost.driver_mb, cost.peak_mb)
    return list(zip((*TIMES, *MEMORY), values, strict=True))
