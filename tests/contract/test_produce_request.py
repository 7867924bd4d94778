"""A Produce request in pieces is, joined, what kafka-python makes of the same request."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol import producer
from kafka.protocol.parser import KafkaProtocol

from kafkeep.kafka.client.produce import ProduceRequest
from kafkeep.kafka.client.transport import RequestSlices, take_requests

VERSIONS = range(3, producer.ProduceRequest.max_version + 1)
BATCHES = {
    "one": {0: b"x" * 60},
    "a topic with a longer name, ünïcode": {7: b"", 2**31 - 1: b"y" * 126, 1: b"z" * 127},
    "t": {number: bytes([number]) * (1 << number) for number in range(18)},
}


def request(kind: type, version: int, batches: dict[str, dict[int, bytes]]) -> Any:
    topic = kind.TopicProduceData
    return kind(
        version=version,
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            topic(
                version=version,
                name=name,
                topic_id=uuid.uuid5(uuid.NAMESPACE_DNS, name) if version >= 13 else None,
                partition_data=[
                    topic.PartitionProduceData(version=version, index=index, records=records)
                    for index, records in of_topic.items()
                ],
            )
            for name, of_topic in batches.items()
        ],
    )


def sent(kind: type, version: int, batches: dict[str, dict[int, bytes]]) -> list[Any]:
    parser = KafkaProtocol(client_id="someone")
    parser.send_request(request(kind, version, batches))
    return list(take_requests(parser))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", range(len(BATCHES) + 1))
def test_the_bytes_are_those_of_kafka_python(version: int, count: int) -> None:
    batches = dict(list(BATCHES.items())[:count])
    expected = b"".join(sent(producer.ProduceRequest, version, batches))
    assert b"".join(sent(ProduceRequest, version, batches)) == expected


@pytest.mark.parametrize("version", [9, 12, 13])
def test_batches_are_not_copied(version: int) -> None:
    pieces = sent(ProduceRequest, version, BATCHES)
    given = [records for of_topic in BATCHES.values() for records in of_topic.values()]
    assert [piece for piece in pieces if any(piece is one for one in given)] == given


def test_requests_that_waited_go_out_in_their_order_and_once() -> None:
    parser = KafkaProtocol(client_id="someone")
    for version in (8, 13, 9):
        parser.send_request(request(ProduceRequest, version, BATCHES))
    plain = KafkaProtocol(client_id="someone")
    for version in (8, 13, 9):
        plain.send_request(request(producer.ProduceRequest, version, BATCHES))
    taken = take_requests(parser)
    assert isinstance(taken, RequestSlices)
    assert b"".join(taken) == plain.send_bytes()
    assert take_requests(parser) == []
