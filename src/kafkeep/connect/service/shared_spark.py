"""The one Spark session of a service: started by the first job with something to run, then kept."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafkeep.errors import EnvironmentFault, KafkeepError, TransientError
from kafkeep.options.spark import SparkOptions, usable_cores
from kafkeep.spark.failure import ApplicationEndedError
from kafkeep.spark.preload import with_sinks

if TYPE_CHECKING:
    from kafkeep.spark.background_session import BackgroundSession

DYING_S = 5.0
"""How long to see whether a JVM is dying, when its connection broke."""
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


class SharedSpark:
    """Hands bundles of all connectors to one session, from any thread.

    A session whose JVM died is started anew by the next job; what it was running fails, and is
    tried again by whoever asked.
    """

    def __init__(self, options: SparkOptions) -> None:
        self._options = with_sinks(options)
        self._lock = threading.Lock()
        self._door: BackgroundSession | None = None
        self._is_closed = False

    @property
    def cores(self) -> int:
        """How many tasks run at once, as far as the options tell; Spark is not asked."""
        local = _LOCAL.fullmatch(self._options.master) if self._options.remote is None else None
        if local is not None:
            count = local[1] or "1"
            return usable_cores() if count == "*" else max(1, int(count))
        told = self._options.conf.get("spark.default.parallelism", "")
        return int(told) if told.isdigit() and int(told) else usable_cores()

    def run_tasks(
        self,
        bundles: Sequence[Any],
        task: Callable[..., Any],
        *,
        label: str,
        pool: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        stop: threading.Event | None = None,
    ) -> list[Any]:
        """Run ``task`` on each bundle: see ``spark.tasks.run_tasks``; nothing costs nothing."""
        if not bundles:
            return []
        door = self._open()
        try:
            return list(
                door.session().run_tasks(
                    bundles, task, label=label, pool=pool, on_progress=on_progress, stop=stop
                )
            )
        except Exception as error:
            # Its connections break before a JVM that was killed is gone.
            if self._forget_if_dead(door, DYING_S if _is_of_spark(error) else 0.0):
                why, hint = "Spark's JVM has died", None
                if isinstance(error, EnvironmentFault | ApplicationEndedError):
                    why, hint = error.message, error.hint
                raise TransientError(f"{label}: {why}; a new one is started", hint=hint) from error
            raise

    def close(self) -> None:
        """Stop the session, if it was ever started."""
        with self._lock:
            self._is_closed = True
            door, self._door = self._door, None
        if door is not None:
            door.__exit__(None, None, None)

    def _open(self) -> BackgroundSession:
        from kafkeep.spark.background_session import BackgroundSession  # noqa: PLC0415 - idle services need no pyspark

        with self._lock:
            if self._is_closed:
                raise RuntimeError("the service is closing")
            if self._door is None:
                self._door = BackgroundSession(self._options).__enter__()
            return self._door

    def _forget_if_dead(self, door: BackgroundSession, patience_s: float) -> bool:
        """Tell whether the JVM is gone; the first to notice clears away what is left of it."""
        if door.is_alive(patience_s):
            return False
        with self._lock:
            is_first = self._door is door
            if is_first:
                door.__exit__(None, None, None)
                self._door = None
        return True


def _is_of_spark(error: Exception) -> bool:
    """Tell whether Spark itself failed, not a task that says why."""
    return type(error) is KafkeepError or not isinstance(error, KafkeepError)
