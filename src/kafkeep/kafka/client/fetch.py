"""Fetch: record batches in the broker's on-disk format, for many partitions at once.

Each leader gets one request. Retriable errors, such as a moved leader, are retried until the
deadline. Errors that the caller must handle are returned as values.
"""

from __future__ import annotations

import enum
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.consumer import FetchRequest

from kafkeep.errors import KafkeepError, PreflightError, TransientError
from kafkeep.kafka.client.connection import Link
from kafkeep.kafka.client.errors import (
    DENIED,
    LEADER_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    RETRIABLE,
    STALE_METADATA,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
    is_final,
    refusal,
)
from kafkeep.kafka.client.metadata import (
    Metadata,
    TopicDescription,
    format_topic_id,
    parse_topic_id,
)
from kafkeep.retry import KAFKA

_FIRST_VERSION_WITH_IDS = 13
_UNKNOWN_GRACE_SECONDS = 5.0
_OTHER_GRACE_SECONDS = 0.5


class Isolation(enum.IntEnum):
    """Which records a reader sees; the values are Kafka's."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FetchErrorKind(enum.Enum):
    """The errors that the caller must handle."""

    OFFSET_OUT_OF_RANGE = "offset out of range"
    TOPIC_GONE = "topic deleted or re-created"
    ACCESS_DENIED = "access denied"
    OTHER = "refused"


@dataclass(frozen=True, slots=True)
class FetchError:
    """Why a partition returned no records; ``code`` is Kafka's."""

    kind: FetchErrorKind
    code: int
    message: str

    def exception(self) -> KafkeepError:
        """Return the error to raise when this cannot be handled."""
        if self.kind is FetchErrorKind.ACCESS_DENIED:
            return refusal(self.code, self.message)
        return PreflightError(f"{self.message}: {error_name(self.code)} ({self.code})")


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """The offset in one partition to fetch from.

    With a ``topic_id`` (Kafka's 22 characters), records of a re-created topic are never returned;
    empty means the current topic of that name.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    max_bytes: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class FetchResult:
    """One partition's answer.

    ``records`` may begin with a batch that starts before the requested offset and end with a
    truncated one. ``aborted`` holds (producer id, first offset) and is valid only for this answer.
    """

    topic: str
    partition: int
    error: FetchError | None = None
    records: bytes | memoryview = b""
    aborted: Sequence[tuple[int, int]] = ()
    log_start: int = -1
    last_stable: int = -1
    high_watermark: int = -1


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The limits of one fetch as a whole; ``deadline`` is monotonic time."""

    max_bytes: int
    isolation: Isolation
    wait_ms: int
    min_bytes: int
    deadline: float


class Fetch:
    """One call of ``Wire.fetch``; runs on the loop until each partition has an answer."""

    def __init__(
        self, link: Link, metadata: Metadata, wanted: Sequence[FetchPosition], limits: FetchLimits
    ) -> None:
        self._link = link
        self._metadata = metadata
        self._wanted = wanted
        self._limits = limits
        self._done: dict[int, FetchResult] = {}
        self._began = time.monotonic()
        self._last: KafkeepError | None = None

    async def run(self) -> list[FetchResult]:
        """Return the answers in the order of the request."""
        await self._link.connect()
        retries = KAFKA.begin(self._limits.deadline)
        while True:
            await self._round()
            missing = [w for i, w in enumerate(self._wanted) if i not in self._done]
            if not missing:
                return [self._done[i] for i in range(len(self._wanted))]
            wait_s = retries.next_wait_s()
            if wait_s is None:
                raise self._gave_up(missing)
            await self._link.net.sleep(wait_s)

    def _gave_up(self, missing: list[FetchPosition]) -> KafkeepError:
        seconds = time.monotonic() - self._began
        names = ", ".join(str(wanted) for wanted in missing[:5])
        reason = f": {self._last.message}" if self._last else ""
        return TransientError(f"{names} gave no answer for {seconds:.0f} s{reason}")

    async def _round(self) -> None:
        by_leader = await self._by_leader()
        if not by_leader:
            return
        calls = [partial(self._from_leader, leader, asked) for leader, asked in by_leader.items()]
        for outcome in await self._link.gather(calls):
            if isinstance(outcome, KafkeepError):
                self._last = outcome
                if is_final(outcome):
                    raise outcome
            elif isinstance(outcome, Exception):
                raise outcome

    async def _by_leader(self) -> dict[int, list[tuple[int, TopicDescription]]]:
        todo = [i for i in range(len(self._wanted)) if i not in self._done]
        names = {self._wanted[i].topic for i in todo}
        known = await self._metadata.topics(names, deadline=self._limits.deadline)
        grouped: dict[int, list[tuple[int, TopicDescription]]] = defaultdict(list)
        for i in todo:
            wanted = self._wanted[i]
            topic = known.get(wanted.topic)
            leader = None
            if topic is not None and not self._decided_by_metadata(i, topic):
                described = topic.partitions.get(wanted.partition)
                leader = described.leader if described else None
            if topic is not None and leader is not None:
                grouped[leader].append((i, topic))
            elif i not in self._done:
                self._metadata.stale([wanted.topic])
                self._last = TransientError(f"{wanted} has no leader")
        return grouped

    def _decided_by_metadata(self, i: int, topic: TopicDescription) -> bool:
        """Return whether the topic is denied, deleted or re-created: a request is useless then."""
        wanted = self._wanted[i]
        if topic.error_code in DENIED:
            self._fail(i, topic.error_code)
        elif wanted.topic_id and topic.topic_id and wanted.topic_id != topic.topic_id:
            # Cached metadata or the broker may be stale: refresh before deciding.
            self._fail_after(_OTHER_GRACE_SECONDS, i, UNKNOWN_TOPIC_ID)
        elif topic.error_code != LEADER_NOT_AVAILABLE and (
            topic.error_code or wanted.partition not in topic.partitions
        ):
            # Brokers learn of a new topic with a delay.
            code = topic.error_code or UNKNOWN_TOPIC_OR_PARTITION
            self._fail_after(_UNKNOWN_GRACE_SECONDS, i, code)
        else:
            return False
        return True

    def _fail_after(self, grace_seconds: float, i: int, code: int) -> None:
        if time.monotonic() - self._began > grace_seconds:
            self._fail(i, code)
        else:
            self._metadata.stale([self._wanted[i].topic])

    async def _from_leader(self, leader: int, asked: list[tuple[int, TopicDescription]]) -> None:
        request, by_id = self._request(asked)
        wait_ms = self._link.request_timeout_ms + self._limits.wait_ms
        try:
            answer = await self._link.send(
                request, leader, deadline=self._limits.deadline, timeout_ms=wait_ms
            )
        except KafkeepError:
            self._metadata.stale({self._wanted[i].topic for i, _ in asked})
            raise
        index = {self._key(i, topic, by_id): i for i, topic in asked}
        found = [
            (index[_name_in(topic, by_id), part.partition_index], part)
            for topic in answer.responses
            for part in topic.partitions
        ]
        others = set() if by_id else await self._re_created(leader, found)
        for i, part in found:
            if self._wanted[i].topic in others:
                self._last = refusal(UNKNOWN_TOPIC_ID, str(self._wanted[i]))
            else:
                self._take(i, part)

    async def _re_created(self, leader: int, found: list[tuple[int, Any]]) -> set[str]:
        """Return the topics that are not those asked for, of a leader that was asked by name.

        Brokers before 3.1 take no ids. The leader itself is asked for them after its answer: it
        forgets a deleted topic before it has a new one of the name. The next round decides.
        """
        asked = {self._wanted[i].topic: self._wanted[i].topic_id for i, _ in found}
        names = [name for name, topic_id in asked.items() if topic_id]
        if not names:
            return set()
        ids = await self._metadata.ids_at(leader, names, deadline=self._limits.deadline)
        others = {name for name in names if ids.get(name, "gone") not in ("", asked[name])}
        self._metadata.stale(others)
        return others

    def _key(self, i: int, topic: TopicDescription, by_id: bool) -> tuple[str, int]:
        wanted = self._wanted[i]
        return (wanted.topic_id or topic.topic_id if by_id else wanted.topic), wanted.partition

    def _request(self, asked: list[tuple[int, TopicDescription]]) -> tuple[Any, bool]:
        version = self._link.connections.broker_version_data.api_version(FetchRequest)
        by_id = version >= _FIRST_VERSION_WITH_IDS and all(t.topic_id for _, t in asked)
        version = version if by_id else min(version, _FIRST_VERSION_WITH_IDS - 1)
        grouped: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for i, topic in asked:
            wanted = self._wanted[i]
            grouped[wanted.topic, wanted.topic_id or topic.topic_id].append(
                FetchRequest.FetchTopic.FetchPartition(
                    version=version,
                    partition=wanted.partition,
                    current_leader_epoch=topic.partitions[wanted.partition].leader_epoch,
                    fetch_offset=wanted.offset,
                    partition_max_bytes=wanted.max_bytes,
                )
            )
        topics = [
            FetchRequest.FetchTopic(
                version=version,
                topic=name,
                topic_id=parse_topic_id(topic_id) if by_id else None,
                partitions=partitions,
            )
            for (name, topic_id), partitions in grouped.items()
        ]
        limits = self._limits
        request = FetchRequest(
            version=version,
            max_wait_ms=limits.wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=int(limits.isolation),
            topics=topics,
        )
        return request, by_id

    def _take(self, i: int, part: Any) -> None:
        wanted = self._wanted[i]
        if part.error_code in STALE_METADATA:
            self._metadata.stale([wanted.topic])
        if part.error_code in RETRIABLE:
            self._last = refusal(part.error_code, str(wanted))
            return
        if part.error_code:
            self._fail(i, part.error_code, log_start=part.log_start_offset)
            return
        aborted = part.aborted_transactions or ()
        self._done[i] = FetchResult(
            wanted.topic,
            wanted.partition,
            records=part.records if part.records is not None else b"",
            aborted=[(a.producer_id, a.first_offset) for a in aborted],
            log_start=part.log_start_offset,
            last_stable=part.last_stable_offset,
            high_watermark=part.high_watermark,
        )

    def _fail(self, i: int, code: int, *, log_start: int = -1) -> None:
        wanted = self._wanted[i]
        kind = FetchErrorKind.OTHER
        if code == OFFSET_OUT_OF_RANGE:
            kind = FetchErrorKind.OFFSET_OUT_OF_RANGE
        elif code in (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION):
            kind = FetchErrorKind.TOPIC_GONE
        elif code in DENIED:
            kind = FetchErrorKind.ACCESS_DENIED
        error = FetchError(kind, code, f"{wanted} at offset {wanted.offset}")
        self._done[i] = FetchResult(wanted.topic, wanted.partition, error, log_start=log_start)


def _name_in(topic: Any, by_id: bool) -> str:
    """Return what an answer calls a topic."""
    name: str = format_topic_id(topic.topic_id) if by_id else topic.topic
    return name
