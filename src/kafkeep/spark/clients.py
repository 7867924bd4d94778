"""The clients a worker keeps, opened by its first job: no later one waits for them."""

from __future__ import annotations

from contextlib import suppress

from kafkeep.config.places import Places
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin import Admin
from kafkeep.kafka.wire import wire_for
from kafkeep.store.open import open_store

_NOWHERE = "_kafkeep/nothing"


def open_clients(places: Places) -> None:
    """Ask Kafka and the store something cheap, in a task; raises what they fail with."""
    Admin(wire_for(places.kafka)).cluster_id()
    with suppress(KafkeepError):  # there is no such object
        open_store(places.archive, places.storage).head(_NOWHERE)
