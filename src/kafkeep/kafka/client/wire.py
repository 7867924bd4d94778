"""The Kafka client: record batches in and out as bytes, several requests in flight.

One ``Wire`` is one client with a network thread of its own. Tasks take theirs from ``wire_for``,
which creates it after the fork and keeps it for the next task.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from kafkeep.errors import KafkeepError, TransientError
from kafkeep.kafka.client.connection import Link
from kafkeep.kafka.client.errors import connection_failure
from kafkeep.kafka.client.fetch import (
    Fetch,
    FetchError,
    FetchErrorKind,
    FetchLimits,
    FetchPosition,
    FetchResult,
    Isolation,
)
from kafkeep.kafka.client.metadata import Metadata
from kafkeep.kafka.client.produce import Batch, Produce, ProduceResult
from kafkeep.kafka.client.transport import call_back
from kafkeep.options.kafka import KafkaOptions

__all__ = [
    "FetchError",
    "FetchErrorKind",
    "FetchPosition",
    "FetchResult",
    "Isolation",
    "Pending",
    "ProduceResult",
    "Wire",
    "wire_for",
]

Answer = TypeVar("Answer")
DEFAULT_DEADLINE_MS = 60_000


class Pending(Generic[Answer]):
    """A future answer."""

    def __init__(self, future: concurrent.futures.Future[Answer]) -> None:
        self._future = future

    def result(self, timeout: float | None = None) -> Answer:
        """Block until the answer arrives; raise the error of the request if it failed."""
        try:
            return self._future.result(timeout)
        except concurrent.futures.TimeoutError as error:
            raise TransientError(f"no answer from Kafka within {timeout} s") from error

    def done(self) -> bool:
        """Return whether ``result`` would not block."""
        return self._future.done()


class Wire:
    """One client of one cluster; safe to use from several threads, but not across a fork."""

    def __init__(self, options: KafkaOptions, *, connect_timeout_ms: int | None = None) -> None:
        self.options = options
        self.pid = os.getpid()
        self.link = Link(options, connect_timeout_ms=connect_timeout_ms)
        self.metadata = Metadata(self.link)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; pending answers fail."""
        if os.getpid() == self.pid:
            self.link.close()

    def fetch(
        self,
        wanted: Sequence[FetchPosition],
        *,
        max_bytes: int,
        isolation: Isolation = Isolation.READ_COMMITTED,
        wait_ms: int = 500,
        min_bytes: int = 1,
        deadline_ms: int = DEFAULT_DEADLINE_MS,
    ) -> Pending[list[FetchResult]]:
        """Fetch record batches from the leaders; one answer per requested partition, in order.

        Moved leaders, lost connections and throttling are retried until the deadline, then
        TransientError. An offset out of range, a deleted or re-created topic, and denied access are
        returned as the ``error`` of the answer.
        """
        deadline = time.monotonic() + deadline_ms / 1000
        limits = FetchLimits(max_bytes, isolation, wait_ms, min_bytes, deadline)
        return self.start(Fetch(self.link, self.metadata, wanted, limits).run)

    def produce(
        self,
        batches: Mapping[tuple[str, int], Batch],
        *,
        timeout_ms: int = 30_000,
        topic_ids: Mapping[str, str] | None = None,
    ) -> Pending[dict[tuple[str, int], ProduceResult]]:
        """Send one batch per partition and wait for all in-sync replicas.

        Sent once; Kafka's error codes are returned. UnknownOutcomeError when the connection is lost
        after sending: send the same batches again under the same producer id and sequence.
        Requests to one broker keep the order of the calls once the leaders are known. ``topic_ids``
        prevents writes to re-created topics.
        """
        call = Produce(
            self.link, self.metadata, batches, dict(topic_ids or {}), timeout_ms=timeout_ms
        )
        return self.start(call.run)

    def start(self, coroutine: Callable[..., Awaitable[Answer]], *args: Any) -> Pending[Answer]:
        """Run a coroutine of this package on the client's loop."""
        if os.getpid() != self.pid:
            raise RuntimeError("a Wire does not survive a fork: use wire_for")
        answer: concurrent.futures.Future[Answer] = concurrent.futures.Future()
        answer.set_running_or_notify_cancel()

        def failed(error: BaseException) -> None:
            answer.set_exception(self._as_ours(error))

        call_back(self.link.run(coroutine, *args), answer.set_result, failed)
        return Pending(answer)

    def _as_ours(self, error: BaseException) -> BaseException:
        if self.link.closing:
            return TransientError("the Kafka client was closed")
        if isinstance(error, KafkeepError) or not type(error).__module__.startswith("kafka."):
            return error
        ours = connection_failure(error, self.options.bootstrap_servers)
        ours.__cause__ = error
        return ours

    def call(self, coroutine: Callable[..., Awaitable[Answer]], *args: Any) -> Answer:
        """Run a coroutine on the loop and block until it is done."""
        return self.start(coroutine, *args).result()


_wires: dict[tuple[int, KafkaOptions], Wire] = {}
_lock = threading.Lock()


def wire_for(options: KafkaOptions) -> Wire:
    """Return the client of this process for ``options``; created at first use, then shared."""
    key = (os.getpid(), options)
    with _lock:
        wire = _wires.get(key)
        if wire is None or wire.link.failed:
            wire = _wires[key] = Wire(options)
        return wire
