"""The herder: the service behind the REST API, over the journal, the lease and the jobs.

The herder of the worker that leads answers from its own jobs. Another worker answers from the
journal and the leader's last heartbeat, and forwards every change to the leader.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from kafkeep.connect.catalog.archives.archives import ArchiveLog, ArchivePlace, Archives
from kafkeep.connect.catalog.archives.stored_objects import StoredObject, newest_objects
from kafkeep.connect.catalog.catalog import Catalog, archive_places
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.registries import registry_places
from kafkeep.connect.catalog.schemas import SchemaCatalog
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.metrics.totals import Totals
from kafkeep.connect.model import (
    Connector,
    ConnectorStatus,
    ConnectorType,
    Json,
    RestError,
    TargetState,
    TaskStatus,
)
from kafkeep.connect.plugins.classes import VERSION, definitions, find_any_plugin, list_plugins
from kafkeep.connect.plugins.validate import CLASS, Definitions
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.restore import RestoreRuns
from kafkeep.connect.service.archive_growth import ArchiveGrowth, log_of
from kafkeep.connect.service.connector_offsets import ConnectorOffsets
from kafkeep.connect.service.forward import NO_LEADER, Forwarder
from kafkeep.connect.service.leader import Leader, LeaderLoop
from kafkeep.connect.service.loggers import Loggers
from kafkeep.connect.service.operations import Operation
from kafkeep.connect.service.overview import (
    GrowthPoint,
    ServiceOverview,
    WorkerSettings,
    caught_up,
    health_of,
)
from kafkeep.connect.service.overview_reader import OverviewReader
from kafkeep.connect.worker.keys import TrackingOptions
from kafkeep.errors import KafkeepError, UsageError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.restore.preflight import Preflight
from kafkeep.retry import LEADER
from kafkeep.spark.jvm import read_jvm

P = ParamSpec("P")
R = TypeVar("R")

CONNECT_VERSION = "4.1.0"
"""The version of Connect whose REST API this is; clients read it to know what they may call."""
_STATE_AGE_S = 0.5
"""A worker that does not lead reads the state again after this."""


class Herder:
    """``ConnectService`` over journal, lease and supervisor. Safe to use from any thread."""

    def __init__(
        self,
        *,
        loop: LeaderLoop,
        definitions: Definitions,
        context_for: Callable[[Mapping[str, str]], JobContext],
        restores: RestoreRuns,
        tracking: TrackingOptions,
        totals: Totals,
        loggers: Loggers,
        token: str,
        cluster_id: Callable[[], str | None],
        kafka: KafkaOptions,
        now_ms: Callable[[], int],
        settings: WorkerSettings | None = None,
        state: ArchivePlace | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._loop = loop
        self._leader = Leader(loop, definitions, context_for, loggers)
        self._forwarder = Forwarder(token, tls)
        self._definitions = definitions
        self.restores = restores
        self._context_for = context_for
        self._tracking = tracking
        self._totals = totals
        self._cluster_id = cluster_id
        self._now_ms = now_ms
        self._loggers = loggers
        self._settings = settings or WorkerSettings(version=VERSION)
        self._growth = ArchiveGrowth()
        archives = Archives(archive_places(self._resolved, context_for), is_watching=True)
        self.catalog = Catalog(
            cluster=LiveCluster(kafka),
            archives=archives,
            schemas=SchemaCatalog(registry_places(self._resolved, context_for), archives),
            state=state,
        )
        self._overview = OverviewReader(
            definitions=definitions,
            context_for=context_for,
            archives=archives,
            totals=totals,
            now_ms=now_ms,
        )
        self._offsets = ConnectorOffsets(definitions, context_for, archives)
        self._read_at = -_STATE_AGE_S
        self._reading = threading.Lock()

    @property
    def runs(self) -> RunBoard:
        """Restores and other long work, to read; operations change them."""
        return self._loop.runs

    def plan_restore(self, asked: Mapping[str, str]) -> Preflight:
        """Return what a restore would write, with all checks; writes nothing."""
        return self.restores.plan(self._definitions.resolve(asked))

    def close(self) -> None:
        """Close the connections to other workers and to Kafka."""
        self._forwarder.close()
        self.catalog.close()

    def change(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation on the worker that leads; 409 when none does."""
        url = self._leader_url()
        if url is None:
            return operation.run(self._leader, *args, **kwargs)
        try:
            return self._forwarder.send(url, operation, *args, **kwargs)
        finally:
            self.expire_state()

    def _leader_url(self) -> str | None:
        """Return where the leader is, None for this worker; waits for one that is starting."""
        retries = LEADER.begin()
        while not self._loop.leads():
            leader = self._loop.lease.leader()
            if leader is not None and not self._loop.lease.holds():
                return leader.url
            wait_s = retries.next_wait_s()
            if wait_s is None:
                raise RestError(409, NO_LEADER)
            time.sleep(wait_s)
        return None

    def local_leader(self) -> Leader:
        """Return what operations of other workers run on; 409 when this worker does not lead."""
        if not self._loop.leads():
            raise RestError(409, NO_LEADER)
        return self._leader

    def expire_state(self) -> None:
        """Let the next call read the state again, and so see a change that was made just now."""
        self._read_at = -_STATE_AGE_S
        self._loop.runs.expire()

    def expire_verified(self) -> None:
        """Read when archives were last verified again: one was verified just now."""
        self._overview.expire_verified()

    def _connectors(self) -> Mapping[str, Connector]:
        if not self._loop.leads():
            self._read_state()
        return self._loop.journal.state.connectors

    def _read_state(self) -> None:
        """Read what the leader changed, unless that was done a moment ago."""
        with self._reading:
            if time.monotonic() - self._read_at <= _STATE_AGE_S:
                return
            # Set first: a change that is answered during the read may be missing from it.
            self._read_at = time.monotonic()
            try:
                self._loop.lease.refresh()
                self._loop.journal.refresh()
            except KafkeepError:
                self.expire_state()
                raise

    def _found(self, name: str, otherwise: str = "Connector {name} not found") -> Connector:
        connector = self._connectors().get(name)
        if connector is None:
            raise RestError(404, otherwise.format(name=name))
        return connector

    def _resolved(self) -> dict[str, dict[str, str]]:
        """Return the configurations in use, without those whose secrets cannot be read."""
        found = {}
        for name, connector in self._connectors().items():
            try:
                found[name] = dict(self._definitions.resolve(connector.config))
            except KafkeepError:
                continue
        return found

    def root(self) -> Json:
        """Return version, commit and kafka_cluster_id."""
        return {
            "version": f"{CONNECT_VERSION}-kafkeep-{VERSION}",
            "commit": "unknown",
            "kafka_cluster_id": self._cluster_id(),
        }

    def names(self) -> list[str]:
        """Return the names of all connectors."""
        return sorted(self._connectors())

    def connector(self, name: str) -> Connector:
        """Return a connector as it is defined."""
        return self._found(name)

    def type_of(self, name: str) -> ConnectorType:
        """Return whether it is a sink or a source."""
        return self._definitions.describe(self._found(name).config).type

    def status(self, name: str) -> ConnectorStatus:
        """Return the state of a connector and its tasks."""
        return self._status(self._found(name, "No status found for connector {name}"))

    def _status(self, connector: Connector) -> ConnectorStatus:
        status = self._loop.supervisor.status(connector)
        if self._loop.leads() or connector.target is TargetState.STOPPED:
            return status
        leader = self._loop.lease.leader()
        published = leader.statuses if leader is not None else ()
        found = next((one for one in published if one.name == connector.name), status)
        return caught_up(found, connector)

    def task_configs(self, name: str) -> list[Mapping[str, str]]:
        """Return the configuration of each task; all tasks have the same."""
        connector = self._found(name)
        config = connector.config
        task_class = config.get(CLASS, "").removesuffix("Connector") + "Task"
        count = len(self._status(connector).tasks)
        return [{**config, "task.class": task_class} for _ in range(count)]

    def task_status(self, name: str, task: int) -> TaskStatus:
        """Return one task's status."""
        connector = self._connectors().get(name)
        tasks = self._status(connector).tasks if connector is not None else ()
        if task >= len(tasks):
            raise RestError(404, f"No status found for task {name}-{task}")
        return tasks[task]

    def topics(self, name: str) -> list[str]:
        """Return the topics a connector has used since it was created or they were reset."""
        self._check_tracking(self._tracking.topic_tracking_enable, "Topic tracking is disabled.")
        self._found(name)
        known = set(self._loop.journal.state.topics.get(name, ()))
        progress = self._loop.supervisor.progress().get(name) if self._loop.leads() else None
        return sorted(known | set(progress.topics if progress is not None else ()))

    def check_topics_reset(self) -> None:
        """Refuse with 403 unless this worker tracks topics and allows a reset."""
        self._check_tracking(self._tracking.topic_tracking_enable, "Topic tracking is disabled.")
        allowed = self._tracking.topic_tracking_allow_reset
        self._check_tracking(allowed, "Topic tracking reset is disabled.")

    def _check_tracking(self, allowed: bool, otherwise: str) -> None:
        if not allowed:
            raise RestError(403, otherwise)

    def offsets(self, name: str) -> list[Json]:
        """Return a connector's offsets; any worker can read them."""
        return self._offsets.all(self._found(name))

    def offset_page(
        self, name: str, start: int, count: int, *, max_age_s: float | None = None
    ) -> tuple[list[Json], int]:
        """Return some of a connector's offsets, and how many there are."""
        return self._offsets.page(self._found(name), start, count, max_age_s)

    def plugins(self, *, connectors_only: bool) -> list[Json]:
        """Return class, type and version of each plugin."""
        return list_plugins(connectors_only)

    def plugin_config(self, plugin: str) -> list[Json]:
        """Return the definitions of a plugin's keys."""
        try:
            return definitions(find_any_plugin(plugin))
        except UsageError as error:
            raise RestError(404, error.message) from error

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Json:
        """Return the verdict on a configuration, key by key."""
        return self._definitions.validate(plugin, config)

    def loggers(self) -> Json:
        """Return the level of each logger that has one."""
        return self._loggers.all()

    def logger(self, name: str) -> Json:
        """Return one logger's level."""
        return self._loggers.one(name)

    def set_logger(self, name: str, level: str) -> list[str]:
        """Set a logger and those below it, on this worker."""
        return self._loggers.set(name, level)

    def answers_from_memory(self) -> bool:
        """Return True while this worker leads: then it has all connectors in memory."""
        return self._loop.leads()

    def metrics(self) -> str:
        """Return all metrics in Prometheus's text format."""
        from kafkeep.connect.metrics.page import WorkerFacts, render  # noqa: PLC0415

        connectors = dict(self._loop.journal.state.connectors)
        leader = self._loop.lease.leader()
        facts = WorkerFacts(
            totals=self._totals,
            now_ms=self._now_ms(),
            version=VERSION,
            leads=self._loop.leads(),
            leader=leader.worker_id if leader is not None else "",
            rebalancing=leader is None,
            classes={name: one.config.get(CLASS, "") for name, one in connectors.items()},
            verified_ms=self._overview.verified_ms(connectors) if self._loop.leads() else {},
            jvm=read_jvm(),
        )
        statuses = [self._status(connectors[name]) for name in sorted(connectors)]
        return render(statuses, self._loop.supervisor.progress(), facts)

    def health(self) -> Json:
        """Return whether this worker leads or knows who does, and which connectors failed."""
        connectors = dict(self._loop.journal.state.connectors)
        return self._health([self._status(one) for one in connectors.values()])

    def _health(self, statuses: Sequence[ConnectorStatus]) -> Json:
        leader = self._loop.lease.leader()
        leader_id = leader.worker_id if leader is not None else None
        return health_of(statuses, leader_id, is_leader=self._loop.leads())

    def overview(self) -> ServiceOverview:
        """Return the worker's health, and state, lag and rate of each connector."""
        connectors = dict(self._connectors())
        statuses = [self._status(connectors[name]) for name in sorted(connectors)]
        progress = self._loop.supervisor.progress() if self._loop.leads() else None
        return self._overview.read(connectors, statuses, progress, self._health(statuses))

    def growth(self, name: str) -> tuple[GrowthPoint, ...]:
        """Return the size of a connector's archive over time."""
        log = self._log_of(name)
        return () if log is None else self._growth.points(log)

    def objects(self, name: str, limit: int) -> tuple[StoredObject, ...]:
        """Return the newest objects of a connector's log, the newest first."""
        log = self._log_of(name)
        return () if log is None else newest_objects(log, limit)

    def _log_of(self, name: str) -> ArchiveLog | None:
        config = self._definitions.resolve(self._found(name).config)
        context = self._context_for(config)
        return log_of(self.catalog.archives, name, config, context)

    def settings(self) -> WorkerSettings:
        """Return the configuration of this worker, with secrets masked."""
        return self._settings

    def is_ready(self) -> bool:
        """Return True when connectors run here or on another worker.

        Makes no request: a probe that waits for the store would hold up other calls.
        """
        lease = self._loop.lease
        return self._loop.leads() or (lease.leader() is not None and not lease.holds())
