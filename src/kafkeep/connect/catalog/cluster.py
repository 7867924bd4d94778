"""The worker's Kafka cluster as pages show it: its clients, and topics that were read just now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from kafkeep.connect.catalog.readings import Readings
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.metadata import TopicDescription
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

_CONNECT_TIMEOUT_MS = 5_000
_TIMEOUT_MS = 10_000


class LiveCluster:
    """Opens its clients when they are first used. Safe to use from any thread.

    Methods raise TransientError when Kafka does not answer.
    """

    def __init__(
        self, kafka: KafkaOptions, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.options = kafka
        self._lock = threading.Lock()
        self._wires: dict[bool, Wire] = {}
        self.readings = Readings(monotonic)

    def wire(self, *, for_readings: bool = False) -> Wire:
        """Return the client of pages, or that of ``readings``; both reconnect by themselves.

        A client handles its answers in one thread, so a page would wait for a large answer.
        """
        with self._lock:
            found = self._wires.get(for_readings)
            if found is None:
                found = Wire(self.options, connect_timeout_ms=_CONNECT_TIMEOUT_MS)
                self._wires[for_readings] = found
            return found

    def admin(self, *, for_readings: bool = False) -> Admin:
        """Return requests for administrators, with a timeout that suits a page."""
        return Admin(self.wire(for_readings=for_readings), timeout_ms=_TIMEOUT_MS)

    def topics(self) -> Mapping[str, TopicDescription]:
        """Return all topics, about two seconds old; those of a large cluster may be older."""
        return self.readings.get("topics", self._read_topics, keeps_small=True).value

    def _read_topics(self) -> tuple[Mapping[str, TopicDescription], int]:
        found = self.admin(for_readings=True).topics()
        return found, sum(len(one.partitions) for one in found.values())

    def close(self) -> None:
        """Close the clients."""
        with self._lock:
            wires, self._wires = list(self._wires.values()), {}
        for wire in wires:
            wire.close()
