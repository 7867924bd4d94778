"""Requests for the offsets of many partitions, encoded without an object for each partition."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping

from kafka.protocol import consumer

from kafkeep.kafka.client.transport import RequestSlices

TopicPartition = tuple[str, int]
_NO_TAGS = b"\x00"
_FIRST_FLEXIBLE_OFFSETS = 6
_FIRST_WITH_TIMEOUT = 10
_FIRST_FLEXIBLE_EPOCHS = 4


def encode_length(count: int) -> bytes:
    """Return the length prefix of a compact type: one more than the length, because 0 is null."""
    left, out = count + 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


class ListOffsetsRequest(consumer.ListOffsetsRequest):  # type: ignore[misc]
    """Asks for one offset of each partition: ``partitions`` holds leader epochs and times."""

    __slots__ = ("partitions",)
    partitions: Mapping[TopicPartition, tuple[int, int]]

    def encode(
        self, version: int | None = None, header: bool = False, framed: bool = False
    ) -> bytearray | RequestSlices:
        if not (header and framed) or self.API_VERSION < _FIRST_FLEXIBLE_OFFSETS:
            kind = consumer.ListOffsetsRequest.ListOffsetsTopic
            self.topics = [  # type: ignore[misc]
                kind(
                    name=name,
                    partitions=[
                        kind.ListOffsetsPartition(
                            partition_index=index, current_leader_epoch=epoch, timestamp=time_ms
                        )
                        for index, epoch, time_ms in asked
                    ],
                )
                for name, asked in _by_topic(self.partitions).items()
            ]
            encoded: bytearray = super().encode(version, header, framed)
            return encoded
        begin = struct.pack(">ib", self.replica_id, self.isolation_level)
        end = b""
        if self.API_VERSION >= _FIRST_WITH_TIMEOUT:
            end = struct.pack(">i", self.timeout_ms)
        topics = _encode_topics(self.partitions, struct.Struct(">iiqB"))
        return _framed(self.encode_header(flexible=True), begin, topics, end)


class OffsetForLeaderEpochRequest(consumer.OffsetForLeaderEpochRequest):  # type: ignore[misc]
    """Asks for the ends of epochs: ``partitions`` holds the leader's epoch and the wanted one."""

    __slots__ = ("partitions",)
    partitions: Mapping[TopicPartition, tuple[int, int]]

    def encode(
        self, version: int | None = None, header: bool = False, framed: bool = False
    ) -> bytearray | RequestSlices:
        if not (header and framed) or self.API_VERSION < _FIRST_FLEXIBLE_EPOCHS:
            kind = consumer.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
            self.topics = [  # type: ignore[misc]
                kind(
                    topic=name,
                    partitions=[
                        kind.OffsetForLeaderPartition(
                            partition=index, current_leader_epoch=epoch, leader_epoch=wanted
                        )
                        for index, epoch, wanted in asked
                    ],
                )
                for name, asked in _by_topic(self.partitions).items()
            ]
            encoded: bytearray = super().encode(version, header, framed)
            return encoded
        topics = _encode_topics(self.partitions, struct.Struct(">iiiB"))
        begin = struct.pack(">i", self.replica_id)
        return _framed(self.encode_header(flexible=True), begin, topics)


def _by_topic(
    partitions: Mapping[TopicPartition, tuple[int, int]],
) -> dict[str, list[tuple[int, int, int]]]:
    asked: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for (topic, index), (epoch, value) in partitions.items():
        asked[topic].append((index, epoch, value))
    return asked


def _encode_topics(
    partitions: Mapping[TopicPartition, tuple[int, int]], row: struct.Struct
) -> bytes:
    """Return an array of topics whose partitions are rows of index, epoch, value, no tags."""
    topics: dict[str, bytearray] = defaultdict(bytearray)
    for (topic, index), (epoch, value) in partitions.items():
        topics[topic] += row.pack(index, epoch, value, 0)
    parts: list[bytes | bytearray] = [encode_length(len(topics))]
    for name, rows in topics.items():
        text = name.encode()
        parts += (encode_length(len(text)), text, encode_length(len(rows) // row.size))
        parts += (rows, _NO_TAGS)
    return b"".join(parts)


def _framed(*parts: bytes) -> RequestSlices:
    body = b"".join([*parts, _NO_TAGS])
    return RequestSlices([struct.pack(">i", len(body)), body])
