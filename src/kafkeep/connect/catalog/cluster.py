"""The worker's Kafka cluster as pages show it: one client, and topics that were read just now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from kafkeep.connect.catalog.readings import Readings
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.metadata import TopicDescription
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

FRESH_S = 2.0
"""Topics that were read less than this ago are shown without asking Kafka again."""
_TIMES_LONGER = 20
"""The topics of a large cluster are shown for this many times as long as reading them took."""
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
        self._reading = threading.Lock()
        self._topics: Mapping[str, TopicDescription] | None = None
        self._fresh_until = 0.0
        self.readings = Readings(monotonic)

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
        """Return all topics, about ``FRESH_S`` old; older ones while another thread reads them."""
        known = self._topics
        if known is not None and self._monotonic() < self._fresh_until:
            return known
        if not self._reading.acquire(blocking=known is None):
            return known or {}
        try:
            return self._read_topics()
        finally:
            self._reading.release()

    def _read_topics(self) -> Mapping[str, TopicDescription]:
        began = self._monotonic()
        if self._topics is None or began >= self._fresh_until:
            self._topics = self.admin().topics()
            now = self._monotonic()
            self._fresh_until = now + max(FRESH_S, (now - began) * _TIMES_LONGER)
        return self._topics

    def close(self) -> None:
        """Close the client."""
        with self._lock:
            wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
