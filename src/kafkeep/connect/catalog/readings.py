"""What was read a moment ago, so that pages about large groups and logs need not wait again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafkeep.errors import KafkeepError

logger = logging.getLogger(__name__)

T = TypeVar("T")
LARGE = 500
"""Smaller readings are never shown again: Kafka answers about so few partitions at once."""
FRESH_S = 2.0
_TIMES_LONGER = 20
"""A reading is fresh for this many times as long as it took."""
MOST_S = 60.0
"""An older reading is not shown."""
_KEPT = 100


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
    is_large: bool
    is_refreshing: bool = False


class Readings:
    """Keeps large readings, and reads them again while they are used. Safe to use from any thread.

    A large reading that is no longer fresh is shown, and read again in the background.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: dict[Hashable, _Kept] = {}
        self._generation = 0

    def get(
        self, key: Hashable, read: Callable[[], tuple[T, int]], *, keeps_small: bool = False
    ) -> Reading[T]:
        """Return what ``read`` returns, or what it returned before if that was large.

        ``read`` returns a value, and about how many partitions it had to ask. With ``keeps_small``,
        a small value is returned again while it is fresh.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                age_s = self._monotonic() - kept.read_at
                is_fresh = age_s < max(FRESH_S, kept.took_s * _TIMES_LONGER)
                if age_s < MOST_S and (is_fresh or kept.is_large):
                    if not is_fresh:
                        self._start_refresh(key, kept, read)
                    return Reading(kept.value, age_s)
        return Reading(self._read(key, read, keeps_small))

    def forget(self) -> None:
        """Forget everything, because kafkeep has changed offsets."""
        with self._lock:
            self._kept.clear()
            self._generation += 1

    def _read(
        self, key: Hashable, read: Callable[[], tuple[T, int]], keeps_small: bool = False
    ) -> T:
        began, generation = self._monotonic(), self._generation
        value, partitions = read()
        now = self._monotonic()
        with self._lock:
            self._kept.pop(key, None)
            is_large = partitions >= LARGE
            if (is_large or keeps_small) and generation == self._generation:
                if len(self._kept) >= _KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = _Kept(value, now, now - began, is_large)
        return value

    def _start_refresh(
        self, key: Hashable, kept: _Kept, read: Callable[[], tuple[Any, int]]
    ) -> None:
        if not kept.is_refreshing:
            kept.is_refreshing = True
            threading.Thread(
                target=self._refresh, args=(key, kept, read), name="reading", daemon=True
            ).start()

    def _refresh(self, key: Hashable, kept: _Kept, read: Callable[[], tuple[Any, int]]) -> None:
        try:
            self._read(key, read)
        except KafkeepError as error:
            # The next page that has no reading says so.
            logger.debug("cannot read again: %s", error.message)
        finally:
            kept.is_refreshing = False
