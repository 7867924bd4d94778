"""Answers about many partitions, decoded without an object for each partition.

kafka-python makes an object with about ten attributes for each partition. A service that archives
20,000 partitions spent most of its time with that, and its pages waited. Here, answers about
offsets are decoded as arrays. Topics and settings seldom change, so each is decoded once and
remembered by its bytes.

kafka-python finds the schema of a class by its name, and decodes an answer with the class that was
defined last. Versions without compact types, and answers with unusual fields, are decoded by its
own classes, which hold its changes to the schemas; the result has the same form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
from kafka.protocol import admin, consumer, metadata

TopicPartition = tuple[str, int]
_ELEMENTS_KEPT = 20_000


class _UnusualError(ValueError):
    """The bytes are not laid out as almost all answers are."""


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The partitions of an answer, and their fields as rows of an array."""

    keys: list[TopicPartition]
    rows: npt.NDArray[Any]

    def values(self, field: str) -> dict[TopicPartition, int]:
        """Return one field of each partition."""
        return dict(zip(self.keys, self.rows[field].tolist(), strict=True))

    def errors(self) -> dict[TopicPartition, int]:
        """Return the error codes of partitions that have one."""
        codes = self.rows["error_code"]
        return {self.keys[n]: int(codes[n]) for n in np.flatnonzero(codes).tolist()}


@dataclass(frozen=True, slots=True)
class PartitionsAnswer:
    """An answer that holds rows of partitions."""

    throttle_time_ms: int
    partitions: PartitionRows


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """The committed offsets of one group."""

    group_id: str
    error_code: int
    partitions: PartitionRows


@dataclass(frozen=True, slots=True)
class GroupsAnswer:
    """The committed offsets of several groups."""

    throttle_time_ms: int
    groups: tuple[GroupAnswer, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """How an answer lists topics and partitions; fields are named as in kafka-python."""

    first_compact: int
    row: np.dtype[Any]
    index: str = "partition_index"
    topic: str = "name"

    def read(self, body: bytes, at: int) -> tuple[PartitionRows, int]:
        """Read an array of topics; return where it ends."""
        topics, at = _length(body, at)
        size = self.row.itemsize
        names: list[str] = []
        counts: list[int] = []
        parts: list[bytes] = []
        for _ in range(topics):
            length, at = _length(body, at)
            names.append(body[at : at + length].decode())
            count, at = _length(body, at + length)
            count = max(0, count)
            counts.append(count)
            parts.append(body[at : at + count * size])
            at += count * size
            if body[at]:
                raise _UnusualError
            at += 1
        joined = b"".join(parts)
        if len(joined) != sum(counts) * size:
            raise _UnusualError
        rows = np.frombuffer(joined, self.row)
        if rows["none"].any():
            raise _UnusualError
        each = chain.from_iterable(map(repeat, names, counts))
        return PartitionRows(list(zip(each, rows[self.index].tolist(), strict=True)), rows), at

    def convert(self, topics: Iterable[Any]) -> PartitionRows:
        """Return the same of kafka-python's objects."""
        names = [name for name in self.row.names or () if name != "none"]
        keys, rows = [], []
        for topic in topics:
            for part in topic.partitions:
                keys.append((getattr(topic, self.topic), getattr(part, self.index)))
                rows.append((*(getattr(part, name) for name in names), 0))
        ordered = [*names, "none"]
        return PartitionRows(
            keys, np.array(rows, dtype=[(name, self.row[name]) for name in ordered])
        )


def _row(*fields: tuple[str, str]) -> np.dtype[Any]:
    """Return a row; ``none`` is a byte that is 0 in all but unusual answers."""
    return np.dtype([*fields])


_OFFSETS = _Layout(
    6,
    _row(
        ("partition_index", ">i4"),
        ("error_code", ">i2"),
        ("timestamp", ">i8"),
        ("offset", ">i8"),
        ("leader_epoch", ">i4"),
        ("none", "u1"),
    ),
)
_EPOCH_ENDS = _Layout(
    4,
    _row(
        ("error_code", ">i2"),
        ("partition", ">i4"),
        ("leader_epoch", ">i4"),
        ("end_offset", ">i8"),
        ("none", "u1"),
    ),
    index="partition",
    topic="topic",
)
_COMMITTED = _Layout(
    8,
    _row(
        ("partition_index", ">i4"),
        ("committed_offset", ">i8"),
        ("committed_leader_epoch", ">i4"),
        ("metadata", "u1"),
        ("error_code", ">i2"),
        ("none", "u1"),
    ),
)


def _int32(body: bytes, at: int) -> int:
    return int.from_bytes(body[at : at + 4], "big", signed=True)


def _length(body: bytes, at: int) -> tuple[int, int]:
    """Read the length of a compact type: one more than the length, because 0 is null."""
    value = body[at]
    if value < 0x80:
        return value - 1, at + 1
    value, shift, at = value & 0x7F, 7, at + 1
    while True:
        more = body[at]
        at += 1
        value |= (more & 0x7F) << shift
        if not more & 0x80:
            return value - 1, at
        shift += 7


class ListOffsetsResponse(consumer.ListOffsetsResponse):  # type: ignore[misc]
    """Decoded as a ``PartitionsAnswer``."""

    @classmethod
    def decode(cls, data: Any, *args: Any, **more: Any) -> PartitionsAnswer:
        return _decode(consumer.ListOffsetsResponse, cls._class_version, data, _OFFSETS)


class OffsetForLeaderEpochResponse(consumer.OffsetForLeaderEpochResponse):  # type: ignore[misc]
    """Decoded as a ``PartitionsAnswer``."""

    @classmethod
    def decode(cls, data: Any, *args: Any, **more: Any) -> PartitionsAnswer:
        return _decode(consumer.OffsetForLeaderEpochResponse, cls._class_version, data, _EPOCH_ENDS)


def _decode(kind: Any, version: int, data: Any, layout: _Layout) -> PartitionsAnswer:
    body = bytes(data.read())
    if version >= layout.first_compact:
        try:
            partitions, _ = layout.read(body, 4)
            return PartitionsAnswer(_int32(body, 0), partitions)
        except _UnusualError:
            pass
    answer = kind.decode(body, version=version)
    return PartitionsAnswer(answer.throttle_time_ms, layout.convert(answer.topics))


class OffsetFetchResponse(consumer.OffsetFetchResponse):  # type: ignore[misc]
    """Decoded as a ``GroupsAnswer``; one group without a name before version 8."""

    @classmethod
    def decode(cls, data: Any, *args: Any, **more: Any) -> GroupsAnswer:
        body = bytes(data.read())
        if cls._class_version in (8, 9):
            try:
                return _read_groups(body)
            except _UnusualError:
                pass
        answer = consumer.OffsetFetchResponse.decode(body, version=cls._class_version)
        groups = answer.groups if cls._class_version >= _COMMITTED.first_compact else [answer]
        return GroupsAnswer(
            answer.throttle_time_ms,
            tuple(
                GroupAnswer(
                    getattr(group, "group_id", ""),
                    group.error_code,
                    _COMMITTED.convert(map(_without_metadata, group.topics)),
                )
                for group in groups
            ),
        )


def _without_metadata(topic: Any) -> Any:
    for part in topic.partitions:
        part.metadata = 0
    return topic


def _read_groups(body: bytes) -> GroupsAnswer:
    count, at = _length(body, 4)
    groups = []
    for _ in range(count):
        length, at = _length(body, at)
        name = body[at : at + length].decode()
        partitions, at = _COMMITTED.read(body, at + length)
        if (partitions.rows["metadata"] > 1).any():  # 1 is an empty text
            raise _UnusualError
        (code,) = struct.unpack_from(">h", body, at)
        if body[at + 2]:
            raise _UnusualError
        at += 3
        groups.append(GroupAnswer(name, code, partitions))
    return GroupsAnswer(_int32(body, 0), tuple(groups))


class _Remembered:
    """The elements of arrays, decoded by kafka-python once for each change of their bytes."""

    def __init__(self, kind: Any, field: str, name_after: int) -> None:
        self._element = kind._struct.fields[field].array_of
        self._name_after = name_after
        self._known: dict[tuple[int, bytes], tuple[bytes, Any]] = {}

    def read(self, body: bytes, at: int, version: int) -> tuple[list[Any], int]:
        """Read an array of elements that hold their name after some bytes."""
        decode = self._element.compiled_decode_from(version, compact=True, tagged=True)
        count, at = _length(body, at)
        found = []
        for _ in range(count):
            key = version, self._beginning(body, at)
            known = self._known.get(key)
            if known is not None and body.startswith(known[0], at):
                found.append(known[1])
                at += len(known[0])
                continue
            start = at
            element, at = decode(body, at)
            if len(self._known) >= _ELEMENTS_KEPT:
                self._known.clear()
            self._known[key] = body[start:at], element
            found.append(element)
        return found, at

    def _beginning(self, body: bytes, at: int) -> bytes:
        """Return the bytes of an element up to the end of its name."""
        length, end = _length(body, at + self._name_after)
        return body[at : end + max(0, length)]


_topics = _Remembered(metadata.MetadataResponse, "topics", 2)
_FIRST_COMPACT_METADATA = 9


class MetadataResponse(metadata.MetadataResponse):  # type: ignore[misc]
    """kafka-python's answer; an unchanged topic is the same object as in the answer before."""

    @classmethod
    def decode(cls, data: Any, *args: Any, **more: Any) -> Any:
        body, version = bytes(data.read()), cls._class_version
        if version < _FIRST_COMPACT_METADATA:
            return metadata.MetadataResponse.decode(body, version=version)
        kind = metadata.MetadataResponse
        broker = kind._struct.fields["brokers"].array_of.compiled_decode_from(
            version, compact=True, tagged=True
        )
        count, at = _length(body, 4)
        brokers = []
        for _ in range(count):
            one, at = broker(body, at)
            brokers.append(one)
        length, at = _length(body, at)
        cluster_id = body[at : at + length].decode() if length >= 0 else None
        at += max(0, length)
        topics, _ = _topics.read(body, at + 4, version)
        return kind(
            version=version,
            throttle_time_ms=_int32(body, 0),
            brokers=brokers,
            cluster_id=cluster_id,
            controller_id=_int32(body, at),
            topics=topics,
        )


@dataclass(frozen=True, slots=True)
class ConfigsAnswer:
    """The settings of several resources; kafka-python's objects, the same while unchanged."""

    throttle_time_ms: int
    results: Sequence[Any]


class _RememberedConfigs(_Remembered):
    def _beginning(self, body: bytes, at: int) -> bytes:
        """Return the bytes up to the end of the resource's name, which follows the message."""
        length, end = _length(body, at + 2)
        return super()._beginning(body, end + max(0, length))


_configs = _RememberedConfigs(admin.DescribeConfigsResponse, "results", 1)
_FIRST_COMPACT_CONFIGS = 4


class DescribeConfigsResponse(admin.DescribeConfigsResponse):  # type: ignore[misc]
    """The settings of unchanged resources are the same objects as in the answer before."""

    @classmethod
    def decode(cls, data: Any, *args: Any, **more: Any) -> Any:
        body = bytes(data.read())
        if cls._class_version < _FIRST_COMPACT_CONFIGS:
            return admin.DescribeConfigsResponse.decode(body, version=cls._class_version)
        results, _ = _configs.read(body, 4, cls._class_version)
        return ConfigsAnswer(_int32(body, 0), results)
