"""``s3.retention.days`` of a connector: rules are set, changed or removed when it starts.

A connector of ``topics.regex`` meets topics later too; each gets its rule before it is archived.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkeep.archive.head import load_head
from kafkeep.archive.keys import DATA_FOLDER
from kafkeep.archive.retention import load_retention
from kafkeep.archive.store import ObjectStore
from kafkeep.care.retention import apply_retention
from kafkeep.clock import now_ms
from kafkeep.config.connector import ConnectorConfig
from kafkeep.config.places import Places
from kafkeep.config.sink import SinkOptions


class ConnectorRetention:
    """What one connector does about retention; used by one thread."""

    def __init__(self, config: ConnectorConfig, places: Places) -> None:
        self._config = config
        self._places = places
        self._folder = DATA_FOLDER
        if config.format != "segment":
            naming = SinkOptions.parse({**config.shape, **config.secrets}).naming
            self._folder = naming.topics_dir
        self._done: frozenset[str] = frozenset()

    def begin(self, store: ObjectStore) -> None:
        """Set the rules of what is listed or archived already.

        Without the key a rule that was set before is removed, and nothing is asked of S3 otherwise.
        """
        self._apply(self._config.topics or self._known(store))

    def _known(self, store: ObjectStore) -> list[str]:
        """Return topics that are archived, or were met and had no record yet."""
        name = self._config.name
        archived = {topic for topic, _ in load_head(store, name).state.topics}
        return sorted(archived | load_retention(store, name).active().keys())

    def meet(self, topics: Collection[str]) -> None:
        """Set the rules of topics that were not there before; nothing for all others."""
        new = sorted(set(topics) - self._done)
        if new and self._config.retention_days is not None:
            self._apply(new)

    def _apply(self, topics: Collection[str]) -> None:
        apply_retention(
            self._places.archive,
            self._places.storage,
            self._config.name,
            topics,
            self._config.retention_days,
            folder=self._folder,
            now_ms=now_ms(),
        )
        self._done |= frozenset(topics)
