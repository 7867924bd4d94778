"""Check the addresses of a command before it starts a JVM, which costs seconds."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkeep.errors import AccessDeniedError
from kafkeep.options.storage import ArchiveAddress

if TYPE_CHECKING:
    from kafkeep.options.kafka import Locations

_CONNECT_SECONDS = 2.0
_NO_KEY = "_kafkeep/nothing"


def can_begin(locations: Locations) -> bool:
    """Return whether Kafka listens; raise the error of the store if there is no such bucket.

    Without Kafka, a command reports what keeps it from running, and has started no JVM. Kafka's
    client takes a while to load, so this only opens a connection.
    """
    if not any(_listens(*server) for server in locations.kafka.servers):
        return False
    if ArchiveAddress.parse(locations.archive).kind not in ("file", "memory"):
        from kafkeep.store.open import open_store  # noqa: PLC0415 - takes a while to load

        store = open_store(locations.archive, locations.storage)
        with suppress(AccessDeniedError):  # the command itself reports what it may not do
            next(iter(store.list(_NO_KEY)), None)
    return True


def _listens(host: str, port: int) -> bool:
    with suppress(OSError):
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
        return True
    return False
