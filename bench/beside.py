"""Ours beside its floor. The machine's mood changes by the minute: a ratio is of one moment."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from bench.measure import Cost

Numbers = dict[str, float]


@dataclass(frozen=True)
class Beside:
    """One run of ours, and its floor: the mean of one right before it and one right after."""

    cost: Cost
    floor: float

    @property
    def ratio(self) -> float:
        """How many times the floor it took."""
        return float(self.cost.summary["seconds"]) / self.floor


def beside(take_floor: Callable[[], float], run: Callable[[], Cost]) -> Beside:
    """Measure the floor, ours, and the floor again."""
    before = take_floor()
    cost = run()
    return Beside(cost, (before + take_floor()) / 2)


def figures(prefix: str, runs: list[Beside]) -> Numbers:
    """Return medians: of the ratios too, each to the floor of its own moment."""
    costs = [run.cost for run in runs]
    middle = sorted(costs, key=lambda c: c.summary["seconds"])[len(costs) // 2]
    seconds, records = middle.summary["seconds"], middle.summary["records"]
    ratios = [run.ratio for run in runs]
    return {
        f"{prefix} seconds": seconds,
        f"{prefix} / floor": statistics.median(ratios),
        f"{prefix} / floor, lowest": min(ratios),
        f"{prefix} / floor, highest": max(ratios),
        f"{prefix} records/s": records / seconds,
        f"{prefix} MB/s": middle.summary["bytes"] / seconds / 1e6,
        f"{prefix} CPU-s per million records": middle.cpu / records * 1e6,
        f"{prefix} peak memory MB (all processes)": max(c.peak_mb for c in costs),
        f"{prefix} largest worker MB": max(c.worker_mb for c in costs),
        f"{prefix} worker over idle MB": max(c.worker_mb - c.idle_mb for c in costs),
        f"{prefix} Spark start seconds": statistics.median(
            c.summary["start_seconds"] for c in costs
        ),
    }
