"""The service: what the REST API asks, answered from the journal, the lease and what runs here.

A worker that leads answers from its own jobs. Another one answers from the journal and the leader's
last beat, and sends everything that changes something to the leader.

What changes something, done by the worker that leads: this one, or another that is asked.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import urllib3

from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.metrics.own_metrics import LastVerified, reader
from kafkeep.connect.metrics.totals import Totals
from kafkeep.connect.model import (
    Connector,
    ConnectorStatus,
    ConnectorType,
    Json,
    RestError,
    RunState,
    TargetState,
    TaskStatus,
)
from kafkeep.connect.plugins.classes import definitions, find_any_plugin, list_plugins
from kafkeep.connect.plugins.definitions import Definitions
from kafkeep.connect.plugins.key_info import VERSION
from kafkeep.connect.plugins.validate import CLASS
from kafkeep.connect.service.forward import NO_LEADER, RemoteOperations
from kafkeep.connect.service.leader_loop import LeaderLoop
from kafkeep.connect.service.loggers import Loggers
from kafkeep.connect.service.operations import LocalOperations, Operations
from kafkeep.connect.worker.keys import TrackingOptions
from kafkeep.errors import KafkeepError, UsageError
from kafkeep.retry import LEADER
from kafkeep.spark.jvm import read_jvm


class LeaderOperations:
    """``Operations`` wherever the leader is; ``answered`` is called when another one answered."""

    def __init__(
        self, loop: LeaderLoop, local: LocalOperations, token: str, tls: ssl.SSLContext | None
    ) -> None:
        self._loop = loop
        self._local = local
        self._token = token
        self._pool = urllib3.PoolManager(maxsize=8, ssl_context=tls)

    def close(self) -> None:
        """Close connections to other workers."""
        self._pool.clear()

    def answered(self) -> None:
        """Hear that another worker has changed something."""

    def local_operations(self) -> Operations:
        """Return the operations of this worker; 409 when it does not lead."""
        if not self._loop.leads():
            raise RestError(409, NO_LEADER)
        return self._local

    def _operations(self) -> Operations:
        """Return those of the worker that leads; one that is just beginning is waited for."""
        retries = LEADER.begin()
        while not self._loop.leads():
            leader = self._loop.lease.leader()
            if leader is not None and not self._loop.lease.holds():
                return RemoteOperations(self._pool, leader.url, self._token, self.answered)
            wait_s = retries.next_wait_s()
            if wait_s is None:
                raise RestError(409, NO_LEADER)
            time.sleep(wait_s)
        return self._local

    def create(self, name: str, config: Mapping[str, str], initial: TargetState) -> Connector:
        """Define a connector."""
        return self._operations().create(name, config, initial)

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[Connector, bool]:
        """Define or change it."""
        return self._operations().put_config(name, config)

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Connector:
        """Change some keys."""
        return self._operations().patch_config(name, changes)

    def delete(self, name: str) -> None:
        """Forget it."""
        self._operations().delete(name)

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop it."""
        self._operations().set_target(name, target)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Restart it, with its tasks or without, or only what failed."""
        return self._operations().restart(
            name, include_tasks=include_tasks, only_failed=only_failed
        )

    def restart_task(self, name: str, task: int) -> None:
        """Restart one task."""
        self._operations().restart_task(name, task)

    def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        """Move a stopped connector."""
        return self._operations().alter_offsets(name, offsets)

    def reset_offsets(self, name: str) -> str:
        """Move a stopped connector back to the beginning."""
        return self._operations().reset_offsets(name)

    def reset_topics(self, name: str) -> None:
        """Forget its topics."""
        self._operations().reset_topics(name)

    def set_logger_everywhere(self, name: str, level: str) -> None:
        """Set a logger of all workers."""
        self._operations().set_logger_everywhere(name, level)


CONNECT_VERSION = "4.1.0"
"""The version of Connect whose REST API this is: clients look at it to know what they may ask."""
_LOOK_AGAIN_S = 0.5


class Herder(LeaderOperations):
    """``Service`` over journal, lease and supervisor. Safe to use from any thread."""

    def __init__(
        self,
        *,
        loop: LeaderLoop,
        definitions: Definitions,
        context_for: Callable[[Mapping[str, str]], JobContext],
        tracking: TrackingOptions,
        totals: Totals,
        loggers: Loggers,
        token: str,
        cluster_id: Callable[[], str | None],
        now_ms: Callable[[], int],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        local = LocalOperations(loop, definitions, context_for, loggers)
        super().__init__(loop, local, token, tls)
        self._definitions = definitions
        self._context_for = context_for
        self._tracking = tracking
        self._totals = totals
        self._cluster_id = cluster_id
        self._now_ms = now_ms
        self._loggers = loggers
        self._verified = LastVerified(reader(definitions, context_for), now_ms)
        self._looked_at = -_LOOK_AGAIN_S
        self._looking = threading.Lock()

    def answered(self) -> None:
        """Let what is asked next see what was changed just now."""
        self._looked_at = -_LOOK_AGAIN_S

    def _connectors(self) -> Mapping[str, Connector]:
        if not self._loop.leads():
            self._look()
        return self._loop.journal.state.connectors

    def _look(self) -> None:
        """Read what the leader did, if that was not done just now."""
        with self._looking:
            if time.monotonic() - self._looked_at <= _LOOK_AGAIN_S:
                return
            # Set first: what is answered while we read may be missing from what we read.
            self._looked_at = time.monotonic()
            try:
                self._loop.lease.look()
                self._loop.journal.refresh()
            except KafkeepError:
                self.answered()
                raise

    def _found(self, name: str, otherwise: str = "Connector {name} not found") -> Connector:
        connector = self._connectors().get(name)
        if connector is None:
            raise RestError(404, otherwise.format(name=name))
        return connector

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
        """Return a connector as it was defined."""
        return self._found(name)

    def type_of(self, name: str) -> ConnectorType:
        """Tell whether it is a sink or a source."""
        return self._definitions.describe(self._found(name).config).type

    def status(self, name: str) -> ConnectorStatus:
        """Return what it is doing."""
        return self._status(self._found(name, "No status found for connector {name}"))

    def _status(self, connector: Connector) -> ConnectorStatus:
        status = self._loop.supervisor.status(connector)
        if self._loop.leads() or connector.target is TargetState.STOPPED:
            return status
        leader = self._loop.lease.leader()
        told = leader.statuses if leader is not None else ()
        found = next((one for one in told if one.name == connector.name), status)
        return _caught_up(found, connector)

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
        """Return the topics it has read or written since it was made or they were reset."""
        self._check_tracking(self._tracking.topic_tracking_enable, "Topic tracking is disabled.")
        self._found(name)
        known = set(self._loop.journal.state.topics.get(name, ()))
        progress = self._loop.supervisor.progress().get(name) if self._loop.leads() else None
        return sorted(known | set(progress.topics if progress is not None else ()))

    def reset_topics(self, name: str) -> None:
        """Forget these."""
        self._check_tracking(self._tracking.topic_tracking_enable, "Topic tracking is disabled.")
        allowed = self._tracking.topic_tracking_allow_reset
        self._check_tracking(allowed, "Topic tracking reset is disabled.")
        super().reset_topics(name)

    def _check_tracking(self, allowed: bool, otherwise: str) -> None:
        if not allowed:
            raise RestError(403, otherwise)

    def offsets(self, name: str) -> list[Json]:
        """Return what it has an offset of; any worker can read that."""
        from kafkeep.connect.jobs.sink_offsets import read_offsets  # noqa: PLC0415 - rarely needed

        config = self._definitions.resolve(self._found(name).config)
        return list(read_offsets(name, config, self._context_for(config)))

    def plugins(self, *, connectors_only: bool) -> list[Json]:
        """Return class, type and version of each."""
        return list_plugins(connectors_only)

    def plugin_config(self, plugin: str) -> list[Json]:
        """Return the definitions of a plugin's keys."""
        try:
            return definitions(find_any_plugin(plugin))
        except UsageError as error:
            raise RestError(404, error.message) from error

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Json:
        """Say what is right and wrong with a configuration."""
        return self._definitions.validate(plugin, config)

    def loggers(self) -> Json:
        """Return the level of each logger that was set."""
        return self._loggers.all()

    def logger(self, name: str) -> Json:
        """Return one logger's level."""
        return self._loggers.one(name)

    def set_logger(self, name: str, level: str) -> list[str]:
        """Set a logger and those under it, on this worker."""
        return self._loggers.set(name, level)

    def set_logger_everywhere(self, name: str, level: str) -> None:
        """Set it on every worker: on the one that leads, which tells the others; here at once."""
        super().set_logger_everywhere(name, level)
        self._loggers.set(name, level)

    def answers_from_memory(self) -> bool:
        """Tell whether looking at connectors asks nobody: a worker that leads knows them all."""
        return self._loop.leads()

    def metrics(self) -> str:
        """Return all metrics as text."""
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
            verified_ms=self._verified.of(connectors) if self._loop.leads() else {},
            jvm=read_jvm(),
        )
        statuses = [self._status(connectors[name]) for name in sorted(connectors)]
        return render(statuses, self._loop.supervisor.progress(), facts)

    def health(self) -> Json:
        """Say how this worker is: whether it leads or knows who does, and which connectors fail."""
        leader = self._loop.lease.leader()
        connectors = dict(self._loop.journal.state.connectors)
        statuses = [self._status(one) for one in connectors.values()]
        failed = sorted(one.name for one in statuses if _has_failed(one))
        return {
            "status": "healthy" if leader is not None else "starting",
            "leader": leader.worker_id if leader is not None else None,
            "is_leader": self._loop.leads(),
            "connectors": len(connectors),
            "failed": failed,
        }

    def is_ready(self) -> bool:
        """Tell whether connectors can be run or are run by another worker.

        Asks nobody: a probe that waits for the store would keep others from being answered.
        """
        lease = self._loop.lease
        return self._loop.leads() or (lease.leader() is not None and not lease.holds())


def _caught_up(status: ConnectorStatus, connector: Connector) -> ConnectorStatus:
    """Return a status that the leader told before it changed the connector, as it will be.

    One that is made anew and paused never ran, whatever one of its name did before.
    """
    if (
        status.generation in (None, connector.generation)
        or connector.target is not TargetState.PAUSED
    ):
        return status
    tasks = tuple(replace(task, state=RunState.PAUSED, trace=None) for task in status.tasks)
    return replace(status, state=RunState.PAUSED, trace=None, tasks=tasks)


def _has_failed(status: ConnectorStatus) -> bool:
    return RunState.FAILED in (status.state, *(task.state for task in status.tasks))
