"""The declaration of a metric, and the page that collects samples. Pure.

The page builds its text directly. prometheus_client would create thousands of objects for a service
with many connectors, and hold up other calls meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from kafkeep.store.request_times import BOUNDS_S, OperationTimes

_number: Callable[[float], str] = floatToGoString
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric. The name of a counter ends in ``_total``."""

    name: str
    kind: Literal["gauge", "counter", "histogram", "summary"]
    help: str
    labels: tuple[str, ...] = ()


class MetricsPage:
    """The samples of one moment."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        """By metric: its HELP and TYPE lines, then its samples."""
        self._braces: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}

    def put(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a gauge or a counter."""
        braces = self._labelled(metric.labels, labels)
        self._of(metric).append(f"{metric.name}{braces} {_number(value)}\n")

    def put_times(self, metric: Metric, times: OperationTimes, *labels: str) -> None:
        """Add a histogram of requests."""
        lines, total = self._of(metric), 0
        for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], times.counts, strict=True):
            total += count
            braces = self._labelled((*metric.labels, "le"), (*labels, bound))
            lines.append(f"{metric.name}_bucket{braces} {_number(total)}\n")
        self._put_sum(metric, total, times.seconds, labels)

    def put_summary(self, metric: Metric, count: int, total: float, *labels: str) -> None:
        """Add a count and a sum."""
        self._of(metric)
        self._put_sum(metric, count, total, labels)

    def text(self, *others: Collector) -> str:
        """Return the page, followed by the metrics of ``others``."""
        registry = CollectorRegistry(auto_describe=False)
        for one in others:
            registry.register(one)
        lines = [line for samples in self._lines.values() for line in samples]
        return "".join(lines) + generate_latest(registry).decode()

    def _put_sum(self, metric: Metric, count: int, total: float, labels: tuple[str, ...]) -> None:
        braces = self._labelled(metric.labels, labels)
        for name, value in (("count", count), ("sum", total)):
            self._lines[metric.name].append(f"{metric.name}_{name}{braces} {_number(value)}\n")

    def _of(self, metric: Metric) -> list[str]:
        lines = self._lines.get(metric.name)
        if lines is None:
            text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
            lines = self._lines[metric.name] = [
                f"# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.kind}\n"
            ]
        return lines

    def _labelled(self, names: tuple[str, ...], values: tuple[str, ...]) -> str:
        """Return labels in braces, cached: many metrics have the same."""
        braces = self._braces.get((names, values))
        if braces is None:
            pairs = sorted(zip(names, values, strict=True))
            inside = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in pairs)
            braces = self._braces[names, values] = f"{{{inside}}}" if inside else ""
        return braces
