"""What a worker does all the time: keep or watch the lease, run connectors while it holds it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kafkeep.connect.service.journal import Journal
from kafkeep.connect.service.lease import Heartbeat, Lease
from kafkeep.connect.service.state import ServiceState, StateChange
from kafkeep.connect.service.supervisor import Supervisor
from kafkeep.errors import KafkeepError

_TICK_S = 0.2
"""How soon jobs stop when the lease is lost; also the shortest time between two beats."""
logger = logging.getLogger(__name__)


class LeaderLoop:
    """Three threads: one beats or watches, one makes jobs agree with the journal, one stops them.

    The last is on its own because a store that does not answer holds up the others, and just then
    the jobs must be stopped in time.
    """

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        supervisor: Supervisor,
        on_beat: Callable[[Heartbeat], None] = lambda _beat: None,
    ) -> None:
        """Make one; ``on_beat`` hears the worker that leads, when it is another one."""
        self.journal, self.lease, self.supervisor = journal, lease, supervisor
        self._on_beat = on_beat
        self._closing = threading.Event()
        self._beat_now = threading.Event()
        self._changed = threading.Lock()
        self._leads = False
        self._threads = [
            threading.Thread(target=self._keep_lease, name="lease", daemon=True),
            threading.Thread(target=self._keep_jobs, name="jobs", daemon=True),
            threading.Thread(target=self._stop_in_time, name="stop", daemon=True),
        ]

    def start(self) -> None:
        """Begin; the lease is taken or watched from now on."""
        for thread in self._threads:
            thread.start()

    def leads(self) -> bool:
        """Tell whether this worker runs the connectors, and knows the state it runs them by."""
        return self._leads and self.lease.holds()

    def beat_soon(self) -> None:
        """Tell the others of a change without waiting for the next beat."""
        self._beat_now.set()

    def commit(self, decide: Callable[[ServiceState], StateChange | None]) -> ServiceState:
        """Change the state and what runs with it; only for a worker that leads."""
        with self._changed:
            state = self.journal.commit(decide)
            if self.leads():
                self.supervisor.reconcile(state.connectors.values())
        self.beat_soon()
        return state

    def reset_topics(self, name: str) -> None:
        """Forget a connector's active topics: those stored, and those its job has noted."""
        with self._changed:
            self.journal.commit(lambda _: StateChange(kind="topics", name=name))
            progress = self.supervisor.progress().get(name)
            if progress is not None:
                progress.topics = set()

    def close(self, timeout_s: float) -> bool:
        """Stop all work, then give the lease up; False when some job did not end in time."""
        ended = self.supervisor.close(timeout_s)
        self._closing.set()
        self._beat_now.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout_s)
        if ended:
            self.lease.give_up()
        return ended

    def _keep_lease(self) -> None:
        while not self._closing.is_set():
            try:
                self.lease.step()
                beat = self.lease.leader()
                if beat is not None and not self.lease.holds():
                    self._on_beat(beat)
            except KafkeepError as error:
                logger.warning("the lease: %s", error.message)
            except Exception:  # without this thread nobody would lead, or know who does
                logger.exception("the lease cannot be kept")
            if self._beat_now.wait(self.lease.interval_s):
                self._closing.wait(_TICK_S)
                self._beat_now.clear()

    def _keep_jobs(self) -> None:
        ticks = max(1, round(self.lease.interval_s / _TICK_S))
        count = 0
        while not self._closing.wait(_TICK_S):
            if self.lease.holds() and (not self._leads or count % ticks == 0):
                self._look()
            count += 1

    def _stop_in_time(self) -> None:
        """Stop everything while the lease is not ours, also what was started just as it went."""
        while not self._closing.wait(_TICK_S):
            if not self.lease.holds():
                self._leads = False
                self.supervisor.stop_all()

    def _look(self) -> None:
        """Take up the work, or what another writer changed meanwhile; note new topics."""
        try:
            with self._changed:
                state = self.journal.refresh()
                if self.lease.holds():
                    self._leads = True
                    self.supervisor.reconcile(state.connectors.values())
                    self._note_topics(state)
        except KafkeepError as error:
            logger.warning("the state of the service cannot be read: %s", error.message)
        except Exception:  # without this thread the lease would be held and nothing run
            logger.exception("the connectors cannot be made to agree with the state")

    def _note_topics(self, state: ServiceState) -> None:
        for name, progress in self.supervisor.progress().items():
            known = set(state.topics.get(name, ()))
            if name in state.connectors and not set(progress.topics) <= known:
                topics = tuple(sorted(known | set(progress.topics)))
                self.journal.commit(
                    _with_topics(StateChange(kind="topics", name=name, topics=topics))
                )


def _with_topics(change: StateChange) -> Callable[[ServiceState], StateChange]:
    return lambda _state: change
