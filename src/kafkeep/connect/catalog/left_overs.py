"""What crashed backups left behind in an archive, as ``gc --dry-run`` finds it; changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from kafkeep.clock import now_ms
from kafkeep.connect.catalog.archives import ArchivePlace, Archives
from kafkeep.maintenance.gc import GcPlan, plan_gc

FRESH_MS = 60_000
"""A search this recent is shown again, because a search lists every object of the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOverSearch:
    """The result of one search."""

    plan: GcPlan
    at_ms: int


class LeftOverFinder:
    """Searches one archive at a time. Safe to use from any thread."""

    def __init__(self, archives: Archives, clock: Callable[[], int] = now_ms) -> None:
        self._archives = archives
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, LeftOverSearch] = {}
        """By the id of the archive."""

    def find(self, place: ArchivePlace) -> LeftOverSearch:
        """Search an archive, or return the result of a moment ago."""
        with self._lock:
            known = self._found.get(place.id)
            if known is None or self._clock() - known.at_ms >= FRESH_MS:
                plan = plan_gc(self._archives.store(place))
                known = self._found[place.id] = LeftOverSearch(plan=plan, at_ms=self._clock())
            return known
