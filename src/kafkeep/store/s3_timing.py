"""How long S3 takes to answer: every request timed where it is made, on the driver and in tasks.

A store takes the recorder that stands when it is opened, and its threads go on with that one.
A task's times travel to the driver in a row of their own, behind the rows of the task.
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
"""Upper ends of the histogram's buckets; slower ones count in the bucket without an end."""
ROW_KIND = "s3-times"
_ANSWERS = frozenset({304, 404, 409, 412, 416})
"""Refusals that say how things are (missing, taken, past the end): no fault of the store."""


@dataclass(slots=True)
class OperationTimes:
    """The requests of one operation: ``counts`` by bucket, the last one without an end."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    seconds: float = 0.0
    slowest_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    """Reason → requests that failed: an HTTP status, or ``connection``."""

    @property
    def count(self) -> int:
        """How many requests."""
        return sum(self.counts)

    def note(self, seconds: float, fault: str | None) -> None:
        """Add one request."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds
        self.slowest_s = max(self.slowest_s, seconds)
        if fault is not None:
            self.faults[fault] = self.faults.get(fault, 0) + 1

    def add(self, other: OperationTimes) -> None:
        """Add all requests of another."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.seconds += other.seconds
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        for reason, times in other.faults.items():
            self.faults[reason] = self.faults.get(reason, 0) + times

    def copy(self) -> OperationTimes:
        """Return the same numbers, apart from these."""
        return OperationTimes(list(self.counts), self.seconds, self.slowest_s, dict(self.faults))


class RequestTimes:
    """Times of requests by S3's name of the operation; any thread may write and read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_operation: dict[str, OperationTimes] = {}

    def note(self, operation: str, seconds: float, fault: str | None = None) -> None:
        """Add one request; ``fault`` says why it failed, if it did."""
        with self._lock:
            self._by_operation.setdefault(operation, OperationTimes()).note(seconds, fault)

    def add(self, other: RequestTimes) -> None:
        """Add what another recorder has so far."""
        for operation, times in other.snapshot().items():
            with self._lock:
                self._by_operation.setdefault(operation, OperationTimes()).add(times)

    def snapshot(self) -> dict[str, OperationTimes]:
        """Return a copy of what was noted so far."""
        with self._lock:
            return {name: times.copy() for name, times in self._by_operation.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the row a task sends home."""
        return {
            name: [times.counts, times.seconds, times.slowest_s, times.faults]
            for name, times in self.snapshot().items()
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RequestTimes:
        """Rebuild from a row."""
        made = cls()
        made._by_operation = {name: OperationTimes(*parts) for name, parts in row.items()}
        return made


_recorder: ContextVar[RequestTimes | None] = ContextVar("kafkeep-s3-times", default=None)


def recorder() -> RequestTimes | None:
    """Return where a store opened now notes its requests; None: nowhere."""
    return _recorder.get()


@contextmanager
def recording(times: RequestTimes) -> Iterator[RequestTimes]:
    """Let stores that this thread opens inside note their requests in ``times``, for good."""
    before = _recorder.get()
    _recorder.set(times)
    try:
        yield times
    finally:
        _recorder.set(before)


def timed(client: Any, times: RequestTimes | None) -> Any:
    """Return the boto3 client, noting its requests where there is somewhere to note them."""
    return client if times is None else TimedClient(client, times)


class TimedClient:
    """A boto3 client whose requests are timed until their answer begins."""

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
    """A task that also tells how long S3 took; runs on executors."""

    task: Callable[[Any], Iterator[tuple[str, dict[str, Any]]]]

    def __call__(self, bundle: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the task's rows, then one with the times."""
        with recording(RequestTimes()) as times:
            yield from self.task(bundle)
        yield ROW_KIND, times.to_json()


def time_tasks(run_tasks: Callable[..., Any], times: RequestTimes) -> Callable[..., Any]:
    """Return ``run_tasks`` whose tasks' requests end in ``times``.

    An attempt that failed reports nothing, so its requests are missing.
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
