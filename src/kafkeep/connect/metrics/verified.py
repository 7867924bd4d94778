"""When each connector's archive was last verified, asked for in the background now and then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from kafkeep.connect.definitions import Definitions
from kafkeep.connect.job import Surroundings
from kafkeep.connect.model import Connector, RestError
from kafkeep.errors import KafkeepError

Read = Callable[[Connector], int | None]
LOOK_EVERY_MS = 300_000
logger = logging.getLogger(__name__)


def reader(
    definitions: Definitions, surroundings: Callable[[Mapping[str, str]], Surroundings]
) -> Read:
    """Return what finds the newest trace of a verify in a connector's archive."""

    def read(connector: Connector) -> int | None:
        from kafkeep.connect.jobs.offsets import read_verified  # noqa: PLC0415 - rarely needed

        config = definitions.resolve(connector.config)
        return read_verified(connector.name, config, surroundings(config))

    return read


class LastVerified:
    """Remembers what ``read`` tells of a connector; a page of metrics never waits for the store."""

    def __init__(self, read: Read, now_ms: Callable[[], int]) -> None:
        self._read = read
        self._now_ms = now_ms
        self._known: dict[str, int] = {}
        self._looked_ms = -LOOK_EVERY_MS
        self._lock = threading.Lock()

    def of(self, connectors: Mapping[str, Connector]) -> Mapping[str, int]:
        """Return what is known of these, and see to it that more is known next time."""
        with self._lock:
            if connectors and self._now_ms() - self._looked_ms >= LOOK_EVERY_MS:
                self._looked_ms = self._now_ms()
                threading.Thread(
                    target=self._look, args=(dict(connectors),), name="last-verified", daemon=True
                ).start()
            return {name: at for name, at in self._known.items() if name in connectors}

    def _look(self, connectors: Mapping[str, Connector]) -> None:
        for name, connector in connectors.items():
            try:
                at_ms = self._read(connector)
            except (KafkeepError, RestError) as error:
                logger.debug("%s: when it was verified is not known: %s", name, error)
                continue
            if at_ms is not None:
                with self._lock:
                    self._known[name] = at_ms
