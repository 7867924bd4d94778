"""The worker's Kafka cluster as pages show it: its clients, and what was read of it just now."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.metadata import TopicDescription
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

FRESH_S = 2.0
"""What was read less than this ago is shown without asking Kafka again."""
_TIMES_LONGER = 20
"""What takes long to read is shown for this many times as long as it took."""
_CONNECT_TIMEOUT_MS = 5_000
_TIMEOUT_MS = 10_000
logger = logging.getLogger(__name__)

T = TypeVar("T")
LARGE = 500
"""Smaller readings are never shown again: Kafka answers about so few partitions at once."""
MOST_S = 60.0
"""An older reading is not shown."""
_KEPT = 100


class LiveCluster:
    """Opens its clients when they are first used. Safe to use from any thread.

    Methods raise TransientError when Kafka does not answer.
    """

    def __init__(
        self, kafka: KafkaOptions, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.options = kafka
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._wires: dict[bool, Wire] = {}
        self._reading = threading.Lock()
        self._topics: Mapping[str, TopicDescription] | None = None
        self._fresh_until = 0.0
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
        """Close the clients."""
        with self._lock:
            wires, self._wires = list(self._wires.values()), {}
        for wire in wires:
            wire.close()


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A value, and how many seconds ago it was read."""

    value: T
    age_s: float = 0.0


@dataclass(slots=True)
class _Kept:
    value: Any
    read_at: float
    took_s: float
    is_refreshing: bool = False


class Readings:
    """Keeps large readings, so that pages about large groups need not wait. Thread-safe.

    A large reading that is no longer fresh is shown, and read again in the background.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: dict[Hashable, _Kept] = {}
        self._generation = 0

    def get(self, key: Hashable, read: Callable[[], tuple[T, int]]) -> Reading[T]:
        """Return what ``read`` returns, or what it returned before if that was large.

        ``read`` returns a value, and about how many partitions it had to ask.
        """
        with self._lock:
            kept = self._kept.get(key)
            age_s = self._monotonic() - kept.read_at if kept is not None else MOST_S
            if kept is not None and age_s < MOST_S:
                is_stale = age_s >= max(FRESH_S, kept.took_s * _TIMES_LONGER)
                if is_stale and not kept.is_refreshing:
                    kept.is_refreshing = True
                    threading.Thread(
                        target=self._refresh, args=(key, kept, read), name="reading", daemon=True
                    ).start()
                return Reading(kept.value, age_s)
        return Reading(self._read(key, read))

    def forget(self) -> None:
        """Forget everything, because kafkeep has changed offsets."""
        with self._lock:
            self._kept.clear()
            self._generation += 1

    def _read(self, key: Hashable, read: Callable[[], tuple[T, int]]) -> T:
        began, generation = self._monotonic(), self._generation
        value, partitions = read()
        now = self._monotonic()
        with self._lock:
            self._kept.pop(key, None)
            if partitions >= LARGE and generation == self._generation:
                if len(self._kept) >= _KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = _Kept(value, now, now - began)
        return value

    def _refresh(self, key: Hashable, kept: _Kept, read: Callable[[], tuple[Any, int]]) -> None:
        try:
            self._read(key, read)
        except KafkeepError as error:
            # The next page that has no reading says so.
            logger.debug("cannot read again: %s", error.message)
        finally:
            kept.is_refreshing = False
