"""Connect's ``/admin/loggers`` over Python's logging, with Java's names of levels."""

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

    The leader numbers the levels that hold on all workers and publishes them with its heartbeats,
    also to workers that start later. They are lost when no worker is left. The numbers are times,
    so that those of a leader that has seen no level yet are newer, too.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._set_at: dict[str, int] = {}
        self._everywhere: tuple[LoggerLevel, ...] = ()

    def all(self) -> Json:
        """Return the root, ``kafkeep``, and every logger with a level of its own."""
        known = {ROOT, _OURS, *dict(self._set_at)}
        known.update(name for name, found in _existing() if found.level != logging.NOTSET)
        return {name: self.one(name) for name in sorted(known)}

    def one(self, name: str) -> Json:
        """Return one logger's level; 404 when there is no such logger."""
        if name != ROOT and name not in logging.Logger.manager.loggerDict:
            raise RestError(404, f"Logger {name} not found.")
        level = _of(name).getEffectiveLevel()
        return {"level": _level_name(level), "last_modified": self._set_at.get(name)}

    def everywhere(self) -> tuple[LoggerLevel, ...]:
        """Return the levels that hold on all workers, oldest first."""
        return self._everywhere

    def set_everywhere(self, name: str, level: str) -> None:
        """Set a logger here and publish the level; only on the worker that leads."""
        self.set(name, level)
        with self._lock:
            self._note(LoggerLevel(max(self._now_ms(), self._newest() + 1), name, level))

    def follow(self, published: Iterable[LoggerLevel]) -> None:
        """Set the levels that the leader has published since the last call."""
        for level in sorted(published, key=lambda one: one.number):
            if level.number > self._newest():
                self.set(level.logger, level.level)
                with self._lock:
                    self._note(level)

    def _newest(self) -> int:
        return max((one.number for one in self._everywhere), default=0)

    def _note(self, level: LoggerLevel) -> None:
        """Keep the newest level of each logger; that of a parent replaces those below it."""
        kept = (one for one in self._everywhere if not _covers(level.logger, one.logger))
        self._everywhere = (*kept, level)

    def set(self, name: str, level: str) -> list[str]:
        """Set a logger and those below it; 404 for an unknown level, as in Connect."""
        number = LEVELS.get(level.strip().upper())
        if number is None:
            raise RestError(404, f"invalid log level '{level}'.")
        with self._lock:
            changed = sorted({name, *(other for other, _ in _existing() if _covers(name, other))})
            for one in changed:
                _of(one).setLevel(number)
                self._set_at[one] = self._now_ms()
        return changed


def _existing() -> list[tuple[str, logging.Logger]]:
    """Return all existing loggers, copied: other threads may create more at any time."""
    there = dict(logging.Logger.manager.loggerDict)
    return [(name, found) for name, found in there.items() if isinstance(found, logging.Logger)]


def _covers(name: str, other: str) -> bool:
    return name in (ROOT, other) or other.startswith(f"{name}.")


def _of(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _level_name(number: int) -> str:
    return min(LEVELS, key=lambda name: abs(LEVELS[name] - number))
