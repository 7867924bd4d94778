"""The worker that leads: the loop that keeps its lease, and the state that operations change.

Every worker runs the loop. It keeps or watches the lease, and runs connectors while it holds it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.model import Connector, ConnectorStatus, RestError, TargetState
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.service.journal import Journal
from kafkeep.connect.service.lease import Heartbeat, Lease
from kafkeep.connect.service.loggers import Loggers
from kafkeep.connect.service.state import ServiceState, StateChange
from kafkeep.connect.service.supervisor import Supervisor
from kafkeep.errors import KafkeepError

logger = logging.getLogger(__name__)

STOP_SECONDS = 60.0
_TICK_S = 0.2
"""How soon jobs stop when the lease is lost; also the shortest time between two heartbeats."""
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' "
    "endpoint"
)


class Leader:
    """Everything an operation needs. Used from any thread, while this worker leads."""

    def __init__(
        self,
        loop: LeaderLoop,
        definitions: Definitions,
        context_for: Callable[[Mapping[str, str]], JobContext],
        loggers: Loggers,
    ) -> None:
        self._loop = loop
        self._definitions = definitions
        self._loggers = loggers
        self._locks: dict[str, threading.Lock] = {}
        self.context_for = context_for

    @property
    def runs(self) -> RunBoard:
        """The runs, which only this worker changes."""
        return self._loop.runs

    def find(self, name: str) -> Connector | None:
        """Return a connector as it is stored, None when there is none."""
        return self._loop.journal.state.connectors.get(name)

    def need(self, name: str, otherwise: str) -> Connector:
        """Return a connector; 404 with the message ``otherwise`` when there is none."""
        connector = self.find(name)
        if connector is None:
            raise RestError(404, otherwise)
        return connector

    def status(self, connector: Connector) -> ConnectorStatus:
        """Return what a connector and its tasks are doing."""
        return self._loop.supervisor.status(connector)

    def check(
        self, name: str, config: Mapping[str, str], stored: Connector | None
    ) -> dict[str, str]:
        """Return the configuration to store, with masks filled in; 400 lists what is wrong."""
        return self._definitions.checked(name, config, stored.config if stored else None)

    def commit(self, decide: Callable[[ServiceState], StateChange | None]) -> ServiceState:
        """Commit the change that ``decide`` returns for the newest state, and apply it to jobs."""
        return self._loop.commit(decide)

    def restart(self, connector: Connector) -> None:
        """Restart the connector's job and publish its state soon."""
        self._loop.supervisor.restart(connector)
        self._loop.publish_soon()

    def reset_topics(self, name: str) -> None:
        """Forget the active topics of a connector."""
        self._loop.reset_topics(name)

    def set_logger_everywhere(self, logger: str, level: str) -> None:
        """Set a logger here and publish the level to the other workers."""
        self._loggers.set_everywhere(logger, level)
        self._loop.publish_soon()

    def lock(self, name: str, otherwise: str) -> threading.Lock:
        """Return the lock that keeps a connector from being started while its offsets move."""
        self.need(name, otherwise)
        return self._locks.setdefault(name, threading.Lock())

    def stopped_config(self, name: str, otherwise: str) -> dict[str, str]:
        """Return the resolved configuration of a connector whose job has ended.

        400 for a connector that is not stopped, 409 when its job does not end in time.
        """
        connector = self.need(name, otherwise)
        if connector.target is not TargetState.STOPPED:
            raise RestError(400, NOT_STOPPED.format(name=name))
        if not self._loop.supervisor.wait_ended(name, STOP_SECONDS):
            raise RestError(
                409,
                f"Failed to modify offsets for connector {name} because its tasks haven't stopped "
                "completely yet. This operation can be safely retried",
            )
        return self._definitions.resolve(connector.config)


class LeaderLoop:
    """Three threads: one keeps the lease, one makes jobs match the journal, one stops jobs.

    The third thread exists because a store that does not answer blocks the other two, and just then
    jobs must stop in time.
    """

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        supervisor: Supervisor,
        runs: RunBoard,
        on_heartbeat: Callable[[Heartbeat], None] = lambda _heartbeat: None,
    ) -> None:
        """Create it; ``on_heartbeat`` gets the heartbeats of a leader that is another worker."""
        self.journal, self.lease, self.supervisor = journal, lease, supervisor
        self.runs = runs
        self._on_heartbeat = on_heartbeat
        self._closing = threading.Event()
        self._heartbeat_due = threading.Event()
        self._changed = threading.Lock()
        self._leads = False
        self._threads = [
            threading.Thread(target=self._keep_lease, name="lease", daemon=True),
            threading.Thread(target=self._keep_jobs, name="jobs", daemon=True),
            threading.Thread(target=self._stop_in_time, name="stop", daemon=True),
        ]

    def start(self) -> None:
        """Start the threads; from now on the lease is taken or watched."""
        for thread in self._threads:
            thread.start()

    def leads(self) -> bool:
        """Return True when this worker runs the connectors and has read their state."""
        return self._leads and self.lease.holds()

    def publish_soon(self) -> None:
        """Send the next heartbeat early, so that other workers learn of a change."""
        self._heartbeat_due.set()

    def commit(self, decide: Callable[[ServiceState], StateChange | None]) -> ServiceState:
        """Change the state and the jobs with it; only for a worker that leads."""
        with self._changed:
            state = self.journal.commit(decide)
            if self.leads():
                self.supervisor.reconcile(state.connectors.values())
        self.publish_soon()
        return state

    def reset_topics(self, name: str) -> None:
        """Forget a connector's active topics, in the state and in its job."""
        with self._changed:
            self.journal.commit(lambda _: StateChange(kind="topics", name=name))
            progress = self.supervisor.progress().get(name)
            if progress is not None:
                progress.topics = set()

    def close(self, timeout_s: float) -> bool:
        """Stop all jobs and runs, then release the lease; False when some did not end in time."""
        deadline = time.monotonic() + timeout_s
        self.runs.stop_soon()
        ended = self.supervisor.close(timeout_s)
        ended = self.runs.close(deadline - time.monotonic()) and ended
        self._closing.set()
        self._heartbeat_due.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout_s)
        if ended:
            self.lease.release()
        return ended

    def _keep_lease(self) -> None:
        while not self._closing.is_set():
            try:
                self.lease.step()
                heartbeat = self.lease.leader()
                if heartbeat is not None and not self.lease.holds():
                    self._on_heartbeat(heartbeat)
            except KafkeepError as error:
                logger.warning("cannot keep the lease: %s", error.message)
            except Exception:  # without this thread no worker would lead, or know the leader
                logger.exception("cannot keep the lease")
            if self._heartbeat_due.wait(self.lease.interval_s):
                self._closing.wait(_TICK_S)
                self._heartbeat_due.clear()

    def _keep_jobs(self) -> None:
        ticks = max(1, round(self.lease.interval_s / _TICK_S))
        count = 0
        while not self._closing.wait(_TICK_S):
            if self.lease.holds() and (not self._leads or count % ticks == 0):
                self._run_connectors()
            count += 1

    def _stop_in_time(self) -> None:
        """Stop jobs while another worker holds the lease, also those started as it was lost."""
        while not self._closing.wait(_TICK_S):
            if not self.lease.holds():
                self._leads = False
                self.supervisor.stop_all()
                self.runs.stop_all()

    def _run_connectors(self) -> None:
        """Start what the state asks for, and store topics that are new."""
        try:
            with self._changed:
                state = self.journal.refresh()
                if self.lease.holds():
                    self._leads = True
                    self.supervisor.reconcile(state.connectors.values())
                    self._store_topics(state)
            if self._leads:
                self.runs.reconcile()
        except KafkeepError as error:
            logger.warning("cannot read the state of the service: %s", error.message)
        except Exception:  # without this thread the worker would hold the lease and run nothing
            logger.exception("cannot make connectors match the state of the service")

    def _store_topics(self, state: ServiceState) -> None:
        for name, progress in self.supervisor.progress().items():
            known = set(state.topics.get(name, ()))
            if name in state.connectors and not set(progress.topics) <= known:
                topics = tuple(sorted(known | set(progress.topics)))
                self.journal.commit(
                    _with_topics(StateChange(kind="topics", name=name, topics=topics))
                )


def _with_topics(change: StateChange) -> Callable[[ServiceState], StateChange]:
    return lambda _state: change
