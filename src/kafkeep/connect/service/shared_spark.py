"""The one Spark session of a service, started by the first job that has tasks to run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafkeep import preload
from kafkeep.errors import EnvironmentFault, KafkeepError, TransientError
from kafkeep.options.spark import SparkOptions, expected_slots
from kafkeep.spark.failure import ApplicationEndedError

if TYPE_CHECKING:
    from kafkeep.spark.background_session import BackgroundSession

DYING_S = 5.0
"""How long to watch whether the JVM dies after its connection broke."""


class SharedSpark:
    """Runs the tasks of all connectors in one session, from any thread.

    After a JVM died, the next job starts a new session. What the dead one was running fails with a
    TransientError, and its caller tries again.
    """

    def __init__(self, options: SparkOptions) -> None:
        self._options = options.with_preload(preload.SERVICE)
        self._lock = threading.Lock()
        self._session: BackgroundSession | None = None
        self._is_closed = False

    def slots(self) -> int:
        """Return how many tasks run at once now; a session that has not started is not awaited.

        Then it is what the options promise.
        """
        with self._lock:
            running = self._session.running() if self._session is not None else None
        if running is not None:
            with suppress(Exception):  # its JVM may be dying; the job itself reports that
                return running.slots()
        return expected_slots(self._options)

    def run_tasks(
        self,
        bundles: Sequence[Any],
        task: Callable[..., Any],
        *,
        label: str,
        description: str = "",
        pool: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        stop: threading.Event | None = None,
        abandoned: threading.Event | None = None,
    ) -> list[Any]:
        """Run ``task`` on each bundle: see ``spark.tasks.run_tasks``. No bundles, no session."""
        if not bundles:
            return []
        session = self._open()
        try:
            return list(
                session.session().run_tasks(
                    *(bundles, task),
                    label=label,
                    description=description,
                    pool=pool,
                    on_progress=on_progress,
                    stop=stop,
                    abandoned=abandoned,
                )
            )
        except Exception as error:
            # The connections of a killed JVM break before the process is gone.
            if self._forget_if_dead(session, DYING_S if _is_of_spark(error) else 0.0):
                why, hint = "Spark's JVM has died", None
                if isinstance(error, EnvironmentFault | ApplicationEndedError):
                    why, hint = error.message, error.hint
                raise TransientError(f"{label}: {why}; a new one is started", hint=hint) from error
            raise

    def close(self) -> None:
        """Stop the session, if there is one."""
        with self._lock:
            self._is_closed = True
            session, self._session = self._session, None
        if session is not None:
            session.__exit__(None, None, None)

    def _open(self) -> BackgroundSession:
        from kafkeep.spark.background_session import BackgroundSession  # noqa: PLC0415 - idle services need no pyspark

        with self._lock:
            if self._is_closed:
                raise RuntimeError("the service is closing")
            if self._session is None:
                self._session = BackgroundSession(self._options).__enter__()
            return self._session

    def _forget_if_dead(self, session: BackgroundSession, timeout_s: float) -> bool:
        """Return True when the JVM is gone; the first to notice closes the session."""
        if session.is_alive(timeout_s):
            return False
        with self._lock:
            is_first = self._session is session
            if is_first:
                session.__exit__(None, None, None)
                self._session = None
        return True


def _is_of_spark(error: Exception) -> bool:
    """Return True when Spark itself failed, not a task with an error of its own."""
    return type(error) is KafkeepError or not isinstance(error, KafkeepError)
