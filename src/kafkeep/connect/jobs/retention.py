"""``s3.retention.days`` of a connector: rules are set, changed or removed when it starts.

A connector of ``topics.regex`` meets topics later too; each gets its rule before it is archived. A
class may have a retention by default. That one deletes nothing that its user would not expect: see
``DefaultRetention``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from kafkeep.archive.head import load_head
from kafkeep.archive.keys import DATA_FOLDER
from kafkeep.archive.retention import DAY_MS, load_retention
from kafkeep.archive.store import ObjectStore
from kafkeep.care.retention import apply_retention, rules_of
from kafkeep.clock import now_ms
from kafkeep.config.connector import ConnectorConfig
from kafkeep.config.places import Places
from kafkeep.config.sink import SinkOptions
from kafkeep.errors import AccessDeniedError, UsageError

logger = logging.getLogger(__name__)
TopicConfigs = Mapping[str, Mapping[str, str]]
"""What is set on each topic itself."""


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
        self._default: DefaultRetention | None = None

    def begin(self, store: ObjectStore) -> None:
        """Set the rules of what is listed or archived already.

        Without the key a rule that was set before is removed, and nothing is asked of S3 otherwise.
        A default waits for what Kafka says of the topics.
        """
        self._done = frozenset()
        if self._config.retention_by_default:
            self._default = DefaultRetention(store, self._config.name, self._folder)
            return
        self._apply(self._config.topics or self._known(store), self._config.retention_days)

    def _known(self, store: ObjectStore) -> list[str]:
        """Return topics that are archived, or were met and had no record yet."""
        name = self._config.name
        archived = {topic for topic, _ in load_head(store, name).state.topics}
        return sorted(archived | load_retention(store, name).active().keys())

    def meet(self, topics: TopicConfigs) -> None:
        """Set the rules of topics that were not there before; nothing for all others."""
        new, days = sorted(set(topics) - self._done), self._config.retention_days
        if not new or days is None:
            return
        if self._default is None:
            self._apply(new, days)
            return
        for topic in new:
            self._apply_default(self._default, topic, topics[topic], days)

    def _apply_default(
        self, default: DefaultRetention, topic: str, configs: Mapping[str, str], days: int
    ) -> None:
        called = self._config.called
        why = default.why_not(topic)
        chosen = kept_days(configs, days)
        if why is None and chosen is None:
            why = "Kafka keeps its records for ever"
            self._apply([topic], None)
        if why is None:
            try:
                self._apply([topic], chosen)
            except (UsageError, AccessDeniedError) as error:
                logger.warning("connector %s: no rule can be set: %s", called, error.message)
                why = "the bucket takes no rule"
                self._apply([topic], None)
        self._done |= {topic}
        if why is not None:
            logger.info("connector %s: objects of topic %s are kept: %s", called, topic, why)
            return
        logger.info(
            "connector %s: the bucket deletes objects of topic %s after %d days, the default; "
            "s3.retention.days sets another number, -1 keeps them",
            called,
            topic,
            chosen,
        )

    def _apply(self, topics: Collection[str], days: int | None) -> None:
        apply_retention(
            self._places.archive,
            self._places.storage,
            self._config.name,
            topics,
            days,
            folder=self._folder,
            now_ms=now_ms(),
        )
        self._done |= frozenset(topics)


class DefaultRetention:
    """Decides which topics a default holds for: those whose folders it finds empty.

    What was archived before there was a default, or by others, stays. A topic that has a rule
    already goes on having one.
    """

    def __init__(self, store: ObjectStore, log: str, folder: str) -> None:
        self._store, self._log, self._folder = store, log, folder

    def why_not(self, topic: str) -> str | None:
        """Return why the default does not hold for a topic; None when it does."""
        if load_retention(self._store, self._log).days(topic) is not None:
            return None
        for rule in rules_of(self._log, topic, 1, self._folder):
            if next(iter(self._store.list(rule.prefix)), None) is not None:
                return (
                    f"{rule.prefix} held objects before a default was set; s3.retention.days "
                    "sets a number of days for them too"
                )
        return None


def kept_days(configs: Mapping[str, str], least: int) -> int | None:
    """Return how many days objects of a topic are kept by default; None: for ever.

    At least a day longer than Kafka keeps their records, as far as the topic itself says.
    """
    if "delete" not in configs.get("cleanup.policy", "delete"):
        return None
    kept_ms = int(configs.get("retention.ms", "0"))
    return None if kept_ms < 0 else max(least, -(-kept_ms // DAY_MS) + 1)
