"""Keeps secrets out of the log, whoever writes it and through whichever handler."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kafkeep.connect.safety.secrets import Hidden


class HideSecrets(logging.Filter):
    """Takes the secrets of the connectors it was told of out of records, tracebacks included.

    A filter of the root logger would not see what other loggers write, so ``install`` puts it
    where records are made. Safe to use from any thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._configs: dict[str, Mapping[str, str]] = {}
        self._hidden = Hidden(())

    def keep(self, name: str, *configs: Mapping[str, str]) -> None:
        """Remember the secrets of all a connector runs with, in place of its last ones."""
        with self._lock:
            for old in [key for key in self._configs if key.rpartition("#")[0] == name]:
                del self._configs[old]
            self._configs.update({f"{name}#{n}": dict(one) for n, one in enumerate(configs)})
            self._hidden = Hidden(self._configs.values())

    def forget(self, name: str) -> None:
        """Forget the secrets of a connector that is gone."""
        self.keep(name)

    def out_of(self, text: str) -> str:
        """Return a text, such as a trace, without any secret known."""
        return self._hidden.out_of(text)

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record where it tells a secret; it always passes."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            return True  # a broken call, which logging itself reports
        clean = self.out_of(message)
        if clean != message:
            self._rewrite(record, clean)
        if record.exc_info and not record.exc_text:
            told = logging.Formatter().formatException(record.exc_info)
            if (clean := self.out_of(told)) != told:
                record.exc_text, record.exc_info = clean, None
        return True

    def _rewrite(self, record: logging.LogRecord, clean: str) -> None:
        """Keep the arguments where they can be cleaned: an access log's formatter unpacks them."""
        if isinstance(record.args, tuple):
            record.args = tuple(self._argument(one) for one in record.args)
            if record.getMessage() == clean:
                return
        record.msg, record.args = clean, ()

    def _argument(self, value: Any) -> Any:
        if isinstance(value, int | float):
            return value
        text = str(value)
        return value if self.out_of(text) == text else self.out_of(text)

    def install(self) -> Callable[[], None]:
        """Clean every record of this process from now on; returns what undoes it."""
        before = logging.getLogRecordFactory()

        def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = before(*args, **kwargs)
            self.filter(record)
            return record

        logging.setLogRecordFactory(make)
        return lambda: logging.setLogRecordFactory(before)
