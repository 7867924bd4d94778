"""Which worker runs the connectors: the one whose beats go on.

Beats are a dense sequence of conditional creates, ``lease/000000000007.json``. The leader creates
the next one every now and then. Another worker that has seen no new beat for ``timeout_s`` on its
own clock creates the next one itself, under the next epoch; the old leader's create of that number
fails, and it knows. A leader whose beats do not get through stops at the same time by its own
clock, counted from before it sent the last one that did. So clocks need not agree.

What two workers that both believe they lead could do to data is not for the lease to prevent: the
archive's own epochs do.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.document import (
    as_int,
    as_list,
    as_str,
    dump_document,
    reading,
)
from kafkeep.archive.store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.connect.model import ConnectorStatus, LoggerLevel
from kafkeep.connect.state.codec import (
    STATE_VERSION,
    level_from_json,
    level_to_json,
    parse_state_document,
    status_from_json,
    status_to_json,
)
from kafkeep.errors import KafkeepError, KeyExistsError, KeyMissingError, TransientError

DEFAULT_TIMEOUT_S = 10.0
BEATS_PER_TIMEOUT = 4
_KEPT_BEATS = 3
_FOLDER = "lease/"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A sign of life: who leads, where it answers, how its connectors are, what others log."""

    number: int
    epoch: int
    worker_id: str
    url: str
    at_ms: int
    released: bool = False
    statuses: tuple[ConnectorStatus, ...] = ()
    levels: tuple[LoggerLevel, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document of this beat."""
        return {
            "version": STATE_VERSION,
            "number": self.number,
            "epoch": self.epoch,
            "worker_id": self.worker_id,
            "url": self.url,
            "at_ms": self.at_ms,
            "released": self.released,
            "statuses": [status_to_json(status) for status in self.statuses],
            "levels": [level_to_json(level) for level in self.levels],
        }


def parse_beat(body: bytes, key: str) -> Beat:
    """Read a beat; DamagedError or NewerFormatError naming ``key``."""
    document = parse_state_document(body, key)
    with reading(key):
        return Beat(
            number=as_int(document["number"]),
            epoch=as_int(document["epoch"]),
            worker_id=as_str(document["worker_id"]),
            url=as_str(document["url"]),
            at_ms=as_int(document["at_ms"]),
            released=document["released"] is True,
            statuses=tuple(status_from_json(row) for row in as_list(document["statuses"])),
            levels=tuple(level_from_json(row) for row in as_list(document.get("levels", []))),
        )


class Lease:
    """One worker's part in it. ``step`` is called by one thread; the rest may be asked by any."""

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
        self._worker_id, self._url = worker_id, url
        self._timeout_s = timeout_s
        self._clock = clock
        self._statuses, self._levels = statuses, levels
        self._lock = threading.Lock()
        self._mine: Beat | None = None
        self._held_until = 0.0
        self._seen: Beat | None = None
        self._seen_at = 0.0

    @property
    def interval_s(self) -> float:
        """How long to wait between two steps."""
        return self._timeout_s / BEATS_PER_TIMEOUT

    def holds(self) -> bool:
        """Tell whether this worker leads, by its own clock; asks nobody."""
        return self._mine is not None and self._clock() < self._held_until

    def leader(self) -> Beat | None:
        """Return the last beat of whoever leads; None when nobody seems to."""
        if self.holds():
            return self._mine
        beat = self._seen
        if beat is None or beat.released or self._clock() - self._seen_at > self._timeout_s:
            return None
        return beat

    def step(self) -> None:
        """Beat, or look whether another does and take its place if it does not.

        A store that fails for now is no error: the time that passes decides.
        """
        with self._lock, suppress(TransientError):
            if self._mine is not None and not self.holds():
                logger.warning("this worker could not renew its lease in time and stops its work")
                self._mine = None
            if self._mine is not None:
                self._beat(self._mine)
            else:
                self._watch()

    def look(self) -> None:
        """Read the newest beat of another, without taking its place."""
        with self._lock, suppress(TransientError):
            if self._mine is None:
                self._see()

    def give_up(self) -> None:
        """Tell the others that they need not wait: called last, when nothing runs any more."""
        with self._lock, suppress(KafkeepError):
            if self._mine is not None and self.holds():
                self._put(self._next(self._mine.number, self._mine.epoch, released=True))
            self._mine = None

    def _beat(self, last: Beat) -> None:
        begun = self._clock()
        beat = self._next(last.number, last.epoch)
        try:
            self._put(beat)
        except KeyExistsError:
            holder = self._load(beat.number)
            if holder is None or holder.epoch != last.epoch or holder.worker_id != last.worker_id:
                logger.warning("another worker took the lease; this one stops its work")
                self._mine = None
                return
            beat = holder  # sent before, and the answer was lost: when, nobody knows
            begun = self._held_until - self._timeout_s
        self._hold(beat, begun)
        self._delete(beat.number - _KEPT_BEATS)

    def _watch(self) -> None:
        begun = self._clock()
        newest = self._see()
        waited = self._clock() - self._seen_at
        if newest is not None and not newest.released and waited < self._timeout_s:
            return
        number, epoch = (newest.number, newest.epoch) if newest else (-1, 0)
        beat = self._next(number, epoch + 1)
        try:
            self._put(beat)
        except KeyExistsError:
            self._see()
            return
        # So slow that others have led since, and that number was free again?
        if max(self._numbers(), default=-1) == beat.number:
            self._hold(beat, begun)
            for number in self._numbers():
                if number <= beat.number - _KEPT_BEATS:
                    self._delete(number)

    def _see(self) -> Beat | None:
        newest = max(self._numbers(), default=-1)
        if newest >= 0 and (self._seen is None or self._seen.number != newest):
            found = self._load(newest)
            if found is not None:
                self._seen, self._seen_at = found, self._clock()
        return self._seen

    def _hold(self, beat: Beat, begun: float) -> None:
        self._mine = self._seen = beat
        self._seen_at = begun
        self._held_until = begun + self._timeout_s

    def _next(self, number: int, epoch: int, *, released: bool = False) -> Beat:
        return Beat(
            number=number + 1,
            epoch=epoch,
            worker_id=self._worker_id,
            url=self._url,
            at_ms=now_ms(),
            released=released,
            statuses=() if released else tuple(self._statuses()),
            levels=() if released else tuple(self._levels()),
        )

    def _numbers(self) -> list[int]:
        return [int(row.key[len(_FOLDER) :].split(".")[0]) for row in self._store.list(_FOLDER)]

    def _put(self, beat: Beat) -> None:
        self._store.put_new(_key(beat.number), dump_document(beat.to_json()))

    def _load(self, number: int) -> Beat | None:
        try:
            return parse_beat(self._store.get(_key(number)), _key(number))
        except KeyMissingError:
            return None

    def _delete(self, number: int) -> None:
        if number >= 0:
            with suppress(KafkeepError):  # a later beat, or a successor, deletes it
                self._store.delete(_key(number))


def _key(number: int) -> str:
    return f"{_FOLDER}{number:012d}.json"
