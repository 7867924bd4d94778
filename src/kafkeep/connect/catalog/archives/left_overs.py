"""What crashed backups left behind in an archive, as ``gc --dry-run`` finds it; changes nothing.

A search lists every object of an archive and reads its logs, so it takes minutes for a large one.
A page starts it, and shows its result later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from kafkeep.clock import now_ms
from kafkeep.connect.catalog.archives.archives import ArchivePlace, Archives
from kafkeep.errors import KafkeepError
from kafkeep.maintenance.gc import GcPlan, plan_gc

logger = logging.getLogger(__name__)

FRESH_MS = 60_000
"""A search this recent is shown again, because a search lists every object of the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOverSearch:
    """The result of one search."""

    plan: GcPlan
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOverState:
    """The last search of an archive, and whether one runs."""

    last: LeftOverSearch | None = None
    is_running: bool = False
    problem: str = ""
    """Why the last search failed."""


class LeftOverFinder:
    """Searches one archive at a time. Safe to use from any thread."""

    def __init__(self, archives: Archives, clock: Callable[[], int] = now_ms) -> None:
        self._archives = archives
        self._clock = clock
        self._searching = threading.Lock()
        self._lock = threading.Lock()
        self._found: dict[str, LeftOverSearch] = {}
        """By the id of the archive."""
        self._running: set[str] = set()
        self._problems: dict[str, str] = {}

    def find(self, place: ArchivePlace) -> LeftOverSearch:
        """Search an archive and wait for it, or return the result of a moment ago."""
        with self._searching:
            known = self._found.get(place.id)
            if known is None or self._clock() - known.at_ms >= FRESH_MS:
                plan = plan_gc(self._archives.store(place))
                known = self._found[place.id] = LeftOverSearch(plan=plan, at_ms=self._clock())
            return known

    def state(self, place: ArchivePlace) -> LeftOverState:
        """Return what is known now, without a request to the store."""
        with self._lock:
            return LeftOverState(
                last=self._found.get(place.id),
                is_running=place.id in self._running,
                problem=self._problems.get(place.id, ""),
            )

    def start(self, place: ArchivePlace) -> None:
        """Search in the background, unless a search of this archive runs already."""
        with self._lock:
            if place.id in self._running:
                return
            self._running.add(place.id)
            self._problems.pop(place.id, None)
        threading.Thread(target=self._search, args=(place,), name="left-overs", daemon=True).start()

    def _search(self, place: ArchivePlace) -> None:
        problem = "The search failed unexpectedly; the log of the worker says why."
        try:
            self.find(place)
            problem = ""
        except KafkeepError as error:
            problem = error.message
        except Exception:
            logger.exception("the search for left-over objects of %s failed", place.address)
        finally:
            with self._lock:
                self._running.discard(place.id)
                if problem:
                    self._problems[place.id] = problem
