"""Free TCP ports on the loopback address."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from typing import Self

from kafkeep.errors import EnvironmentFault

HOST = "127.0.0.1"
# Below the range that systems hand out to outgoing connections (32768 and up on Linux), so that a
# port stays free between the moment it is chosen and the moment a server binds it.
_RANGE = range(20_000, 32_000)
_TRIES = 500


def is_free(port: int) -> bool:
    """Say whether a server could listen on ``port`` now."""
    with socket.socket() as probe:
        # As servers do: connections that linger from an earlier server do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class Ports:
    """Gives out free ports, each only once.

    Those it chooses itself are nobody else's until it is closed, by when their servers listen.
    """

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._claims: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for claim in self._claims:
            claim.close()

    def leave_out(self, ports: Iterable[int]) -> None:
        """Never give out ``ports``."""
        self._given |= set(ports)

    def take(self, wanted: int | None = None, *, previous: int | None = None) -> int:
        """Return ``wanted`` (or fail by name), else ``previous`` if free, else any free port."""
        if wanted is not None:
            if wanted in self._given or not is_free(wanted):
                raise EnvironmentFault(
                    f"port {wanted} is taken", hint="Choose another, or leave it out."
                )
            self._given.add(wanted)
            return wanted
        if previous is not None and previous not in self._given and is_free(previous):
            self._given.add(previous)
            return previous
        return self._any()

    def _any(self) -> int:
        for port in random.sample(_RANGE, _TRIES):
            if port not in self._given and self._claim(port):
                self._given.add(port)
                return port
        raise EnvironmentFault(
            f"no free port between {_RANGE.start} and {_RANGE.stop} on {HOST}",
            hint="Stop servers that are no longer needed.",
        )

    def _claim(self, port: int) -> bool:
        claim = socket.socket()
        try:
            claim.bind((HOST, port))  # fails where another environment has its claim
        except OSError:
            claim.close()
            return False
        # From here on a server can bind it too: servers ask for the same.
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._claims.append(claim)
        return True


def answers(port: int) -> bool:
    """Say whether something accepts connections on ``port``."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
