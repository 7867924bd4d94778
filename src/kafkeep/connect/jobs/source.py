"""A source connector's run: a restore that follows a log, or one restore and no more."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import list_logs, load_view
from kafkeep.clock import now_ms
from kafkeep.connect.connectors.source_config import SourceConfig, with_converters
from kafkeep.connect.jobs.job import JobContext, interruptible_sleep, run_with_retries, shown_tasks
from kafkeep.connect.jobs.progress import Progress, gaps_of
from kafkeep.connect.jobs.sink import kafka_of
from kafkeep.connect.model import ConnectorType
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.sink.spec import load_read_options
from kafkeep.options.kafka import Locations
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.storage import ArchiveAddress, StorageOptions
from kafkeep.options.unlogged import UnloggedOptions
from kafkeep.restore.follow.log import Followed, Follower, load_followed
from kafkeep.restore.follow.unlogged import ForeignFollower, load_foreign_followed
from kafkeep.restore.summary import RestoreSummary
from kafkeep.restore.unlogged import has_objects
from kafkeep.store.open import open_store

LOOK_MS = 5_000
"""How often one that restores once looks for what it is to restore."""
MakeFollower = Callable[..., Follower | ForeignFollower]
logger = logging.getLogger(__name__)


def state_folder(config: SourceConfig, cluster_id: str, context: JobContext) -> str:
    """Return where a source keeps how far it has come.

    By connector, archive, log and cluster: re-created under its name, it goes on where it was.
    """
    told = "\n".join((config.archive, config.instance or "", cluster_id))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    return f"{context.state_address.rstrip('/')}/sources/{config.name}-{digest}"


def open_round(folder: str, storage: StorageOptions | None, number: int) -> ObjectStore:
    """Open the place for the documents of one round."""
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
        self._told: set[str] = set()
        self._written: int | None = None
        """Records the round under way has written, as last measured."""

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
            make = self._await_archive(store, state, stop)
            if make is None:
                return
            follower = make(
                options=config.restore,
                locations=Locations(kafka=kafka, archive=config.archive, storage=config.storage),
                admin=admin,
                store=store,
                state=state,
                open_round=partial(open_round, folder, around.state_storage),
                run_tasks=partial(around.run_tasks, pool=config.called),
                cores=min(around.cores, config.tasks_max or around.cores),
                now_ms=now_ms,
                on_progress=self._note_growth,
            )
            follower.begin()
            if isinstance(follower, Follower):
                follower.options = replace(follower.options, changes=self._changes(follower))
            self._follow(follower, stop)

    def _await_archive(
        self, store: ObjectStore, state: ObjectStore, stop: threading.Event
    ) -> MakeFollower | None:
        """Wait until there is something to follow; None when it is to stop before."""
        config = self._config
        while (make := follower_for(config, store, state)) is None:
            log = f"named {config.instance}" if config.instance else "of kafkeep's"
            looks_for_objects = config.unlogged is not None and not config.instance
            others = ", and no object of Confluent's sink" if looks_for_objects else ""
            self._tell([f"{store.describe()} has no log {log} yet{others}; waiting"])
            if stop.wait((config.poll_interval_ms or LOOK_MS) / 1000):
                return None
        return make

    def _follow(self, follower: Follower | ForeignFollower, stop: threading.Event) -> None:
        """Go round by round; where it is to end after one, there is one to wait for."""
        poll_ms = self._config.poll_interval_ms
        if isinstance(follower, Follower) and follower.is_one_shot:
            poll_ms = None
        while not stop.is_set():
            self._written = None
            # A step that failed has left it set: trying again is no progress.
            self.progress.due_since_ms = self.progress.due_since_ms or now_ms()
            done = follower.step()
            self.progress.due_since_ms = None
            if isinstance(follower, Follower):
                self._measure(follower)
            else:
                self._measure_foreign(follower)
            if done is not None:
                self._count(done)
                continue
            if poll_ms is None and follower.followed.positions:
                return
            stop.wait((poll_ms or LOOK_MS) / 1000)

    def _note_growth(self, written: int, _total: int) -> None:
        """Count growing topics as progress of a round, which is committed as a whole at its end."""
        if self._written is not None and written > self._written:
            self.progress.due_since_ms = now_ms()
        self._written = written

    def _changes(self, follower: Follower) -> ChangeOptions | None:
        """Return what is done to records of the log that is followed."""
        config = self._config
        written: Mapping[str, str] = {}
        if config.converters or config.changes.active:
            view = load_view(follower.store, follower.followed.log)
            spec = load_read_options(follower.store, view).spec
            written = spec.texts if spec is not None else {}
        return config.changes_of(written, self._context.defaults)

    def _count(self, summary: RestoreSummary) -> None:
        progress = self.progress
        progress.bytes += summary.bytes
        progress.objects += summary.objects
        progress.commits += 1
        # A round tells every gap of its topics, whichever round passed it.
        self._gaps |= {(gap["topic"], gap["partition"], gap["start"]) for gap in summary.gaps}
        progress.gaps = len(self._gaps)
        progress.last_commit_ms = now_ms()
        progress.topics = progress.topics | set(summary.topics)
        self._tell(summary.warnings)
        progress.records += summary.records

    def _tell(self, sentences: Iterable[str]) -> None:
        """Log what was not said before."""
        for sentence in sentences:
            if sentence not in self._told:
                self._told.add(sentence)
                logger.warning("connector %s: %s", self._config.called, sentence)

    def _measure(self, follower: Follower) -> None:
        """Say how far the archive is ahead of what is restored."""
        followed, view = follower.followed, follower.view
        progress, now = self.progress, now_ms()
        progress.positions = _by_number(followed)
        if view is None:
            return
        targets = follower.targets()
        lag = {
            (pid.topic, pid.partition): max(0, end - followed.positions.get(pid, 0))
            for pid, end in sorted(view.positions.items())
            if pid.topic in targets and followed.commit < view.commit
        }
        before = progress.lag_since_ms
        progress.lag_since_ms = {key: before.get(key, now) for key, at in lag.items() if at}
        progress.lag_records = lag or dict.fromkeys(progress.positions, 0)
        if view.gap_count != self._gaps_read:
            progress.lost = gaps_of(g for g in view.gaps if g.partition_id.topic in targets)
            self._gaps_read = view.gap_count
        progress.measured_ms = now
        self.task_count = shown_tasks(self._config.tasks_max, len(progress.positions) or None)

    def _measure_foreign(self, follower: ForeignFollower) -> None:
        """Say which partitions came back, and whether objects wait: of records nobody knows."""
        progress, now = self.progress, now_ms()
        positions: dict[tuple[str, int], int] = {}
        for place, last in follower.followed.positions.items():
            key = place.topic, place.partition
            positions[key] = max(positions.get(key, 0), last.start + last.records)
        progress.positions = dict(sorted(positions.items()))
        waits = follower.waiting > 0
        before = progress.lag_since_ms
        progress.lag_since_ms = {k: before.get(k, now) for k in progress.positions if waits}
        progress.lag_records = dict.fromkeys(progress.positions, int(waits))
        progress.measured_ms = now
        self.task_count = shown_tasks(self._config.tasks_max, len(progress.positions) or None)


def with_defaults(config: SourceConfig, defaults: Mapping[str, str]) -> SourceConfig:
    """Let the worker's converters encode records of objects without a log, where none is named."""
    if config.unlogged is None:
        return config
    texts = with_converters(config.unlogged.texts, defaults)
    return replace(config, unlogged=UnloggedOptions.parse(texts, strict=False))


def follower_for(
    config: SourceConfig, store: ObjectStore, state: ObjectStore
) -> MakeFollower | None:
    """Return what follows the archive: its log; its objects where there is none; None without both.

    Once begun it stays so, whatever is put into the bucket later. A folder may be made later, as a
    prefix is; without its bucket NoSuchArchiveError is raised.
    """
    unlogged, name = config.unlogged, config.instance
    where = ArchiveAddress.parse(config.archive)
    is_made = where.kind != "file" or Path(where.path).is_dir()
    if load_foreign_followed(state) is not None:
        return _of_objects(config)
    if unlogged is not None and unlogged.generic:
        return _of_objects(config) if is_made else None
    if load_followed(state) is not None:
        return Follower
    logs = list_logs(store) if is_made else []
    if name in logs if name else logs:
        return Follower
    if name or logs or unlogged is None or not is_made:
        return None
    return _of_objects(config) if has_objects(store, unlogged, config.restore) else None


def _of_objects(config: SourceConfig) -> MakeFollower:
    assert config.unlogged is not None
    return partial(ForeignFollower, unlogged=config.unlogged)


def _by_number(followed: Followed) -> dict[tuple[str, int], int]:
    return {(pid.topic, pid.partition): at for pid, at in sorted(followed.positions.items())}
