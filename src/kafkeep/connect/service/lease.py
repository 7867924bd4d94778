"""The lease: the worker whose heartbeats continue runs the connectors.

Heartbeats are a dense sequence of conditional creates, ``lease/000000000007.json``. The leader
creates the next one at an interval. A worker that has seen no new heartbeat for ``timeout_s`` on
its own clock creates the next one itself, under the next epoch. The old leader then fails to create
that number and knows that it lost the lease. A leader whose heartbeats do not get through stops at
the same time by its own clock, counted from before it sent the last one that did. So the workers'
clocks need not agree.

A damaged heartbeat shows only its number. Its writer may be alive, so other workers wait as for any
heartbeat, and take the next number when none follows.

The lease does not protect data from two workers that both believe they lead. The archive's own
epochs do.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kafkeep.archive.document import as_int, as_list, as_str, reading
from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.connect.model import ConnectorStatus, LoggerLevel
from kafkeep.connect.service.journal import (
    MAX_BYTES,
    dump_state_document,
    load_numbered,
    state_sequence,
)
from kafkeep.connect.service.state import (
    level_from_json,
    level_to_json,
    status_from_json,
    status_to_json,
)
from kafkeep.errors import (
    DamagedError,
    KafkeepError,
    KeyMissingError,
    NewerFormatError,
    TransientError,
)

DEFAULT_TIMEOUT_S = 10.0
HEARTBEATS_PER_TIMEOUT = 4
_KEPT_HEARTBEATS = 3
_FOLDER = "lease/"
_OLDER_FIELDS = (
    *("number", "epoch", "worker_id", "url", "at_ms"),
    *("released", "statuses", "levels"),
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life: who leads, its URL, the states of its connectors, levels of all loggers."""

    number: int
    epoch: int
    worker_id: str
    url: str
    at_ms: int
    released: bool = False
    statuses: tuple[ConnectorStatus, ...] = ()
    levels: tuple[LoggerLevel, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields of its document."""
        return {
            "number": self.number,
            "epoch": self.epoch,
            "worker_id": self.worker_id,
            "url": self.url,
            "at_ms": self.at_ms,
            "released": self.released,
            "statuses": [status_to_json(status) for status in self.statuses],
            "levels": [level_to_json(level) for level in self.levels],
        }


def load_heartbeat(store: ObjectStore, number: int) -> Heartbeat:
    """Read a heartbeat; DamagedError, NewerFormatError or KeyMissingError name its key."""
    heartbeats = state_sequence(store, _FOLDER)
    document = load_numbered(heartbeats, number, _OLDER_FIELDS)
    with reading(heartbeats.key(number)):
        return Heartbeat(
            number=number,
            epoch=as_int(document["epoch"]),
            worker_id=as_str(document["worker_id"]),
            url=as_str(document["url"]),
            at_ms=as_int(document["at_ms"]),
            released=document["released"] is True,
            statuses=tuple(status_from_json(row) for row in as_list(document["statuses"])),
            levels=tuple(level_from_json(row) for row in as_list(document.get("levels", []))),
        )


class Lease:
    """One worker's view of the lease. One thread calls ``step``; any thread may call the rest."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        worker_id: str,
        url: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        statuses: Callable[[], Sequence[ConnectorStatus]] = tuple,
        levels: Callable[[], Sequence[LoggerLevel]] = tuple,
    ) -> None:
        self._store = store
        self._heartbeats = state_sequence(store, _FOLDER)
        self._worker_id, self._url = worker_id, url
        self._timeout_s = timeout_s
        self._clock = clock
        self._statuses, self._levels = statuses, levels
        self._lock = threading.Lock()
        self._mine: Heartbeat | None = None
        self._held_until = 0.0
        self._seen: Heartbeat | None = None
        self._newest = -1
        """The number of the newest heartbeat; a damaged one is not ``_seen``."""
        self._seen_at = 0.0
        """When this worker first saw that number."""
        self._damaged = -1

    @property
    def interval_s(self) -> float:
        """How long to wait between two steps."""
        return self._timeout_s / HEARTBEATS_PER_TIMEOUT

    def holds(self) -> bool:
        """Return True while this worker leads, by its own clock; makes no request."""
        return self._mine is not None and self._clock() < self._held_until

    def leader(self) -> Heartbeat | None:
        """Return the last heartbeat of the leader; None when no worker seems to lead."""
        if self.holds():
            return self._mine
        seen = self._seen
        if seen is None or seen.released or self._clock() - self._seen_at > self._timeout_s:
            return None
        return seen

    def step(self) -> None:
        """Send a heartbeat, or watch those of another worker and take over when they end.

        A store that fails for now is no error: the time that passes decides.
        """
        with self._lock, suppress(TransientError):
            if self._mine is not None and not self.holds():
                logger.warning(
                    "this worker could not renew its lease in time and stops its connectors"
                )
                self._mine = None
            if self._mine is not None:
                self._renew(self._mine)
            else:
                self._watch()

    def refresh(self) -> None:
        """Read the newest heartbeat of another worker, without taking its place."""
        with self._lock, suppress(TransientError):
            if self._mine is None:
                self._see()

    def release(self) -> None:
        """Let another worker lead at once; called last, when no job runs any more."""
        with self._lock, suppress(KafkeepError):
            if self._mine is not None and self.holds():
                self._create(self._next(self._mine.number, self._mine.epoch, released=True))
            self._mine = None

    def _renew(self, last: Heartbeat) -> None:
        begun = self._clock()
        heartbeat = self._next(last.number, last.epoch)
        if not self._create(heartbeat):
            holder = self._load(heartbeat.number)
            if holder is None or holder.epoch != last.epoch or holder.worker_id != last.worker_id:
                logger.warning("another worker took the lease; this one stops its connectors")
                self._mine = None
                return
            heartbeat = holder  # sent before, and its answer was lost; when it was sent is unknown
            begun = self._held_until - self._timeout_s
        self._hold(heartbeat, begun)
        self._delete(heartbeat.number - _KEPT_HEARTBEATS)

    def _watch(self) -> None:
        begun = self._clock()
        self._see()
        newest = self._seen if self._seen and self._seen.number == self._newest else None
        is_free = self._newest < 0 or (newest is not None and newest.released)
        if not is_free and self._clock() - self._seen_at < self._timeout_s:
            return
        # The first heartbeat has number 0 and epoch 1, and each raises the epoch by at most one.
        # So the epoch of a damaged one is at most its number plus one.
        epoch = newest.epoch if newest is not None else self._newest + 1
        heartbeat = self._next(self._newest, epoch + 1)
        if not self._create(heartbeat):
            self._see()
            return
        # A create may be so slow that others have led since and the number is free again.
        if self._heartbeats.newest() == heartbeat.number:
            self._hold(heartbeat, begun)
            with suppress(KafkeepError):  # a later heartbeat, or another leader, deletes them
                self._heartbeats.prune(heartbeat.number - _KEPT_HEARTBEATS + 1)

    def _see(self) -> None:
        """Read the newest heartbeat; a damaged one is read again each time."""
        newest = self._heartbeats.newest()
        if newest < 0 or (newest == self._newest and newest != self._damaged):
            return
        is_new = newest != self._newest
        try:
            self._seen = load_heartbeat(self._store, newest)
            self._damaged = -1
        except KeyMissingError:
            return
        except NewerFormatError:
            raise
        except DamagedError as error:
            if is_new:
                logger.warning(
                    "heartbeat of the leader: %s; waiting for the next one", error.message
                )
            self._damaged = newest
        self._newest = newest
        if is_new:
            self._seen_at = self._clock()

    def _hold(self, heartbeat: Heartbeat, begun: float) -> None:
        self._mine = self._seen = heartbeat
        self._newest, self._seen_at = heartbeat.number, begun
        self._held_until = begun + self._timeout_s

    def _next(self, number: int, epoch: int, *, released: bool = False) -> Heartbeat:
        return Heartbeat(
            number=number + 1,
            epoch=epoch,
            worker_id=self._worker_id,
            url=self._url,
            at_ms=now_ms(),
            released=released,
            statuses=() if released else tuple(self._statuses()),
            levels=() if released else tuple(self._levels()),
        )

    def _create(self, heartbeat: Heartbeat) -> bool:
        """Create a heartbeat; False when its number is taken."""
        body = dump_state_document(heartbeat.to_json())
        if len(body) > MAX_BYTES:
            logger.warning("the states of all connectors do not fit into a heartbeat")
            body = dump_state_document(replace(heartbeat, statuses=()).to_json())
        return self._heartbeats.try_create(heartbeat.number, body)

    def _load(self, number: int) -> Heartbeat | None:
        """Read a heartbeat; None for one that is gone or damaged."""
        try:
            return load_heartbeat(self._store, number)
        except NewerFormatError:
            raise
        except (KeyMissingError, DamagedError):
            return None

    def _delete(self, number: int) -> None:
        if number >= 0:
            with suppress(KafkeepError):  # a later heartbeat, or another leader, deletes it
                self._heartbeats.delete(number)
