"""Measure the response time of every request to a bucket, on the driver and in tasks.

A store uses the recorder that is active when it is opened, in all of its threads. A task sends its
times to the driver in one extra row after its other rows.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from botocore.exceptions import ClientError

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the histogram's buckets. The last bucket has none."""
ROW_KIND = "s3-times"
_ANSWERS = frozenset({304, 404, 409, 412, 416})
"""Statuses of normal responses (missing, taken, past the end) that do not count as faults."""


@dataclass(slots=True)
class OperationTimes:
    """The requests of one operation. ``counts`` has a number for each bucket."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    seconds: float = 0.0
    slowest_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    """Reason (an HTTP status, or ``connection``) → number of failed requests."""

    @property
    def count(self) -> int:
        """The number of requests."""
        return sum(self.counts)

    def note(self, seconds: float, fault: str | None) -> None:
        """Add one request."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds
        self.slowest_s = max(self.slowest_s, seconds)
        if fault is not None:
            self.faults[fault] = self.faults.get(fault, 0) + 1

    def add(self, other: OperationTimes) -> None:
        """Add all requests of ``other``."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.seconds += other.seconds
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        for reason, times in other.faults.items():
            self.faults[reason] = self.faults.get(reason, 0) + times

    def copy(self) -> OperationTimes:
        """Return an independent copy."""
        return OperationTimes(list(self.counts), self.seconds, self.slowest_s, dict(self.faults))


class RequestTimes:
    """Times of requests by S3's name of the operation. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_operation: dict[str, OperationTimes] = {}

    def note(self, operation: str, seconds: float, fault: str | None = None) -> None:
        """Add one request. ``fault`` is the reason of a failed request."""
        with self._lock:
            self._by_operation.setdefault(operation, OperationTimes()).note(seconds, fault)

    def add(self, other: RequestTimes) -> None:
        """Add the requests of another recorder."""
        for operation, times in other.snapshot().items():
            with self._lock:
                self._by_operation.setdefault(operation, OperationTimes()).add(times)

    def snapshot(self) -> dict[str, OperationTimes]:
        """Return a copy of the times so far."""
        with self._lock:
            return {name: times.copy() for name, times in self._by_operation.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the row that a task sends to the driver."""
        return {
            name: [times.counts, times.seconds, times.slowest_s, times.faults]
            for name, times in self.snapshot().items()
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RequestTimes:
        """Return the times of a row."""
        made = cls()
        made._by_operation = {name: OperationTimes(*parts) for name, parts in row.items()}
        return made


_recorder: ContextVar[RequestTimes | None] = ContextVar("kafkeep-s3-times", default=None)


def recorder() -> RequestTimes | None:
    """Return the active recorder of this thread, or None."""
    return _recorder.get()


@contextmanager
def recording(times: RequestTimes) -> Iterator[RequestTimes]:
    """Record in ``times`` all requests of stores that this thread opens in the block."""
    before = _recorder.get()
    _recorder.set(times)
    try:
        yield times
    finally:
        _recorder.set(before)


def timed(client: Any, times: RequestTimes | None) -> Any:
    """Return the boto3 client, wrapped to record its requests if ``times`` is given."""
    return client if times is None else TimedClient(client, times)


class TimedClient:
    """A boto3 client that records the time until each response begins."""

    def __init__(self, client: Any, times: RequestTimes) -> None:
        self._client = client
        self._times = times

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        operation = self._client.meta.method_to_api_mapping.get(name)
        if operation is None:
            return method

        def request(**arguments: Any) -> Any:
            began = perf_counter()
            fault: str | None = None
            try:
                return method(**arguments)
            except Exception as error:
                fault = _fault(error)
                raise
            finally:
                self._times.note(operation, perf_counter() - began, fault)

        return request


def _fault(error: Exception) -> str | None:
    if not isinstance(error, ClientError):
        return "connection"
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return None if status in _ANSWERS else str(status)


@dataclass(frozen=True, slots=True)
class TimedTask:
    """A task that also reports the times of its requests. Runs on executors."""

    task: Callable[[Any], Iterator[tuple[str, dict[str, Any]]]]

    def __call__(self, bundle: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the rows of the task, and then one row with the times."""
        with recording(RequestTimes()) as times:
            yield from self.task(bundle)
        yield ROW_KIND, times.to_json()


def time_tasks(run_tasks: Callable[..., Any], times: RequestTimes) -> Callable[..., Any]:
    """Return a ``run_tasks`` that adds the requests of its tasks to ``times``.

    A failed attempt reports nothing, so its requests are missing.
    """

    def run(bundles: Sequence[Any], task: Callable[..., Any], **named: Any) -> list[Any]:
        rows = []
        for row in run_tasks(bundles, TimedTask(task), **named):
            if row.kind == ROW_KIND:
                times.add(RequestTimes.from_json(row.body))
            else:
                rows.append(row)
        return rows

    return run
