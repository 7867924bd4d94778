"""Metrics declared once, and the page they are put on. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from kafkeep.store.timing import BOUNDS_S, OperationTimes


@dataclass(frozen=True, slots=True)
class Declared:
    """A metric: its name, what kind it is, what it says, and its labels."""

    name: str
    kind: Literal["gauge", "counter", "histogram", "summary"]
    help: str
    labels: tuple[str, ...] = ()


class Page(Collector):
    """Samples of one moment; nothing of it is shared with another page."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def put(self, metric: Declared, value: float, *labels: str) -> None:
        """Add a gauge or a counter."""
        family = self._families.get(metric.name)
        if family is None:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=metric.labels)
            self._families[metric.name] = family
        family.add_metric(labels, value)  # type: ignore[attr-defined]

    def put_times(self, metric: Declared, times: OperationTimes, *labels: str) -> None:
        """Add a histogram of requests."""
        family = self._families.setdefault(
            metric.name, HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        )
        buckets, total = [], 0
        for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], times.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family.add_metric(labels, buckets, times.seconds)  # type: ignore[attr-defined]

    def put_summary(self, metric: Declared, count: int, total: float, *labels: str) -> None:
        """Add a count and a sum."""
        family = self._families.setdefault(
            metric.name, SummaryMetricFamily(metric.name, metric.help, labels=metric.labels)
        )
        family.add_metric(labels, count, total)  # type: ignore[attr-defined]

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with all its samples, as the registry asks."""
        yield from self._families.values()

    def text(self, *others: Collector) -> str:
        """Return the page, and those of others behind it, as Prometheus reads them."""
        registry = CollectorRegistry(auto_describe=False)
        for one in (self, *others):
            registry.register(one)
        return generate_latest(registry).decode()
