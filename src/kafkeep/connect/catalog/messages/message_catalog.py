"""Opens topics for readers of messages: in Kafka, or in one of the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from kafkeep.archive.entry import LAST_OFFSET
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.messages.archived_source import ArchivedSource, TopicEntries
from kafkeep.connect.catalog.messages.browse import (
    WorkLimits,
    iter_forward,
    read_backward,
    read_forward,
    read_one,
)
from kafkeep.connect.catalog.messages.live_source import LiveSource
from kafkeep.connect.catalog.messages.message import (
    Message,
    MessagePage,
    MessageSource,
    Search,
    SearchIn,
    parse_cursor,
)
from kafkeep.connect.catalog.messages.show import ContentDecoder
from kafkeep.connect.catalog.topics.catalog_topic import CatalogTopic
from kafkeep.connect.catalog.topics.logged_topics import LoggedTopic
from kafkeep.connect.catalog.topics.topic_catalog import TopicCatalog
from kafkeep.connect.model import RestError
from kafkeep.maintenance.inspect.cat import RecordLine
from kafkeep.options.sink.converter_settings import RegistrySettings
from kafkeep.options.units import parse_time

FROM_KAFKA, FROM_ARCHIVE = "live", "archive"
SHOWN, MOST_SHOWN = 50, 500
DOWNLOADED, DOWNLOADED_BYTES = 10_000, 256 << 20
_LONGEST_SEARCH = 1000
_EVERYTHING = Search()
Choice = TypeVar("Choice", bound=StrEnum)


class Begin(StrEnum):
    """Where a page begins if no cursor says it."""

    NEWEST = "newest"
    OLDEST = "oldest"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """Which records to show."""

    source: str = ""
    """live or archive; empty: live if the topic is in Kafka."""
    log: str = ""
    """``archive id/log/incarnation``; empty: the one that is most complete."""
    partition: int | None = None
    begin: Begin = Begin.NEWEST
    at: str = ""
    """An offset or a time."""
    search: Search = _EVERYTHING
    limit: int = SHOWN
    after: Mapping[int, int] | None = None
    before: Mapping[int, int] | None = None

    @property
    def is_backward(self) -> bool:
        """Whether a page shows the newest records first."""
        return self.after is None and (self.before is not None or self.begin is Begin.NEWEST)


def parse_query(given: Mapping[str, str]) -> MessageQuery:
    """Parse the query of an address; 400 with what is wrong."""
    source = given.get("source", "")
    if source not in ("", FROM_KAFKA, FROM_ARCHIVE):
        raise RestError(400, f"source must be {FROM_KAFKA} or {FROM_ARCHIVE}")
    text = given.get("search", "").encode("utf-8", "surrogateescape")
    if len(text) > _LONGEST_SEARCH:
        raise RestError(400, f"The search text has more than {_LONGEST_SEARCH} bytes")
    after, before = given.get("from", ""), given.get("before", "")
    begin = _choice(Begin, given, "start", Begin.NEWEST)
    at = given.get("at", "").strip()
    if begin is Begin.OFFSET:
        _number(at, "at", LAST_OFFSET)
    if begin is Begin.TIME:
        parse_time(at)
    return MessageQuery(
        source=source,
        log=given.get("log", ""),
        partition=_maybe_number(given, "partition", (1 << 31) - 1),
        begin=begin,
        at=at,
        search=Search(text, _choice(SearchIn, given, "in", SearchIn.ANY)),
        limit=max(1, _maybe_number(given, "limit", MOST_SHOWN) or SHOWN),
        after=parse_cursor(after) if after else None,
        before=parse_cursor(before) if before else None,
    )


def _choice(kind: type[Choice], given: Mapping[str, str], name: str, default: Choice) -> Choice:
    text = given.get(name, "") or default.value
    for one in kind:
        if one.value == text:
            return one
    raise RestError(400, f"{name} must be one of: {', '.join(one for one in kind if one.value)}")


def _maybe_number(given: Mapping[str, str], name: str, most: int) -> int | None:
    text = given.get(name, "").strip()
    return None if text in ("", "all") else _number(text, name, most)


def _number(text: str, name: str, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > most:
        raise RestError(400, f"{name} must be a number from 0 to {most}, not {text[:40]!r}")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTopic:
    """A topic that is read: from Kafka, or from a log."""

    topic: CatalogTopic
    source: MessageSource
    log: LoggedTopic | None = None
    """None: it is read from Kafka."""


class MessageCatalog:
    """Reads messages. Safe to use from any thread."""

    def __init__(
        self,
        cluster: LiveCluster,
        topics: TopicCatalog,
        registries: Callable[[], Sequence[RegistrySettings]],
        work: WorkLimits | None = None,
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._entries = TopicEntries()
        self._work = work or WorkLimits()
        self.decoder = ContentDecoder(registries)

    def open(self, name: str, query: MessageQuery) -> OpenedTopic:
        """Open what a query names; 404 when there is no such topic, log or partition."""
        topic = self._topics.find(name)
        if query.source != FROM_ARCHIVE and topic.live is not None:
            source = LiveSource(self._cluster, topic.live, query.partition)
            return OpenedTopic(topic=topic, source=source)
        if query.source == FROM_KAFKA:
            if topic.kafka_problem:
                raise RestError(503, topic.kafka_problem)
            raise RestError(404, f"Topic {name} is not in Kafka")
        log = _chosen(topic, query.log)
        entries, options = self._entries.load(log)
        archived = ArchivedSource(log, entries, options, query.partition)
        return OpenedTopic(topic=topic, source=archived, log=log)

    def page(self, opened: OpenedTopic, query: MessageQuery) -> MessagePage:
        """Return a page of records; bounded in records, bytes and time."""
        source = opened.source
        if query.is_backward:
            return read_backward(
                source,
                query.before or {},
                limit=query.limit,
                search=query.search,
                work=self._work,
            )
        cursor = query.after if query.after is not None else _begin(source, query)
        return read_forward(source, cursor, limit=query.limit, search=query.search, work=self._work)

    def one(self, opened: OpenedTopic, partition: int, position: int) -> Message:
        """Return one record whole; 404 when there is none."""
        found = read_one(opened.source, partition, position)
        if found is None:
            raise RestError(
                404, f"There is no record at offset {position} of {opened.topic.name}-{partition}"
            )
        return found

    def lines(self, opened: OpenedTopic, query: MessageQuery) -> Iterator[RecordLine]:
        """Yield whole records from the query's begin on, by partition; bounded."""
        cursor = query.after if query.after is not None else _begin(opened.source, query)
        return iter_forward(
            opened.source,
            cursor,
            most=DOWNLOADED,
            search=query.search,
            most_bytes=DOWNLOADED_BYTES,
        )


def _begin(source: MessageSource, query: MessageQuery) -> Mapping[int, int]:
    if query.begin is Begin.TIME:
        return source.at_time(parse_time(query.at))
    if query.begin is Begin.OFFSET:
        return dict.fromkeys(source.ranges, int(query.at))
    return {}


def message_log_id(log: LoggedTopic) -> str:
    """Return how a query names one incarnation in one log."""
    return f"{log.log.place.id}/{log.log.name}/{log.info.incarnation}"


def _chosen(topic: CatalogTopic, wanted: str) -> LoggedTopic:
    """Return the named log, or the newest incarnation in the log that holds most records."""
    if not topic.logged:
        raise RestError(404, f"No archive has topic {topic.name}")
    for one in topic.logged:
        if message_log_id(one) == wanted:
            return one
    if wanted:
        raise RestError(404, f"No archive has topic {topic.name} in a log {wanted!r}")
    current = topic.current or topic.logged
    return max(current, key=lambda one: (one.info.incarnation, one.is_exact, one.records))
