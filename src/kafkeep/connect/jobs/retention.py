"""``s3.retention.days`` of a connector: set, change or remove expiry rules when it starts.

A connector of ``topics.regex`` finds topics later, too; each gets its rule before it is archived. A
connector class may have a default retention. A default deletes nothing that its user would not
expect: see ``DefaultRetention``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from kafkeep.archive.checkpoint import load_log
from kafkeep.archive.expiry import DAY_MS, load_retention
from kafkeep.archive.keys import DATA_FOLDER
from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.kafka.admin.cluster import ConfigValue
from kafkeep.maintenance.retention import apply_retention, rules_of
from kafkeep.options.kafka import Locations

logger = logging.getLogger(__name__)
DescribeTopics = Callable[[Collection[str]], Mapping[str, Mapping[str, ConfigValue]]]
"""Returns every effective setting of each topic, brokers' defaults included."""
MAX_DEFAULT_DAYS = 36_500
"""Beyond this, objects are kept for ever: stores cannot handle very many days."""


class KafkaRetention(NamedTuple):
    """How long Kafka keeps the records of a topic; ``kept_ms`` below zero: for ever."""

    cleanup_policy: str
    kept_ms: int


class ConnectorRetention:
    """Applies the retention of one connector; used by one thread."""

    def __init__(self, config: ConnectorConfig, locations: Locations) -> None:
        self._config = config
        self._locations = locations
        self._folder = DATA_FOLDER
        if config.sink is not None:
            self._folder = config.sink.options.naming.topics_dir
        self._done: frozenset[str] = frozenset()
        self._default: DefaultRetention | None = None
        self._decided: dict[str, KafkaRetention | None] = {}
        self._read_ms: int | None = None

    def begin(self, store: ObjectStore) -> None:
        """Set the rules of topics that are configured or archived already.

        Without the key this removes earlier rules, and asks S3 nothing if there are none. A default
        waits for the settings of the topics in Kafka.
        """
        self._done = frozenset()
        self._decided, self._read_ms = {}, None
        if self._config.retention_by_default:
            self._default = DefaultRetention(store, self._config.name, self._folder)
            return
        self._apply(self._config.topics or self._known(store), self._config.retention_days)

    def _known(self, store: ObjectStore) -> list[str]:
        """Return topics that are archived or have a rule."""
        name = self._config.name
        archived = {topic for topic, _ in load_log(store, name).state.topics}
        return sorted(archived | load_retention(store, name).active().keys())

    def update(self, topics: Collection[str], read_ms: int, describe: DescribeTopics) -> None:
        """Set the rules of topics that are new.

        A default is decided again when Kafka's retention of a topic has changed. Settings are read
        once for each ``read_ms``, the time when the caller last read settings.
        """
        days = self._config.retention_days
        if days is None:
            return
        if self._default is None:
            new = sorted(set(topics) - self._done)
            if new:
                self._apply(new, days)
        elif read_ms != self._read_ms or not self._decided.keys() >= set(topics):
            self._decide(self._default, topics, describe, days)
            self._read_ms = read_ms

    def _decide(
        self,
        default: DefaultRetention,
        topics: Collection[str],
        describe: DescribeTopics,
        days: int,
    ) -> None:
        found = self._read_settings(topics, describe)
        for topic in sorted(topics):
            kafka = found.get(topic)
            if topic in self._decided and kafka in (None, self._decided[topic]):
                continue
            if kafka is None:
                logger.warning(
                    "connector %s: topic %s gets no default retention: cannot read how long Kafka "
                    "keeps its records",
                    self._config.called,
                    topic,
                )
            else:
                self._apply_default(default, topic, kafka, days)
            self._decided[topic] = kafka

    def _read_settings(
        self, topics: Collection[str], describe: DescribeTopics
    ) -> dict[str, KafkaRetention | None]:
        try:
            return {topic: kafka_retention(found) for topic, found in describe(topics).items()}
        except TransientError:
            raise
        except KafkeepError as error:
            called = self._config.called
            logger.warning(
                "connector %s: cannot read the settings of topics: %s", called, error.message
            )
            return {}

    def _apply_default(
        self, default: DefaultRetention, topic: str, kafka: KafkaRetention, days: int
    ) -> None:
        """Set the rule of one topic, or none. It is a default, so no refusal stops the run."""
        called = self._config.called
        chosen = kept_days(kafka, days)
        try:
            why = default.why_not(topic)
            if why is None:
                chosen = default.never_fewer(topic, chosen)
                self._apply([topic], chosen)
        except TransientError:
            raise
        except KafkeepError as error:
            logger.warning(
                "connector %s: cannot set the default retention of topic %s: %s",
                called,
                topic,
                error.message,
            )
            self._remove(topic)
            return
        if why is None and chosen is None:
            why = "Kafka keeps its records for ever"
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

    def _remove(self, topic: str) -> None:
        """Remove the rule of a topic: it may be recorded and yet not be in the bucket."""
        try:
            self._apply([topic], None)
        except TransientError:
            raise
        except KafkeepError as error:
            logger.warning(
                "connector %s: an earlier rule of topic %s may still apply: %s",
                self._config.called,
                topic,
                error.message,
            )

    def _apply(self, topics: Collection[str], days: int | None) -> None:
        apply_retention(
            self._locations.archive,
            self._locations.storage,
            self._config.name,
            topics,
            days,
            folder=self._folder,
            now_ms=now_ms(),
        )
        self._done |= frozenset(topics)


class DefaultRetention:
    """Decides which topics a default applies to: those whose folders are empty.

    Objects that were archived before the default, or by others, stay. A topic that has a rule keeps
    one.
    """

    def __init__(self, store: ObjectStore, log: str, folder: str) -> None:
        self._store, self._log, self._folder = store, log, folder

    def why_not(self, topic: str) -> str | None:
        """Return why the default does not apply to a topic; None when it does."""
        if load_retention(self._store, self._log).days(topic) is not None:
            return None
        for rule in rules_of(self._log, topic, 1, self._folder):
            if next(iter(self._store.list(rule.prefix)), None) is not None:
                return (
                    f"{rule.prefix} held objects before a default was set; s3.retention.days "
                    "sets a number of days for them too"
                )
        return None

    def never_fewer(self, topic: str, days: int | None) -> int | None:
        """Return ``days``, or those of the active rule if they are more: it may be a user's.

        None is for ever.
        """
        active = load_retention(self._store, self._log).days(topic)
        return days if days is None or active is None else max(days, active)


def kafka_retention(configs: Mapping[str, ConfigValue]) -> KafkaRetention | None:
    """Return how long Kafka keeps a topic's records; None where its settings lack it."""
    policy, kept = configs.get("cleanup.policy"), configs.get("retention.ms")
    if policy is None or kept is None or policy.value is None or kept.value is None:
        return None
    return KafkaRetention(policy.value, int(kept.value))


def kept_days(kafka: KafkaRetention, least: int) -> int | None:
    """Return how many days to keep objects of a topic by default; None: for ever.

    That is at least a day longer than Kafka keeps their records.
    """
    if "delete" not in kafka.cleanup_policy or kafka.kept_ms < 0:
        return None
    days = max(least, -(-kafka.kept_ms // DAY_MS) + 1)
    return days if days <= MAX_DEFAULT_DAYS else None
