"""One client: kafka-python's event loop on its own thread, and queued requests.

kafka-python fails a request at once when a connection is busy, throttled or in backoff, and must be
called on its loop. ``Link.send`` is a coroutine of that loop that waits instead. Requests to one
broker are written in the order of the calls of ``send``.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import kafka.errors as client_errors
from kafka.future import Future
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest

from kafkeep.errors import KafkeepError, TransientError, UnknownOutcomeError
from kafkeep.kafka.client.errors import connection_failure, is_final
from kafkeep.kafka.client.transport import (
    MAX_FRAME_BYTES,
    Connections,
    keep_record_views,
    loop_has_died,
    throttled_seconds,
)
from kafkeep.kafka.security.client_config import client_config
from kafkeep.options.kafka import KafkaOptions
from kafkeep.retry import KAFKA, KAFKA_CONNECTION

IN_FLIGHT = 5
_UNLIMITED = 10_000
_LEAST_SECONDS = 0.5
NodeId = int | str


class FairSemaphore:
    """A semaphore with ``limit`` permits, granted in the order of requests."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: deque[Any] = deque()

    async def take(self) -> None:
        if self._free:
            self._free -= 1
            return
        turn = Future()
        self._waiting.append(turn)
        await turn

    def give(self) -> None:
        """Release a permit to the longest waiter."""
        if self._waiting:
            self._waiting.popleft().success(None)
        else:
            self._free += 1


class Link:
    """Connections to one cluster; every coroutine here runs on the loop's thread."""

    def __init__(self, options: KafkaOptions, *, connect_timeout_ms: int | None = None) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # errors are raised instead of logged
        config = client_config(options)
        self.connect_timeout_ms = connect_timeout_ms or config.pop("connect_timeout_ms", 10_000)
        config.pop("connect_timeout_ms", None)
        self.request_timeout_ms: int = config["request_timeout_ms"]
        self.where = options.bootstrap_servers
        keep_record_views()
        self.net = NetworkSelector(client_id=options.client_id, slow_task_threshold_secs=0)
        self.connections = Connections(
            self.net,
            bootstrap_servers=options.bootstrap_servers,
            receive_message_max_bytes=MAX_FRAME_BYTES,
            max_in_flight_requests_per_connection=_UNLIMITED,  # the limit here is FairSemaphore
            reconnect_backoff_max_ms=1000,
            **config,
        )
        self.cluster = self.connections.cluster
        # It would reconnect after every error; metadata.py refreshes on demand.
        self.cluster.start_refresh_loop = lambda: None
        self._slots: dict[NodeId, FairSemaphore] = {}
        self._order: dict[NodeId, FairSemaphore] = {}
        self._bootstrap: Any = None
        self.closing = False
        self.net.start()

    @property
    def failed(self) -> bool:
        """True if the loop has died or was closed: a new client is needed."""
        return self.closing or loop_has_died(self.net)

    def run(self, coroutine: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Schedule a coroutine from any thread; return its future of kafka-python."""
        return self.net.call_soon_with_future(coroutine, *args)

    def close(self) -> None:
        """Close every connection and stop the loop; requests in flight fail."""
        if self.closing:
            return
        self.closing = True
        if not loop_has_died(self.net):
            self.net.run(self.connections.close)  # before the loop stops, or sockets stay open
        self.net.close()

    async def gather(self, coroutines: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
        """Run coroutines concurrently; return the value or exception of each, in order."""
        if len(coroutines) == 1:
            return [await _settle(coroutines[0]())]
        started = [self.net.call_soon_with_future(coroutine) for coroutine in coroutines]
        return [await _settle(future) for future in started]

    async def connect(self) -> None:
        """Connect to a bootstrap server and load the brokers; once for all callers.

        Raise an error about the last failure when none answers in time.
        """
        if self.cluster.brokers():
            return
        if self._bootstrap is None or self._bootstrap.failed():
            self._bootstrap = self.net.call_soon_with_future(self._connect_any)
        await self._bootstrap

    async def _connect_any(self) -> None:
        deadline = time.monotonic() + self.connect_timeout_ms / 1000
        # An attempt without time left would only report a timeout.
        retries = KAFKA.begin(deadline - _LEAST_SECONDS)
        while True:
            failures: list[KafkeepError] = []
            for broker in self.cluster.bootstrap_brokers():
                try:
                    return await self._learn(broker, deadline)
                except Exception as error:
                    failures.append(self._sentence(error, broker))
            final = next((failure for failure in failures if is_final(failure)), None)
            wait_s = retries.next_wait_s()
            if final is not None or wait_s is None:
                raise final or failures[0]
            await self.net.sleep(wait_s)

    async def _learn(self, broker: Any, deadline: float) -> None:
        self.connections.reset_backoff(broker.node_id)  # this module does its own backoff
        connection = self.connections.get_connection(
            broker.node_id, timeout_ms=max(1.0, (deadline - time.monotonic()) * 1000)
        )
        try:
            await connection
            self.connections.broker_version_data = connection.broker_version_data
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            try:
                answer = await connection.send_request(
                    request, max(1.0, (deadline - time.monotonic()) * 1000)
                )
            except client_errors.KafkaError as error:
                raise connection_failure(error, _address(broker), answered=True) from error
            self.cluster.update_metadata(answer)
        finally:
            connection.close()

    def _sentence(self, error: Exception, broker: Any) -> KafkeepError:
        return connection_failure(error, _address(broker))

    async def versions(self) -> Any:
        """Return kafka-python's object with the API versions of the brokers."""
        await self.connect()
        return self.connections.broker_version_data

    def nodes(self) -> list[int]:
        """Return the ids of the known brokers, connected and idle ones first."""

        def busy(node: int) -> tuple[bool, float, int]:
            in_flight = self.connections.in_flight(node)
            if in_flight is None:
                return True, self.connections.connection_delay(node), 0
            return False, 0.0, in_flight

        return sorted((broker.node_id for broker in self.cluster.brokers()), key=busy)

    async def send(
        self, request: Any, node: NodeId, *, deadline: float, timeout_ms: float | None = None
    ) -> Any:
        """Send to one broker and return its answer.

        Waits in the queue, for the connection and while the broker throttles. TransientError when
        nothing was sent, UnknownOutcomeError when no answer came.
        """
        slots = self._slots.setdefault(node, FairSemaphore(IN_FLIGHT))
        await slots.take()
        try:
            answer = await self._write(request, node, deadline, timeout_ms)
            try:
                return await answer
            except client_errors.KafkaError as error:
                raise self._unanswered(error, node) from error
        finally:
            slots.give()

    async def _write(
        self, request: Any, node: NodeId, deadline: float, timeout_ms: float | None
    ) -> Any:
        order = self._order.setdefault(node, FairSemaphore(1))
        await order.take()
        try:
            connection = await self._ready(node, deadline)
            wait_ms = timeout_ms if timeout_ms is not None else self.request_timeout_ms
            return connection.send_request(request, wait_ms)
        finally:
            order.give()

    async def _ready(self, node: NodeId, deadline: float) -> Any:
        """Return a connection that accepts a request now."""
        retries = KAFKA_CONNECTION.begin(deadline)
        while True:
            try:
                self.connections.reset_backoff(node)  # this module does its own backoff
                connection = self.connections.get_connection(node)
                await connection
                if not connection.paused:
                    return connection
                wait_s = max(0.001, throttled_seconds(connection))
            except Exception as error:
                failure = self._unreachable(error, node)
                next_wait_s = retries.next_wait_s()
                if is_final(failure) or next_wait_s is None:
                    raise failure from error
                wait_s = next_wait_s
            await self.net.sleep(min(wait_s, max(0.0, deadline - time.monotonic())))

    def _unreachable(self, error: Exception, node: NodeId) -> KafkeepError:
        if isinstance(error, client_errors.UnknownBrokerIdError):
            return TransientError(f"broker {node} is not in the cluster's metadata")
        return connection_failure(error, self.address(node))

    def _unanswered(self, error: Exception, node: NodeId) -> KafkeepError:
        failure = connection_failure(error, self.address(node), answered=True)
        if is_final(failure):
            return failure
        return UnknownOutcomeError(failure.message, hint=failure.hint)

    def address(self, node: NodeId) -> str:
        """Return ``host:port`` of a broker, for messages."""
        broker = self.cluster.broker_metadata(node)
        return f"broker {node}" if broker is None else _address(broker)


async def _settle(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except Exception as error:
        return error


def _address(broker: Any) -> str:
    return f"{broker.host}:{broker.port}"


def first_error(outcomes: Iterable[Any]) -> Exception | None:
    """Return the first exception among the outcomes of ``gather``."""
    return next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)
