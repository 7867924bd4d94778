"""Keeps secrets out of the log, whoever writes it and through whichever handler."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from kafkeep.connect.safety.secrets import hide_words, secret_words
from kafkeep.redact import clean_record, install, redact


class HideSecrets(logging.Filter):
    """Takes the secrets of the connectors it was told of out of records, tracebacks included.

    So it does with what ``redact`` recognises, also where a library's logger is set to DEBUG over
    REST. Safe to use from any thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._words_of: dict[str, frozenset[str]] = {}
        """By connector."""
        self._words: frozenset[str] = frozenset()
        """Of all connectors; read without the lock: a log record may be made anywhere."""

    def keep(self, name: str, *configs: Mapping[str, str]) -> None:
        """Remember the secrets of all a connector runs with, in place of its last ones."""
        words = secret_words(configs)
        with self._lock:
            self._words_of[name] = words
            self._words = frozenset().union(*self._words_of.values())

    def forget(self, name: str) -> None:
        """Forget the secrets of a connector that is gone."""
        with self._lock:
            self._words_of.pop(name, None)
            self._words = frozenset().union(*self._words_of.values())

    def out_of(self, text: str) -> str:
        """Return a text, such as a trace, without any secret known."""
        return redact(hide_words(text, self._words))

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record where it tells a secret; it always passes."""
        clean_record(record, self.out_of)
        return True

    def install(self) -> Callable[[], None]:
        """Clean every record of this process from now on; returns what undoes it."""
        return install(self.out_of)
