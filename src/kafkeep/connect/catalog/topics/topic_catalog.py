"""Topics of the live cluster beside those of the archives. Reads Kafka and logs, no objects."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.archives.archives import ArchiveLog, Archives
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.readings import Reading
from kafkeep.connect.catalog.topics.catalog_topic import (
    CatalogTopic,
    LiveOffsets,
    TopicFilter,
    matches,
)
from kafkeep.connect.catalog.topics.coverage import (
    LoggedPartition,
    PartitionCoverage,
    TimeBin,
    cover,
    time_bars,
)
from kafkeep.connect.catalog.topics.logged_topics import (
    LoggedTopic,
    Summary,
    as_int64,
    count_rows,
    gap_times,
    read_on_summary,
    summarize_log,
)
from kafkeep.connect.model import RestError
from kafkeep.errors import KafkeepError, NoSuchArchiveError
from kafkeep.kafka.admin.admin import ConfigValue
from kafkeep.kafka.admin.groups import load_group_offsets
from kafkeep.kafka.client.metadata import TopicDescription

_SUMMARIES_KEPT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """Topics by name, and what could not be read."""

    topics: tuple[CatalogTopic, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One topic of a name with its coverage by partition."""

    identity: str
    number: int | None
    """As the logs count; None when no log has it."""
    is_live: bool
    logs: tuple[LoggedTopic, ...]
    partitions: tuple[PartitionCoverage, ...]
    logged: Mapping[int, Sequence[LoggedPartition]] = field(default_factory=dict, repr=False)
    """What each log holds of a partition, to draw it."""

    @property
    def lost_offsets(self) -> int:
        return sum(one.lost_offsets for one in self.partitions)

    @property
    def waiting_offsets(self) -> int:
        return sum(one.waiting_offsets for one in self.partitions)

    @property
    def holes(self) -> int:
        return sum(one.holes for one in self.partitions)

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCoverage:
    """A name's incarnations, the newest first, and its records by time."""

    incarnations: tuple[Incarnation, ...]
    times: tuple[TimeBin, ...]


@dataclass(frozen=True, slots=True)
class GroupOnTopic:
    """A consumer group's committed offsets on one topic."""

    group: str
    committed: Mapping[int, int]
    lag: int


_TopicGroups = tuple[tuple[GroupOnTopic, ...], tuple[str, ...]]


class TopicCatalog:
    """Combines cluster and archives. Safe to use from any thread."""

    def __init__(self, cluster: LiveCluster, archives: Archives) -> None:
        self._cluster = cluster
        self._archives = archives
        self._lock = threading.Lock()
        self._summaries: dict[tuple[str, str], tuple[ArchiveLog, Summary]] = {}

    def find_all(self, search: str = "", show: TopicFilter = TopicFilter.ALL) -> TopicListing:
        """Return the topics whose name holds the search text, without offsets, by name.

        Internal topics are only in a list of their own. What cannot be read is a problem of the
        listing, not an error.
        """
        live, problem = self._live()
        logged, unread = self._logged()
        wanted = search.lower()
        found = (
            CatalogTopic(
                name=name,
                live=live.get(name),
                logged=tuple(logged.get(name, ())),
                kafka_problem=problem,
            )
            for name in sorted({*live, *logged})
            if wanted in name.lower()
        )
        kept = tuple(one for one in found if matches(one, show))
        return TopicListing(topics=kept, problems=(*([problem] if problem else []), *unread))

    def find(self, name: str) -> CatalogTopic:
        """Return a topic without offsets; 404 when neither Kafka nor an archive has it."""
        logged, unread = self._logged(name)
        live, problem = self._live()
        if name not in live and name not in logged:
            if problem or unread:
                raise RestError(503, f"Topic {name} was not found. {problem or unread[0]}")
            raise RestError(404, f"Neither Kafka nor an archive has a topic {name}")
        return CatalogTopic(
            name=name,
            live=live.get(name),
            logged=tuple(logged.get(name, ())),
            kafka_problem=problem,
        )

    def _live(self) -> tuple[Mapping[str, TopicDescription], str]:
        """Return the topics in Kafka, or why they cannot be read."""
        try:
            return self._cluster.topics(), ""
        except KafkeepError as error:
            return {}, f"Kafka cannot be read now: {error.message}"

    def with_offsets(
        self, topics: Sequence[CatalogTopic], *, may_be_old: bool = False
    ) -> tuple[CatalogTopic, ...]:
        """Return topics with their live offsets and sizes; a few requests to each broker.

        Partitions without a leader have no offsets. With ``may_be_old``, the offsets of many
        partitions are those of a moment ago.
        """
        live = {one.name: one.live for one in topics if one.live is not None}
        led = {
            name: [n for n, one in sorted(topic.partitions.items()) if one.leader is not None]
            for name, topic in live.items()
        }
        if not any(led.values()):
            return tuple(topics)
        key = "offsets of topics", tuple((name, one.topic_id) for name, one in live.items())
        read = partial(self._read_offsets, live, led)
        reading = self._cluster.readings.get(key, read) if may_be_old else Reading(read()[0])
        return tuple(
            replace(one, offsets=replace(reading.value[one.name], age_s=reading.age_s))
            if one.name in reading.value
            else one
            for one in topics
        )

    def _read_offsets(
        self, live: Mapping[str, TopicDescription], led: Mapping[str, Sequence[int]]
    ) -> tuple[Mapping[str, LiveOffsets], int]:
        """Return the offsets of topics, and of how many partitions they are."""
        admin = self._cluster.admin(for_readings=len(live) > 1)
        keys = [(name, n) for name, numbers in led.items() for n in numbers]
        with ThreadPoolExecutor(1) as beside:
            sized = beside.submit(
                admin.partition_sizes, {name: list(one.partitions) for name, one in live.items()}
            )
            starts, ends = admin.offset_bounds(keys)
            sizes = sized.result()
        found = {
            name: LiveOffsets(
                partitions={
                    n: OffsetRange(starts[name, n], max(starts[name, n], ends[name, n]))
                    for n in led[name]
                },
                size_bytes=sum(sizes.get((name, n), 0) for n in topic.partitions)
                if sizes
                else None,
            )
            for name, topic in live.items()
        }
        return found, len(keys)

    def coverage(
        self, topic: CatalogTopic, *, now_ms: int, only: tuple[str, str] | None = None
    ) -> TopicCoverage:
        """Return what is archived of a topic with offsets; of one log if ``only`` names it."""
        logged = [one for one in topic.logged if only in (None, log_id(one))]
        live_id = None if topic.live is None else topic.live.topic_id
        identities = {one.identity: one for one in sorted(logged, key=_number)}
        found = []
        for identity in identities:
            logs = tuple(one for one in logged if one.identity == identity)
            is_live = topic.live is not None and any(
                one.info.topic_id == live_id and not one.info.deleted for one in logs
            )
            found.append(_incarnation(identity, logs, topic.offsets if is_live else None, is_live))
        if topic.live is not None and not any(one.is_live for one in found):
            found.append(_incarnation(live_id or "live", (), topic.offsets, True))
        found.reverse()
        return TopicCoverage(incarnations=tuple(found), times=_times(found, now_ms))

    def configs(self, topic: CatalogTopic) -> Mapping[str, ConfigValue]:
        """Return the effective settings of a live topic; none when it is gone."""
        if topic.live is None:
            return {}
        return self._cluster.admin().all_topic_configs([topic.name]).get(topic.name, {})

    def groups(self, topic: CatalogTopic) -> _TopicGroups:
        """Return the groups with committed offsets on a topic, and groups that are denied.

        Kafka has no request for that: it is asked for the offsets of all groups.
        """
        if topic.live is None:
            return (), ()
        key = "groups of a topic", topic.name, topic.live.topic_id
        return self._cluster.readings.get(key, lambda: self._read_groups(topic)).value

    def _read_groups(self, topic: CatalogTopic) -> tuple[_TopicGroups, int]:
        """Return the groups, and of how many partitions all groups together have offsets."""
        found = load_group_offsets(self._cluster.admin(for_readings=True), None)
        [known] = self.with_offsets([topic])
        live = known.offsets.partitions if known.offsets else {}
        groups = []
        for group, committed in found.offsets.items():
            mine = {n: offset for (name, n), offset in committed.items() if name == topic.name}
            lag = sum(
                max(0, live[number].end - max(offset, live[number].start))
                for number, offset in mine.items()
                if number in live
            )
            if mine:
                groups.append(GroupOnTopic(group, mine, lag))
        return (tuple(groups), tuple(found.denied)), sum(map(len, found.offsets.values()))

    def _logged(self, only: str | None = None) -> tuple[dict[str, list[LoggedTopic]], list[str]]:
        """Return what all logs hold by topic, or of one topic, and why some could not be read."""
        found: dict[str, list[LoggedTopic]] = {}
        problems = []
        for place in self._archives.places():
            try:
                logs = self._archives.logs(place)
            except NoSuchArchiveError:
                continue
            except KafkeepError as error:
                problems.append(f"The archive {place.address} cannot be read now: {error.message}")
                continue
            for log in logs:
                summary = self._summary(log)
                chosen = summary if only is None else {only: summary.get(only, ())}
                for name, several in chosen.items():
                    if several:
                        found.setdefault(name, []).extend(several)
        return found, problems

    def _summary(self, log: ArchiveLog) -> Summary:
        key = log.place.id, log.name
        with self._lock:
            known = self._summaries.get(key)
        if known is not None and (known[0] is log or _is_later(known[0], log)):
            return known[1]
        made = summarize_log(log) if known is None else read_on_summary(known[1], known[0], log)
        with self._lock:
            if key not in self._summaries and len(self._summaries) >= _SUMMARIES_KEPT:
                del self._summaries[next(iter(self._summaries))]
            self._summaries[key] = log, made
        return made


def _is_later(known: ArchiveLog, log: ArchiveLog) -> bool:
    """Return whether another page has read the log on meanwhile."""
    return known.loaded.base is log.loaded.base and known.view.commit > log.view.commit


def log_id(topic: LoggedTopic) -> tuple[str, str]:
    """Return the archive's id and the log's name."""
    return topic.log.place.id, topic.log.name


def _number(topic: LoggedTopic) -> int:
    return topic.info.incarnation


def _incarnation(
    identity: str, logs: tuple[LoggedTopic, ...], offsets: LiveOffsets | None, is_live: bool
) -> Incarnation:
    held = [log.partitions() for log in logs]
    live = offsets.partitions if offsets is not None else {}
    numbers = sorted({*live, *(number for one in held for number in one)})
    logged = {n: [one[n] for one in held if n in one] for n in numbers}
    return Incarnation(
        identity=identity,
        number=max((one.info.incarnation for one in logs), default=None),
        is_live=is_live,
        logs=logs,
        partitions=tuple(cover(n, logged[n], live.get(n)) for n in numbers),
        logged=logged,
    )


def _times(incarnations: Sequence[Incarnation], now_ms: int) -> tuple[TimeBin, ...]:
    """Return the bins by time; of several logs with one topic, the one with most records counts."""
    chosen = [max(one.logs, key=lambda log: log.records) for one in incarnations if one.logs]
    tables = [count_rows(one.entries()) for one in chosen]
    columns = [
        np.concatenate([as_int64(table[name]) for table in tables]) if tables else np.empty(0, int)
        for name in ("min_timestamp", "max_timestamp", "records")
    ]
    waits = None
    newest = next(iter(incarnations), None)
    if newest is not None and newest.is_live and newest.waiting_offsets:
        waits = max((t for one in newest.logs if (t := one.newest_ms) is not None), default=None)
    return time_bars(
        (columns[0], columns[1], columns[2]),
        now_ms=now_ms,
        gaps_ms=gap_times(chosen),
        waits_since_ms=waits,
    )
