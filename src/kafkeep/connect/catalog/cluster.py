"""The worker's Kafka cluster as pages show it: one client, and topics that were read just now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.metadata import TopicDescription
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

FRESH_S = 2.0
"""Topics that were read less than this ago are shown without asking Kafka again."""
_CONNECT_TIMEOUT_MS = 5_000
_TIMEOUT_MS = 10_000


class LiveCluster:
    """Opens its client when it is first used. Safe to use from any thread.

    Methods raise TransientError when Kafka does not answer.
    """

    def __init__(
        self, kafka: KafkaOptions, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.options = kafka
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._wire: Wire | None = None
        self._topics: tuple[float, Mapping[str, TopicDescription]] | None = None

    def wire(self) -> Wire:
        """Return the client; it reconnects by itself."""
        with self._lock:
            if self._wire is None:
                self._wire = Wire(self.options, connect_timeout_ms=_CONNECT_TIMEOUT_MS)
            return self._wire

    def admin(self) -> Admin:
        """Return requests for administrators, with a timeout that suits a page."""
        return Admin(self.wire(), timeout_ms=_TIMEOUT_MS)

    def topics(self) -> Mapping[str, TopicDescription]:
        """Return all topics, at most ``FRESH_S`` old."""
        known = self._topics
        if known is not None and self._monotonic() - known[0] < FRESH_S:
            return known[1]
        found = self.admin().topics()
        self._topics = self._monotonic(), found
        return found

    def close(self) -> None:
        """Close the client."""
        with self._lock:
            wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
