"""Connect's ``/admin/loggers`` over Python's logging: Java's names of levels, our loggers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from kafkeep.connect.model import Json, LoggerLevel, RestError

ROOT = "root"
LEVELS = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
_OURS = "kafkeep"


class Loggers:
    """Levels of this worker's loggers, and when each was last set.

    Levels for all workers are numbered by the one that leads and told with its signs of life, also
    to workers that come later; they are forgotten when no worker is left. Numbers are times, so
    that those of a leader which has heard of no level yet are newer, too.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._set_at: dict[str, int] = {}
        self._everywhere: tuple[LoggerLevel, ...] = ()

    def all(self) -> Json:
        """Return the root, our own loggers' common parent, and those with a level of their own."""
        known = {ROOT, _OURS, *dict(self._set_at)}
        known.update(name for name, found in _made() if found.level != logging.NOTSET)
        return {name: self.one(name) for name in sorted(known)}

    def one(self, name: str) -> Json:
        """Return one logger's level; 404 when nobody has named it."""
        if name != ROOT and name not in logging.Logger.manager.loggerDict:
            raise RestError(404, f"Logger {name} not found.")
        level = _of(name).getEffectiveLevel()
        return {"level": _level_name(level), "last_modified": self._set_at.get(name)}

    def everywhere(self) -> tuple[LoggerLevel, ...]:
        """Return what all workers are to have, oldest first."""
        return self._everywhere

    def set_everywhere(self, name: str, level: str) -> None:
        """Set it here, and note it for the others; only on the worker that leads."""
        self.set(name, level)
        with self._lock:
            self._note(LoggerLevel(max(self._now_ms(), self._newest() + 1), name, level))

    def follow(self, told: Iterable[LoggerLevel]) -> None:
        """Set what the worker that leads has set since this was called last."""
        for level in sorted(told, key=lambda one: one.number):
            if level.number > self._newest():
                self.set(level.logger, level.level)
                with self._lock:
                    self._note(level)

    def _newest(self) -> int:
        return max((one.number for one in self._everywhere), default=0)

    def _note(self, level: LoggerLevel) -> None:
        """Keep the newest of each logger; one above others takes the place of them all."""
        kept = (one for one in self._everywhere if not _covers(level.logger, one.logger))
        self._everywhere = (*kept, level)

    def set(self, name: str, level: str) -> list[str]:
        """Set a logger and those under it; 404 for a level there is not, as in Connect."""
        number = LEVELS.get(level.strip().upper())
        if number is None:
            raise RestError(404, f"invalid log level '{level}'.")
        with self._lock:
            changed = sorted({name, *(other for other, _ in _made() if _covers(name, other))})
            for one in changed:
                _of(one).setLevel(number)
                self._set_at[one] = self._now_ms()
        return changed


def _made() -> list[tuple[str, logging.Logger]]:
    """Return the loggers there are; other threads may make more at any time."""
    there = dict(logging.Logger.manager.loggerDict)
    return [(name, found) for name, found in there.items() if isinstance(found, logging.Logger)]


def _covers(name: str, other: str) -> bool:
    return name in (ROOT, other) or other.startswith(f"{name}.")


def _of(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _level_name(number: int) -> str:
    return min(LEVELS, key=lambda name: abs(LEVELS[name] - number))
