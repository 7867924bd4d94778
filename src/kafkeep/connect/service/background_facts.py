"""Facts about connectors that are read from stores in the background, so that no answer waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafkeep.connect.model import Connector, TargetState
from kafkeep.errors import KafkeepError

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    value: T | None
    read_ms: int
    asked_for: tuple[int, TargetState]


class BackgroundFacts(Generic[T]):
    """Remembers one fact of each connector, and reads it again. Safe to use from any thread."""

    def __init__(
        self, read: Callable[[Connector], T | None], now_ms: Callable[[], int], every_ms: int
    ) -> None:
        """Create it; ``read`` returns None for a connector without such a fact."""
        self._read = read
        self._now_ms = now_ms
        self._every_ms = every_ms
        self._kept: dict[str, _Kept[T]] = {}
        self._is_reading = False
        self._lock = threading.Lock()

    def of(self, connectors: Mapping[str, Connector]) -> dict[str, T]:
        """Return what is known of these.

        What is old, or was read before the connector was changed, stopped or resumed, is read again
        in the background.
        """
        with self._lock:
            due = [one for one in connectors.values() if self._is_due(one)]
            if due and not self._is_reading:
                self._is_reading = True
                threading.Thread(
                    target=self._refresh, args=(due,), name="connector-facts", daemon=True
                ).start()
            return {
                name: kept.value
                for name, kept in self._kept.items()
                if name in connectors and kept.value is not None
            }

    def expire(self) -> None:
        """Let the next call read everything again."""
        with self._lock:
            self._kept = {name: _aged(kept, self._every_ms) for name, kept in self._kept.items()}

    def _is_due(self, connector: Connector) -> bool:
        kept = self._kept.get(connector.name)
        return (
            kept is None
            or kept.asked_for != _asked_for(connector)
            or self._now_ms() - kept.read_ms >= self._every_ms
        )

    def _refresh(self, connectors: list[Connector]) -> None:
        try:
            for connector in connectors:
                self._refresh_one(connector)
        finally:
            with self._lock:
                self._is_reading = False

    def _refresh_one(self, connector: Connector) -> None:
        began_ms = self._now_ms()
        try:
            value = self._read(connector)
        except KafkeepError as error:
            logger.debug("connector %s: cannot read its archive: %s", connector.name, error)
            known = self._kept.get(connector.name)
            value = known.value if known is not None else None
        with self._lock:
            self._kept[connector.name] = _Kept(value, began_ms, _asked_for(connector))


def _asked_for(connector: Connector) -> tuple[int, TargetState]:
    return connector.generation, connector.target


def _aged(kept: _Kept[T], by_ms: int) -> _Kept[T]:
    return _Kept(kept.value, kept.read_ms - by_ms, kept.asked_for)
