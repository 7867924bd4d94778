"""What kafkeep relies upon inside kafka-python, which is pinned for this reason.

When one of these fails after an upgrade, read kafkeep/kafka/client/transport.py again.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import uuid
from typing import Any

import kafka.errors
import pytest
from kafka.cluster import ClusterMetadata
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import ProduceRequest
from tests.support.waiting import until

from kafkeep.kafka.client.transport import ResponseBuffer, keep_record_views


@pytest.fixture
def net() -> Any:
    selector = NetworkSelector(slow_task_threshold_secs=0)
    selector.start()
    yield selector
    selector.close()


def test_the_version_is_the_one_the_code_was_read_with() -> None:
    assert importlib.metadata.version("kafka-python") == "3.0.12"


def test_the_manager_builds_transports_in_one_method() -> None:
    signature = inspect.signature(KafkaConnectionManager._build_transport)
    assert list(signature.parameters) == ["self", "node", "timeout_at"]
    assert "_build_transport" in inspect.getsource(KafkaConnectionManager._connect)


@pytest.mark.parametrize("kind", [KafkaTCPTransport, KafkaSSLTransport])
def test_a_transport_reads_in_one_coroutine(kind: type) -> None:
    assert inspect.iscoroutinefunction(kind._read_from_sock)
    assert "_read_from_sock" in inspect.getsource(kind.resume_reading)
    assert "self._protocol.data_received" in inspect.getsource(kind._read_from_sock)


def test_a_connection_hands_received_data_to_its_parser() -> None:
    assert "self.parser.receive_bytes(data)" in inspect.getsource(KafkaConnection.data_received)
    made = inspect.getsource(KafkaConnection.connection_made)
    assert made.index("resume_reading()") < made.index("self.parser = KafkaProtocol(")


def test_a_connection_hands_what_its_parser_has_to_the_transport() -> None:
    sends = "self.transport.write(self.parser.send_bytes())"
    assert sends in inspect.getsource(KafkaConnection._send_request)
    assert "self._write_buffer.extend(" in inspect.getsource(KafkaTCPTransport.writelines)
    assert KafkaSSLTransport.writelines is KafkaTCPTransport.writelines


def test_a_connection_has_the_attributes_paused_and_throttle_time(net: Any) -> None:
    connection = KafkaConnection(net, node_id=1)
    assert connection.paused == set()
    assert connection._throttle_time == 0
    assert connection.initializing
    assert not connection.connected


def test_the_client_refreshes_metadata_on_its_own_in_one_place() -> None:
    assert "self.start_refresh_loop()" in inspect.getsource(ClusterMetadata.request_update)
    assert "_refresh_loop" in inspect.getsource(ClusterMetadata.start_refresh_loop)


def test_a_paused_connection_fails_a_request_at_once(net: Any) -> None:
    connection = KafkaConnection(net, node_id=1)
    connection.initializing, connection.connected = False, True
    connection.pause("throttle")
    answer = connection.send_request(MetadataRequest(topics=[]))
    assert isinstance(answer.exception, kafka.errors.NodeNotReadyError)


def test_the_loop_runs_coroutines_from_other_threads_in_order(net: Any) -> None:
    seen: list[int] = []

    async def note(number: int) -> int:
        seen.append(number)
        await net.sleep(0)
        return number

    futures = [net.call_soon_with_future(note, number) for number in range(5)]
    until(lambda: all(future.is_done for future in futures))
    assert [future.value for future in futures] == seen == list(range(5))


def test_a_finished_future_calls_back_at_once() -> None:
    seen: list[Any] = []
    Future().success(1)._add_cb_eb(seen.append, seen.append)
    failure = ValueError("x")
    Future().failure(failure)._add_cb_eb(seen.append, seen.append)
    assert seen == [1, failure]


def _answer(version: int, records: bytes, topic_id: uuid.UUID) -> bytearray:
    kind = FetchResponse.FetchableTopicResponse
    part = kind.PartitionData(
        partition_index=3,
        error_code=0,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=1,
        aborted_transactions=[kind.PartitionData.AbortedTransaction(producer_id=7, first_offset=2)],
        records=records,
    )
    response = FetchResponse(
        version=version, responses=[kind(topic="t", topic_id=topic_id, partitions=[part])]
    )
    response.with_header(correlation_id=1)
    return bytearray(response.encode(header=True))


@pytest.mark.parametrize("version", [4, 11, 12, 13, FetchResponse.max_version])
def test_records_of_a_fetch_are_views_of_the_frame(version: int) -> None:
    keep_record_views()
    topic_id = uuid.uuid4()
    records = bytes(range(256)) * 8
    body = _answer(version, records, topic_id)
    protocol = KafkaProtocol(client_id="x")
    request = FetchRequest(version=version, max_wait_ms=0, min_bytes=0, topics=[])
    protocol.send_request(request)
    correlation, answer = protocol._process_response(ResponseBuffer(body))
    topic = answer.responses[0]
    part = topic.partitions[0]
    assert correlation == 1
    assert topic.topic_id == (topic_id if version >= 13 else None)
    assert isinstance(part.records, memoryview)
    assert part.records.obj is body
    assert part.records == records
    assert part.aborted_transactions[0].producer_id == 7


def test_short_records_and_none_are_kept_as_bytes() -> None:
    keep_record_views()
    protocol = KafkaProtocol(client_id="x")
    protocol.send_request(FetchRequest(version=12, max_wait_ms=0, min_bytes=0, topics=[]))
    _, answer = protocol._process_response(ResponseBuffer(_answer(12, b"abc", uuid.uuid4())))
    assert answer.responses[0].partitions[0].records == b"abc"


def test_requests_know_the_versions_kafkeep_chooses_from() -> None:
    assert FetchRequest.max_version >= 13
    assert ProduceRequest.max_version >= 13
    assert OffsetFetchRequest.max_version >= 9
    assert OffsetCommitRequest.max_version >= 9


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (1, "OFFSET_OUT_OF_RANGE"),
        (6, "NOT_LEADER_FOR_PARTITION"),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (74, "FENCED_LEADER_EPOCH"),
        (75, "UNKNOWN_LEADER_EPOCH"),
        (87, "INVALID_RECORD"),
        (100, "UNKNOWN_TOPIC_ID"),
    ],
)
def test_error_codes_have_their_names(code: int, name: str) -> None:
    assert kafka.errors.for_code(code).message == name
