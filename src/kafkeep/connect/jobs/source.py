"""The job of a source connector: a restore that follows a log or a bucket, or a single restore."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import list_logs, load_view
from kafkeep.clock import now_ms
from kafkeep.connect.connectors.source_config import SourceConfig, with_converters
from kafkeep.connect.jobs.job import (
    JobContext,
    Progress,
    gaps_of,
    interruptible_sleep,
    run_with_retries,
    shown_tasks,
    slots_within,
)
from kafkeep.connect.jobs.sink import kafka_of
from kafkeep.connect.model import ConnectorType
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.sink.spec import load_read_options
from kafkeep.options.kafka import Locations
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.storage import ArchiveAddress, StorageOptions
from kafkeep.options.unlogged import UnloggedOptions
from kafkeep.restore.follow.follower import Follower
from kafkeep.restore.follow.listing import LISTING_STATES, ListingFollowSource
from kafkeep.restore.follow.log import LOG_STATES, LogFollowSource
from kafkeep.restore.listing_source import has_objects
from kafkeep.restore.summary import RestoreSummary
from kafkeep.store.open import open_store

POLL_MS = 5_000
"""How often a source that restores once checks for its archive."""
AnyFollowSource = LogFollowSource | ListingFollowSource
logger = logging.getLogger(__name__)


def state_folder(config: SourceConfig, cluster_id: str, context: JobContext) -> str:
    """Return the folder of a source's positions.

    By connector, archive, log and cluster: a connector that is created again under its name
    continues where it was.
    """
    text = "\n".join((config.archive, config.instance or "", cluster_id))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{context.state_address.rstrip('/')}/sources/{config.name}-{digest}"


def open_cycle_documents(folder: str, storage: StorageOptions | None, number: int) -> ObjectStore:
    """Open the place for the documents of one cycle."""
    return open_store(f"{folder}/rounds/{number:08d}", storage, create=True)


class SourceJob:
    """One run of a source; see ``ConnectorJob``."""

    type: ConnectorType = "source"

    def __init__(self, config: SourceConfig, context: JobContext) -> None:
        self._config = with_defaults(config, context.defaults)
        self._context = context
        self.task_count = shown_tasks(config.tasks_max)
        self.progress = Progress()
        self._gaps: set[tuple[str, int, int]] = set()
        self._gaps_read = -1
        self._logged: set[str] = set()
        self._written: int | None = None
        """Records that the open cycle has written, as last measured."""

    def run(self, stop: threading.Event) -> None:
        """Restore until stopped, or until all is there if it does not poll for more."""
        run_with_retries(self._config.called, partial(self._run, stop), stop)

    def _run(self, stop: threading.Event) -> None:
        config, around = self._config, self._context
        kafka = kafka_of(around.kafka, config.kafka)
        with Wire(kafka) as wire:
            admin = Admin(wire)
            folder = state_folder(config, admin.cluster_id(), around)
            store = open_store(config.archive, config.storage, sleep=interruptible_sleep(stop))
            state = open_store(
                folder, around.state_storage, create=True, sleep=interruptible_sleep(stop)
            )
            source = self._await_archive(store, state, stop)
            if source is None:
                return
            follower: Follower[Any, Any] = Follower(
                source=source,
                locations=Locations(kafka=kafka, archive=config.archive, storage=config.storage),
                admin=admin,
                store=store,
                state_store=state,
                open_documents=partial(open_cycle_documents, folder, around.state_storage),
                run_tasks=partial(around.run_tasks, pool=config.called),
                slots=partial(slots_within, around, config.tasks_max),
                now_ms=now_ms,
                on_progress=self._note_growth,
            )
            follower.begin()
            if isinstance(source, LogFollowSource):
                changes = self._changes(store, follower.state.log)
                source.options = replace(source.options, changes=changes)
            self._follow(follower, stop)

    def _await_archive(
        self, store: ObjectStore, state: ObjectStore, stop: threading.Event
    ) -> AnyFollowSource | None:
        """Wait until there is something to follow; None when ``stop`` is set before."""
        config = self._config
        while (source := find_source(config, store, state)) is None:
            log = f"named {config.instance}" if config.instance else "of kafkeep's"
            looks_for_objects = config.unlogged is not None and not config.instance
            others = ", and no object of Confluent's sink" if looks_for_objects else ""
            self._warn([f"{store.describe()} has no log {log} yet{others}; waiting"])
            if stop.wait((config.poll_interval_ms or POLL_MS) / 1000):
                return None
        return source

    def _follow(self, follower: Follower[Any, Any], stop: threading.Event) -> None:
        """Restore cycle by cycle; a source without polling ends after its first cycles."""
        poll_ms = None if follower.source.is_one_shot else self._config.poll_interval_ms
        while not stop.is_set():
            self._written = None
            # A step that failed has left it set: a retry is no progress.
            self.progress.due_since_ms = self.progress.due_since_ms or now_ms()
            summary = follower.step()
            self.progress.due_since_ms = None
            self._measure(follower)
            if summary is not None:
                self._count(summary)
                continue
            if poll_ms is None and follower.state.positions:
                return
            stop.wait((poll_ms or POLL_MS) / 1000)

    def _note_growth(self, written: int, _total: int) -> None:
        """Count growing topics as progress: a cycle is committed as a whole at its end."""
        if self._written is not None and written > self._written:
            self.progress.due_since_ms = now_ms()
        self._written = written

    def _changes(self, store: ObjectStore, log: str) -> ChangeOptions | None:
        """Return the changes to the records of the followed log."""
        config = self._config
        written: Mapping[str, str] = {}
        if config.converters or config.changes.active:
            spec = load_read_options(store, load_view(store, log)).spec
            written = spec.texts if spec is not None else {}
        return config.changes_of(written, self._context.defaults)

    def _count(self, summary: RestoreSummary) -> None:
        progress = self.progress
        progress.bytes += summary.bytes
        progress.objects += summary.objects
        progress.commits += 1
        # A cycle reports every gap of its topics, whichever cycle passed it.
        self._gaps |= {(gap["topic"], gap["partition"], gap["start"]) for gap in summary.gaps}
        progress.gaps = len(self._gaps)
        progress.last_commit_ms = now_ms()
        progress.topics = progress.topics | set(summary.topics)
        self._warn(summary.warnings)
        progress.records += summary.records

    def _warn(self, sentences: Iterable[str]) -> None:
        """Log each sentence once."""
        for sentence in sentences:
            if sentence not in self._logged:
                self._logged.add(sentence)
                logger.warning("connector %s: %s", self._config.called, sentence)

    def _measure(self, follower: Follower[Any, Any]) -> None:
        """Note how far the follower is behind its source."""
        lag = follower.source.lag(follower.state)
        progress, now = self.progress, now_ms()
        progress.positions = dict(lag.positions)
        if lag.records is None:
            return
        before = progress.lag_since_ms
        progress.lag_since_ms = {key: before.get(key, now) for key, n in lag.records.items() if n}
        progress.lag_records = dict(lag.records)
        if lag.gap_count != self._gaps_read:
            progress.lost = gaps_of(follower.source.gaps())
            self._gaps_read = lag.gap_count
        progress.measured_ms = now
        self.task_count = shown_tasks(self._config.tasks_max, len(progress.positions) or None)


def with_defaults(config: SourceConfig, defaults: Mapping[str, str]) -> SourceConfig:
    """Let the worker's converters encode records of objects without a log, where none is named."""
    if config.unlogged is None:
        return config
    texts = with_converters(config.unlogged.texts, defaults)
    return replace(config, unlogged=UnloggedOptions.parse(texts, strict=False))


def find_source(
    config: SourceConfig, store: ObjectStore, state: ObjectStore
) -> AnyFollowSource | None:
    """Return the archive's log, its objects where there is no log, or None without both.

    A connector that has begun keeps its kind of source, whatever is put into the bucket later. A
    folder may be made later, as a prefix is; NoSuchArchiveError when its bucket does not exist.
    """
    unlogged, name = config.unlogged, config.instance
    where = ArchiveAddress.parse(config.archive)
    exists = where.kind != "file" or Path(where.path).is_dir()
    log = LogFollowSource(store=store, options=config.restore, now_ms=now_ms)
    if LISTING_STATES.load(state) is not None:
        return _listing(config, store)
    if unlogged is not None and unlogged.generic:
        return _listing(config, store) if exists else None
    if LOG_STATES.load(state) is not None:
        return log
    logs = list_logs(store) if exists else []
    if name in logs if name else logs:
        return log
    if name or logs or unlogged is None or not exists:
        return None
    return _listing(config, store) if has_objects(store, unlogged, config.restore) else None


def _listing(config: SourceConfig, store: ObjectStore) -> ListingFollowSource:
    assert config.unlogged is not None
    return ListingFollowSource(store=store, options=config.restore, unlogged=config.unlogged)
