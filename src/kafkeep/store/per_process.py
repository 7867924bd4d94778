"""One client per process and options. A forked child must not share its parent's connections."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any


class PerProcess:
    """The clients of one library, made by ``connect`` when this process first needs them."""

    def __init__(self, connect: Callable[[Any], Any]) -> None:
        self._connect = connect
        self._clients: dict[tuple[int, Hashable], Any] = {}
        self._lock = threading.Lock()
        _all.add(self)

    def __call__(self, options: Hashable) -> Any:
        """Return the client of this process for ``options``."""
        key = (os.getpid(), options)
        with self._lock:
            if key not in self._clients:
                for old in [one for one in self._clients if one[0] != key[0]]:
                    del self._clients[old]
                self._clients[key] = self._connect(options)
            return self._clients[key]

    def after_fork(self) -> None:
        """Replace the lock: one that another thread holds during a fork stays locked for ever."""
        self._lock = threading.Lock()


_all: weakref.WeakSet[PerProcess] = weakref.WeakSet()


def _after_fork() -> None:
    for clients in _all:
        clients.after_fork()


os.register_at_fork(after_in_child=_after_fork)
