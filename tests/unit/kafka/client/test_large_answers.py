"""Answers about many partitions say what kafka-python says, in every version of the protocol."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol import admin, consumer, metadata

from kafkeep.kafka.client import large_answers as ours
from kafkeep.kafka.client.large_requests import (
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    encode_length,
)
from kafkeep.kafka.client.transport import ResponseBuffer

Row = tuple[str, int, int, int]
"""Topic, partition, error code, offset."""
ROWS: list[Row] = [
    ("orders", 0, 0, 17),
    ("orders", 3, 6, -1),
    ("t" * 249, 1, 0, 1 << 60),
    ("größe", 2**31 - 1, 0, -1),
]
rows = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=150),
        st.integers(0, 2**31 - 1),
        st.integers(-1, 120),
        st.integers(-2, 2**63 - 1),
    ),
    max_size=300,
    unique_by=lambda row: row[:2],
)


def _by_topic(found: list[Row]) -> dict[str, list[Row]]:
    topics: dict[str, list[Row]] = {}
    for row in found:
        topics.setdefault(row[0], []).append(row)
    return topics


def _listed(version: int, found: list[Row]) -> bytes:
    kind = consumer.ListOffsetsResponse.ListOffsetsTopicResponse
    topics = [
        kind(
            name=name,
            partitions=[
                kind.ListOffsetsPartitionResponse(
                    partition_index=index,
                    error_code=code,
                    timestamp=-1,
                    offset=offset,
                    leader_epoch=4,
                )
                for _, index, code, offset in parts
            ],
        )
        for name, parts in _by_topic(found).items()
    ]
    answer = consumer.ListOffsetsResponse(version=version, throttle_time_ms=7, topics=topics)
    return bytes(answer.encode())


def _offsets(found: list[Row]) -> dict[tuple[str, int], int]:
    return {(row[0], row[1]): row[3] for row in found}


def _codes(found: list[Row]) -> dict[tuple[str, int], int]:
    return {(row[0], row[1]): row[2] for row in found if row[2]}


@pytest.mark.parametrize("version", range(1, consumer.ListOffsetsResponse.max_version + 1))
def test_offsets_and_errors_are_those_that_were_encoded(version: int) -> None:
    body = _listed(version, ROWS)
    answer = ours.ListOffsetsResponse[version].decode(ResponseBuffer(bytearray(body)))
    assert answer.partitions.values("offset") == _offsets(ROWS)
    assert answer.partitions.errors() == _codes(ROWS)
    assert answer.throttle_time_ms == (7 if version >= 2 else 0)


@given(rows)
def test_any_offsets_are_those_that_were_encoded(found: list[Row]) -> None:
    answer = ours.ListOffsetsResponse[9].decode(ResponseBuffer(bytearray(_listed(9, found))))
    assert answer.partitions.values("offset") == _offsets(found)
    assert answer.partitions.errors() == _codes(found)


def test_an_answer_with_unknown_tags_is_decoded_by_kafka_python() -> None:
    partition = struct.pack(">ihqqi", 5, 0, -1, 42, 1) + b"\x01\x09\x02ab"
    body = struct.pack(">i", 0) + b"\x02\x02t\x02" + partition + b"\x00\x00"
    answer = ours.ListOffsetsResponse[9].decode(ResponseBuffer(bytearray(body)))
    assert answer.partitions.values("offset") == {("t", 5): 42}


@pytest.mark.parametrize("version", range(2, 5))
def test_the_ends_of_epochs_are_those_that_were_encoded(version: int) -> None:
    kind = consumer.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    topics = [
        kind(
            topic=name,
            partitions=[
                kind.EpochEndOffset(error_code=code, partition=n, leader_epoch=3, end_offset=end)
                for _, n, code, end in parts
            ],
        )
        for name, parts in _by_topic(ROWS).items()
    ]
    answer = consumer.OffsetForLeaderEpochResponse(version=version, topics=topics)
    decoded = ours.OffsetForLeaderEpochResponse[version].decode(
        ResponseBuffer(bytearray(answer.encode()))
    )
    assert decoded.partitions.values("end_offset") == _offsets(ROWS)
    assert decoded.partitions.errors() == _codes(ROWS)
    assert set(decoded.partitions.rows["leader_epoch"].tolist()) == {3}


def _fetched(version: int, metadata_text: str | None) -> bytes:
    response = consumer.OffsetFetchResponse
    group = response.OffsetFetchResponseGroup
    kind = group.OffsetFetchResponseTopics if version >= 8 else response.OffsetFetchResponseTopic
    part = kind.OffsetFetchResponsePartitions if version >= 8 else kind.OffsetFetchResponsePartition
    topics = [
        kind(
            name=name,
            partitions=[
                part(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    metadata=metadata_text,
                    error_code=code,
                )
                for _, index, code, offset in parts
            ],
        )
        for name, parts in _by_topic(ROWS).items()
    ]
    if version < 8:
        answer = response(version=version, topics=topics, error_code=0)
    else:
        groups = [
            group(group_id="shop", topics=topics, error_code=0),
            group(group_id="none", topics=[], error_code=16),
        ]
        answer = response(version=version, groups=groups)
    return bytes(answer.encode())


@pytest.mark.parametrize("text", ["", None, "written by a consumer"])
@pytest.mark.parametrize("version", range(2, 10))
def test_committed_offsets_are_those_that_were_encoded(version: int, text: str | None) -> None:
    body = _fetched(version, text)
    answer = ours.OffsetFetchResponse[version].decode(ResponseBuffer(bytearray(body)))
    first = answer.groups[0]
    assert first.partitions.values("committed_offset") == _offsets(ROWS)
    assert first.partitions.errors() == _codes(ROWS)
    if version >= 8:
        assert [one.group_id for one in answer.groups] == ["shop", "none"]
        assert [one.error_code for one in answer.groups] == [0, 16]
        assert answer.groups[1].partitions.keys == []


def _topic(name: str, leader: int = 1) -> Any:
    kind = metadata.MetadataResponse.MetadataResponseTopic
    partition = kind.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=2,
        replica_nodes=[1, 2],
        isr_nodes=[2],
        offline_replicas=[],
    )
    return kind(
        error_code=0,
        name=name,
        topic_id=uuid.UUID(int=len(name)),
        is_internal=False,
        partitions=[partition],
        authorized_operations=None,
    )


def _described(version: int, *topics: Any) -> Any:
    broker = metadata.MetadataResponse.MetadataResponseBroker
    answer = metadata.MetadataResponse(
        version=version,
        throttle_time_ms=3,
        brokers=[broker(node_id=1, host="a", port=9092, rack=None)],
        cluster_id="c" * 22,
        controller_id=1,
        topics=list(topics),
    )
    body = bytearray(answer.encode())
    expected = metadata.MetadataResponse.decode(bytes(body), version=version)
    decoded = ours.MetadataResponse[version].decode(ResponseBuffer(body))
    assert decoded.cluster_id == expected.cluster_id
    assert decoded.controller_id == expected.controller_id
    assert decoded.throttle_time_ms == expected.throttle_time_ms
    assert [tuple(one) for one in decoded.brokers] == [tuple(one) for one in expected.brokers]
    assert [str(one) for one in decoded.topics] == [str(one) for one in expected.topics]
    return decoded


@pytest.mark.parametrize("version", range(5, metadata.MetadataResponse.max_version + 1))
def test_topics_are_described_as_by_kafka_python(version: int) -> None:
    _described(version, _topic("orders"), _topic("größe"))


def test_only_changed_topics_are_decoded_again() -> None:
    first = _described(12, _topic("orders"), _topic("paid"))
    second = _described(12, _topic("paid", leader=2), _topic("orders"), _topic("late"))
    assert second.topics[1] is first.topics[0]
    assert second.topics[0].partitions[0].leader_id == 2


@pytest.mark.parametrize("version", range(1, admin.DescribeConfigsResponse.max_version + 1))
def test_settings_are_those_that_kafka_python_decodes(version: int) -> None:
    kind = admin.DescribeConfigsResponse.DescribeConfigsResult
    results = [
        kind(
            error_code=0,
            error_message=message,
            resource_type=2,
            resource_name=name,
            configs=[
                kind.DescribeConfigsResourceResult(
                    name="retention.ms",
                    value=value,
                    read_only=False,
                    config_source=1,
                    is_sensitive=False,
                    synonyms=[],
                )
            ],
        )
        for name, value, message in (("a", "1", None), ("b", "2", ""), ("a" * 200, None, "no"))
    ]
    body = bytearray(
        admin.DescribeConfigsResponse(version=version, throttle_time_ms=0, results=results).encode()
    )
    expected = admin.DescribeConfigsResponse.decode(bytes(body), version=version)
    for _ in range(2):
        decoded = ours.DescribeConfigsResponse[version].decode(ResponseBuffer(body))
        assert [str(one) for one in decoded.results] == [str(one) for one in expected.results]


ASKED = {("orders", 0): (4, 11), ("größe", 3): (-1, 12), ("orders", 9): (0, -1)}


@pytest.mark.parametrize("version", range(1, consumer.ListOffsetsRequest.max_version + 1))
def test_a_request_for_offsets_is_encoded_as_by_kafka_python(version: int) -> None:
    request = ListOffsetsRequest(
        version=version, replica_id=-1, isolation_level=1, timeout_ms=500, min_version=1
    )
    request.partitions = ASKED
    kind = consumer.ListOffsetsRequest.ListOffsetsTopic
    topics = [
        kind(
            name=name,
            partitions=[
                kind.ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=epoch, timestamp=time_ms
                )
                for (topic, index), (epoch, time_ms) in ASKED.items()
                if topic == name
            ],
        )
        for name in ("orders", "größe")
    ]
    expected = consumer.ListOffsetsRequest(
        version=version, replica_id=-1, isolation_level=1, topics=topics, timeout_ms=500
    )
    assert _encoded(request) == _encoded(expected)


@pytest.mark.parametrize("version", range(2, 5))
def test_a_request_for_epochs_is_encoded_as_by_kafka_python(version: int) -> None:
    request = OffsetForLeaderEpochRequest(version=version, replica_id=-1)
    request.partitions = ASKED
    kind = consumer.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics = [
        kind(
            topic=name,
            partitions=[
                kind.OffsetForLeaderPartition(
                    partition=index, current_leader_epoch=epoch, leader_epoch=wanted
                )
                for (topic, index), (epoch, wanted) in ASKED.items()
                if topic == name
            ],
        )
        for name in ("orders", "größe")
    ]
    expected = consumer.OffsetForLeaderEpochRequest(version=version, replica_id=-1, topics=topics)
    assert _encoded(request) == _encoded(expected)


def _encoded(request: Any) -> bytes:
    request.with_header(correlation_id=5, client_id="me")
    encoded = request.encode(header=True, framed=True)
    return b"".join(bytes(piece) for piece in encoded) if isinstance(encoded, list) else encoded


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 16_383, 16_384, 2_000_000])
def test_a_length_is_one_more_as_a_varint(count: int) -> None:
    encoded = encode_length(count)
    assert sum((byte & 0x7F) << (7 * n) for n, byte in enumerate(encoded)) == count + 1
    assert np.all([byte & 0x80 for byte in encoded[:-1]])
