"""The archives that the service knows of, and their logs, kept in memory while they are shown."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import pyarrow as pa

from kafkeep.archive.checkpoint import LoadedLog, load_log
from kafkeep.archive.commit import Gap
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import apply_stored, iter_stored_commits
from kafkeep.archive.view import ArchiveView, list_logs
from kafkeep.connect.catalog.archives.entry_index import EntryIndexes, index_of
from kafkeep.connect.catalog.readings import Readings
from kafkeep.connect.model import RestError
from kafkeep.errors import DamagedError, KafkeepError
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

FRESH_S = 1.0
"""A log that was read less than this ago is not looked at again."""
_WATCHED_S = 5.0
"""The same while a thread looks at the logs in use."""
_LOGS_KEPT = 50
RELOAD_EVERY = 200
"""After this many commits, a log is loaded anew: there may be a newer checkpoint to begin from."""
logger = logging.getLogger(__name__)

LogId = tuple[str, str]
"""The archive's id and the name of the log."""
EVERY_S = 1.0
"""How often the logs in use are looked at."""
UNTIL_S = 30.0
"""A log that no page showed for this long is not looked at any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlace:
    """Where an archive is, and which connectors write to it."""

    address: str
    storage: StorageOptions | None = field(default=None, repr=False)
    connectors: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """A short name for addresses of pages: it stays the same as long as the address does."""
        return hashlib.sha256(self.address.encode()).hexdigest()[:10]

    @property
    def reached(self) -> tuple[str, StorageOptions | None]:
        """The address and how it is reached, whichever connectors write there."""
        return self.address, self.storage


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLog:
    """One log as it was at its newest commit."""

    place: ArchivePlace
    store: ObjectStore = field(repr=False)
    loaded: LoadedLog = field(repr=False)
    view: ArchiveView = field(repr=False)
    entries: pa.Table = field(repr=False)
    """Its entries; the columns are ``entry_index.SCHEMA``'s."""
    gaps: tuple[Gap, ...] = field(default=(), repr=False)
    """Offsets that were never archived, in the order of their commits."""

    @property
    def name(self) -> str:
        """The name of the log."""
        return self.view.name


@dataclass(slots=True)
class _Kept:
    log: ArchiveLog
    looked_at: float


class Archives:
    """Opens archives and logs; safe to use from any thread."""

    def __init__(
        self,
        places: Callable[[], Iterable[ArchivePlace]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        is_watching: bool = False,
    ) -> None:
        """Create it; ``places`` returns the archives of the connectors that exist now.

        With ``is_watching``, a thread reads the logs on that pages show, so that pages need not.
        """
        self._places = places
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._stores: dict[tuple[str, StorageOptions | None], ObjectStore] = {}
        self._logs: dict[LogId, _Kept] = {}
        self._names: dict[str, tuple[float, Sequence[str]]] = {}
        self._loading: dict[LogId, threading.Lock] = {}
        self._indexes = EntryIndexes()
        self.readings = Readings(monotonic)
        """Sums over large logs, which need not be those of the last moment."""
        self._watch = LogWatch(self._look) if is_watching else None

    def close(self) -> None:
        """End the thread that looks at logs."""
        if self._watch is not None:
            self._watch.close()

    def places(self) -> list[ArchivePlace]:
        """Return the archives, sorted by address."""
        return sorted(self._places(), key=lambda one: one.address)

    def place(self, id: str) -> ArchivePlace:
        """Return an archive by its id; 404 when no connector uses it."""
        for one in self._places():
            if one.id == id:
                return one
        raise RestError(404, f"No connector of this service uses an archive {id!r}")

    def store(self, place: ArchivePlace) -> ObjectStore:
        """Return the store of an archive."""
        with self._lock:
            store = self._stores.get(place.reached)
        if store is None:
            store = open_store(place.address, place.storage)
            with self._lock:
                self._stores[place.reached] = store
        return store

    def log_names(self, place: ArchivePlace) -> Sequence[str]:
        """Return the names of an archive's logs, sorted; NoSuchArchiveError when there is none."""
        now = self._monotonic()
        known = self._names.get(place.id)
        if known is not None and now - known[0] < self._fresh_s():
            return known[1]
        names = list_logs(self.store(place), known=known[1] if known is not None else ())
        self._names[place.id] = now, names
        return names

    def log(self, place: ArchivePlace, name: str, *, max_age_s: float | None = None) -> ArchiveLog:
        """Return a log at its newest commit; 404 when there is none of that name.

        What was looked at less than ``max_age_s`` ago is not looked at again.
        """
        id = place.id, name
        max_age_s = self._fresh_s() if max_age_s is None else max_age_s
        if self._watch is not None:
            self._watch.use(id)
        kept = self._fresh(id, place, max_age_s)
        if kept is not None:
            return kept
        with self._lock:
            loading = self._loading.setdefault(id, threading.Lock())
        with loading:  # so that pages that arrive together read it once
            return self._fresh(id, place, max_age_s) or self._read(id, place)

    def _fresh_s(self) -> float:
        is_watched = self._watch is not None and self._watch.is_running
        return _WATCHED_S if is_watched else FRESH_S

    def _fresh(self, id: LogId, place: ArchivePlace, max_age_s: float) -> ArchiveLog | None:
        kept = self._logs.get(id)
        if kept is None or kept.log.place.reached != place.reached:
            return None
        if self._monotonic() - kept.looked_at >= max_age_s:
            return None
        if kept.log.place != place:
            kept.log = replace(kept.log, place=place)
        return kept.log

    def _look(self, id: LogId) -> None:
        """Read a log on that a page showed."""
        kept = self._logs.get(id)
        if kept is not None:
            with self._loading[id]:
                self._read(id, kept.log.place)

    def _read(self, id: LogId, place: ArchivePlace) -> ArchiveLog:
        """Load a log, or read it on; the caller holds its lock."""
        now = self._monotonic()
        kept = self._logs.get(id)
        log = None
        if kept is not None and kept.log.place.reached == place.reached:
            same = kept.log if kept.log.place == place else replace(kept.log, place=place)
            log = _read_on(same)
        log = log or self._load(place, self.store(place), id[1])
        self._keep(id, _Kept(log, now))
        return log

    def logs(self, place: ArchivePlace) -> list[ArchiveLog]:
        """Return all logs of an archive, by name."""
        return [self.log(place, name) for name in self.log_names(place)]

    def _load(self, place: ArchivePlace, store: ObjectStore, name: str) -> ArchiveLog:
        loaded = load_log(store, name)
        if loaded.state.commit < 0:
            raise RestError(404, f"{place.address} has no log named {name!r}")
        index = self._indexes.load(store, loaded)
        return ArchiveLog(
            place=place,
            store=store,
            loaded=loaded,
            view=ArchiveView(store, loaded),
            entries=index.entries,
            gaps=index.gaps,
        )

    def _keep(self, id: LogId, kept: _Kept) -> None:
        with self._lock:
            if id not in self._logs and len(self._logs) >= _LOGS_KEPT:
                del self._logs[next(iter(self._logs))]
            self._logs[id] = kept


def _read_on(log: ArchiveLog) -> ArchiveLog | None:
    """Return the log with the commits that it has gained, itself when there are none.

    None when it must be loaded anew, because entries were retired or the tail became long, or
    because another log has its name now.
    """
    state, tail = log.loaded.state, log.loaded.tail
    room = RELOAD_EVERY - len(tail) % RELOAD_EVERY
    added = []
    try:
        for stored in islice(iter_stored_commits(log.store, log.name, state.commit + 1), room):
            state, commit = apply_stored(state, stored)
            added.append(commit)
    except DamagedError:
        return None
    if not added:
        return log
    if len(added) >= room or any(one.changes.retired for one in added):
        return None
    loaded = replace(log.loaded, state=state, tail=(*tail, *added))
    index = index_of(added)
    return replace(
        log,
        loaded=loaded,
        view=ArchiveView(log.store, loaded),
        entries=pa.concat_tables([log.entries, index.entries]),
        gaps=(*log.gaps, *index.gaps),
    )


class LogWatch:
    """Calls ``look`` for each log in use, so that no page waits for a store because of a commit.

    It calls from a thread that ends when no log is in use. Thread-safe.
    """

    def __init__(self, look: Callable[[LogId], object], every_s: float = EVERY_S) -> None:
        self._look = look
        self._every_s = every_s
        self._lock = threading.Lock()
        self._used: dict[LogId, float] = {}
        self._closed = threading.Event()
        self._is_running = False

    @property
    def is_running(self) -> bool:
        """True while logs in use are looked at."""
        return self._is_running

    def use(self, id: LogId) -> None:
        """Note that a page shows a log now."""
        with self._lock:
            self._used[id] = time.monotonic()
            if self._is_running or self._closed.is_set():
                return
            self._is_running = True
        threading.Thread(target=self._run, name="log-watch", daemon=True).start()

    def close(self) -> None:
        """End the thread soon."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            for id in self._in_use():
                try:
                    self._look(id)
                except KafkeepError as error:
                    # The next page that shows the log says so.
                    logger.debug("cannot look at the log %s: %s", id[1], error.message)
            if self._is_unused():
                return

    def _in_use(self) -> list[LogId]:
        with self._lock:
            now = time.monotonic()
            self._used = {id: at for id, at in self._used.items() if now - at < UNTIL_S}
            return list(self._used)

    def _is_unused(self) -> bool:
        with self._lock:
            self._is_running = bool(self._used)
            return not self._used
