"""The job of a sink connector: a following backup in the worker's Spark session.

After each snapshot of the cluster and each commit the job updates its progress and commits its
positions to the connector's consumer group, so that Kafka's tools show them. Only the log decides
where a connector continues. The group is read once, before there is a log, and a failed commit to
it is only a warning.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from kafkeep.archive.commit import Commit, Gap
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import ClusterSnapshot
from kafkeep.backup.job import BackupJob
from kafkeep.backup.plan import CyclePlan
from kafkeep.backup.preview import Preview
from kafkeep.backup.run import check_store
from kafkeep.backup.schemas import schema_keeper
from kafkeep.backup.summary import BackupSummary
from kafkeep.clock import now_ms, writer_id
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.jobs.connector_group import ConnectorGroup, group_of, positions_now
from kafkeep.connect.jobs.job import (
    JobContext,
    Progress,
    gaps_of,
    interruptible_sleep,
    run_with_retries,
    shown_tasks,
)
from kafkeep.connect.jobs.retention import ConnectorRetention
from kafkeep.connect.model import ConnectorType
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.metadata import TopicPartition
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.store.open import open_store

logger = logging.getLogger(__name__)


class SinkProgress:
    """Keeps one ``Progress`` up to date.

    Other threads read it meanwhile, so maps and sets are replaced, never changed.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        progress.ends = {}  # this run has not seen those of an earlier one

    def record_snapshot(
        self,
        snapshot: ClusterSnapshot,
        positions: Mapping[TopicPartition, int],
        plan: CyclePlan | None = None,
        *,
        running_since_ms: int | None = None,
    ) -> None:
        """Record how far Kafka is ahead of ``positions``, and whether ``plan`` reads any of it.

        ``running_since_ms`` is when the oldest cycle that still runs began.
        """
        progress = self.progress
        progress.ends = dict(snapshot.stables)
        self._measure(positions, snapshot.at_ms)
        if running_since_ms is not None:
            progress.due_since_ms = running_since_ms
        elif plan is not None and plan.stretches:
            progress.due_since_ms = progress.due_since_ms or snapshot.at_ms
        else:
            progress.due_since_ms = None
        progress.measured_ms = snapshot.at_ms

    def committed(
        self,
        commit: Commit,
        positions: Mapping[TopicPartition, int],
        *,
        running_since_ms: int | None = None,
    ) -> None:
        """Count one commit of the log, which is now at ``positions``.

        ``running_since_ms`` is when the oldest cycle that still runs began.
        """
        changes, progress = commit.changes, self.progress
        is_done = not changes.is_plan
        if is_done:
            progress.commits += 1
            progress.last_commit_ms = commit.at_ms
            progress.due_since_ms = running_since_ms
        progress.bytes += sum(entry.raw_bytes for entry in changes.entries)
        progress.objects += len(changes.entries)
        progress.gaps += len(changes.gaps)
        progress.skipped_offsets += sum(len(gap.range) for gap in changes.gaps)
        read = {entry.partition_id.topic for entry in changes.entries}
        if read - progress.topics:
            progress.topics = progress.topics | read
        changed = frozenset((p.topic, p.partition) for p in changes.positions)
        self._update(positions, commit.at_ms, changed, is_done)
        progress.records += sum(entry.own_records for entry in changes.entries)

    def _update(
        self,
        positions: Mapping[TopicPartition, int],
        at_ms: int,
        changed: frozenset[TopicPartition],
        is_done: bool,
    ) -> None:
        """Set positions, and the lag of the partitions whose position changed.

        What is left after a partition was read has waited since then.
        """
        progress = self.progress
        progress.positions = dict(positions) if changed else progress.positions
        lag = dict(progress.lag_records) if progress.ends else {}
        since = dict(progress.lag_since_ms) if progress.ends else {}
        for key in changed & progress.ends.keys() & positions.keys():
            lag[key] = max(0, progress.ends[key] - positions[key])
            if not lag[key]:
                since.pop(key, None)
            elif is_done or key not in since:
                since[key] = at_ms
        progress.lag_since_ms = since
        progress.lag_records = lag  # last, so that a reader who sees it sees since when, too

    def _measure(self, positions: Mapping[TopicPartition, int], at_ms: int) -> None:
        """Set positions and lag of all partitions."""
        progress = self.progress
        lag = {
            key: max(0, end - positions[key])
            for key, end in progress.ends.items()
            if key in positions
        }
        before = progress.lag_since_ms
        progress.positions = dict(positions)
        progress.lag_since_ms = {
            key: before.get(key, at_ms) for key, behind in lag.items() if behind
        }
        progress.lag_records = lag  # last, so that a reader who sees it sees since when, too


INTERVAL_MS = 1_000
DETAILS_MS = 30_000
CYCLE_MS = 10_000
"""How long the tasks of a cycle run: about as long as a stopped connector waits for them."""
GROUP_TIMEOUT_MS = 5_000
GAP_LINES = 100
"""How many gaps of one commit get a log line each."""


def kafka_of(worker: KafkaOptions, overrides: Mapping[str, str]) -> KafkaOptions:
    """Return the worker's client with a connector's overrides."""
    rest = {key: text for key, text in overrides.items() if key != "bootstrap.servers"}
    servers = overrides.get("bootstrap.servers", worker.bootstrap_servers)
    return KafkaOptions(servers, {**worker.properties, **rest})


def read_sink(name: str, config: Mapping[str, str], context: JobContext) -> ConnectorConfig:
    """Parse a sink's configuration, with the worker's defaults for keys it does not set."""
    return ConnectorConfig.from_map(config, name=name, strict=False, defaults=context.defaults)


def locations_of(config: ConnectorConfig, context: JobContext) -> Locations:
    """Return where a sink reads and writes."""
    return Locations(
        kafka=kafka_of(context.kafka, config.kafka),
        archive=config.archive,
        storage=config.storage,
    )


def sink_options(config: ConnectorConfig) -> BackupOptions:
    """Return the options of a connector's backup."""
    values: dict[str, Any] = {
        "interval_ms": INTERVAL_MS,
        "cycle_ms": CYCLE_MS,
        **config.extra,
    }
    options = BackupOptions(
        topics=config.topics,
        topics_regex=config.topics_regex,
        name=config.name,
        format=config.format,
        isolation_level=config.isolation_level,
        follow=True,
        tasks_max=config.tasks_max,
        start_at=config.auto_offset_reset,
        group=group_of(config.called),
        details_ms=DETAILS_MS,
        **values,
    )
    return config.with_sink(options)


class SinkJob:
    """One run of a sink; see ``ConnectorJob``."""

    type: ConnectorType = "sink"

    def __init__(
        self,
        options: BackupOptions,
        locations: Locations,
        context: JobContext,
        *,
        group: str | None = None,
        retention: ConnectorRetention | None = None,
    ) -> None:
        """Create it; ``group`` gets its positions where the options name no group."""
        self.options = options
        self.group = group or options.group or group_of(options.called)
        self.retention = retention
        self._locations = locations
        self._context = context
        self.task_count = shown_tasks(options.tasks_max)
        self.progress = Progress()

    def run(self, stop: threading.Event) -> None:
        """Archive until stopped; retries while brokers or stores do not answer."""
        run_with_retries(self.options.called, partial(self._run, stop), stop)

    def _run(self, stop: threading.Event) -> None:
        options, locations = self.options, self._locations
        with Wire(locations.kafka) as wire:
            admin = Admin(wire)
            store = open_store(
                locations.archive, locations.storage, create=True, sleep=interruptible_sleep(stop)
            )
            check_store(store, options.name)
            if self.retention is not None:
                self.retention.begin(store)
            _Run(self, admin, store, stop).job.run()

    def limit_tasks(self, partitions: int) -> None:
        """Show no more tasks than there are partitions."""
        self.task_count = shown_tasks(self.options.tasks_max, partitions)

    def log_commit(self, commit: Commit) -> None:
        """Log what a commit holds."""
        entries, gaps = commit.changes.entries, commit.changes.gaps
        for gap in gaps[:GAP_LINES]:
            logger.warning("connector %s: gap in %s", self.options.called, format_gap(gap))
        if len(gaps) > GAP_LINES:
            more = len(gaps) - GAP_LINES
            logger.warning("connector %s: %d more gaps", self.options.called, more)
        if entries:
            logger.info(
                "connector %s: committed %d records in %d objects to %s",
                self.options.called,
                sum(entry.own_records for entry in entries),
                len(entries),
                self._locations.archive,
            )

    def backup(
        self, admin: Admin, store: ObjectStore, stop: threading.Event, **watchers: Any
    ) -> BackupJob:
        """Make the backup that does the work."""
        open_log = partial(
            CommitLog.open,
            store,
            self.options.name,
            writer=writer_id(),
            now_ms=now_ms,
            sleep=interruptible_sleep(stop),
        )
        return BackupJob(
            options=self.options,
            locations=self._locations,
            admin=admin,
            open_log=open_log,
            run_tasks=partial(self._context.run_tasks, pool=self.options.called),
            slots=self._context.slots,
            now_ms=now_ms,
            stop=stop,
            schemas=schema_keeper(self.options, store),
            cycle_slot=self._context.slot,
            **watchers,
        )


class _Run:
    """The backup of one run, which updates progress and group as it goes."""

    def __init__(
        self, sink: SinkJob, admin: Admin, store: ObjectStore, stop: threading.Event
    ) -> None:
        self._sink = sink
        self._admin = admin
        self._progress = SinkProgress(sink.progress)
        quick = Admin(admin.wire, timeout_ms=GROUP_TIMEOUT_MS)
        self._group = ConnectorGroup(quick, sink.group)
        self._topics: frozenset[str] = frozenset()
        self._in_group: tuple[object, frozenset[str]] = None, frozenset()
        """What was committed to the group last: positions, and the topics chosen from them."""
        self._positions_of: LogState | None = None
        self._positions: Mapping[TopicPartition, int] = {}
        self._log_read: CommitLog | None = None
        self._preview = _preview(sink.options, admin, store)
        self.job = sink.backup(
            admin, store, stop, on_snapshot=self._on_snapshot, on_commit=self._on_commit
        )

    def _on_snapshot(self, snapshot: ClusterSnapshot, plan: CyclePlan) -> None:
        self._topics = frozenset(snapshot.topics)
        if self._sink.retention is not None:
            read_ms = snapshot.details.at_ms if snapshot.details is not None else snapshot.at_ms
            self._sink.retention.update(self._topics, read_ms, self._admin.all_topic_configs)
        self._sink.limit_tasks(sum(len(topic.partitions) for topic in snapshot.topics.values()))
        positions = self._positions_now()
        if self._log_read is not self.job.log:
            self._read_gaps()
        since_ms = self.job.running_since_ms
        self._progress.record_snapshot(snapshot, positions, plan, running_since_ms=since_ms)
        self._commit_group(positions)
        if self._preview is not None:
            self._preview.check(snapshot, plan, self.job.log.state.positions, self.job.tails)

    def _on_commit(self, commit: Commit, summary: BackupSummary) -> None:
        positions = self._positions_now()
        self._sink.progress.bad_records = summary.bad
        since_ms = self.job.running_since_ms
        self._progress.committed(commit, positions, running_since_ms=since_ms)
        self._commit_group(positions)
        self._sink.log_commit(commit)
        if commit.changes.gaps:
            self._read_gaps()

    def _read_gaps(self) -> None:
        """Read all gaps from the log, also those of earlier runs."""
        self._log_read = self.job.log
        try:
            self._sink.progress.lost = gaps_of(self.job.log.view().gaps)
        except KafkeepError as error:
            called = self._sink.options.called
            logger.warning("connector %s: cannot read its gaps: %s", called, error.message)

    def _positions_now(self) -> Mapping[TopicPartition, int]:
        """Return the positions of the log; the same object while no commit has changed them."""
        state, known = self.job.log.state, self._positions_of
        is_same = known is not None and (
            state.positions is known.positions and state.topics is known.topics
        )
        if not is_same:
            self._positions = positions_now(state)
        self._positions_of = state
        return self._positions

    def _commit_group(self, positions: Mapping[TopicPartition, int]) -> None:
        if self._in_group[0] is positions and self._in_group[1] == self._topics:
            return
        chosen = {key: at for key, at in positions.items() if key[0] in self._topics}
        if self._group.commit(chosen):
            self._in_group = positions, self._topics


def format_gap(gap: Gap) -> str:
    """Return topic, partition, the first and the last offset of a gap, and its reason."""
    pid, lost = gap.partition_id, gap.range
    return (
        f"{pid.topic}-{pid.partition}: offsets {lost.start} to {lost.end - 1} inclusive "
        f"({len(lost)} in all): {gap.reason}"
    )


def _preview(options: BackupOptions, admin: Admin, store: ObjectStore) -> Preview | None:
    """Return the preview that finds bad records early, if a bad record stops this sink."""
    if options.sink is None:
        return None
    sink = options.sink.options
    if sink.errors.errors_tolerance == "all":
        return None
    return Preview(admin.wire, sink, store.key_limits, now_ms)
