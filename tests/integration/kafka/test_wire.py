from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.support.waiting import PATIENCE_S, until

from kafkeep.dev import DevStatus
from kafkeep.errors import TransientError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.client.metadata import format_topic_id
from kafkeep.kafka.client.wire import FetchErrorKind, FetchPosition, Isolation, Wire, wire_for
from kafkeep.options.kafka import KafkaOptions

pytestmark = [pytest.mark.integration, pytest.mark.core(suite="client")]
MEGABYTE = 1 << 20


def wanted(topic: str, partition: int = 0, offset: int = 0, topic_id: str = "") -> FetchPosition:
    return FetchPosition(topic, topic_id, partition, offset, MEGABYTE)


def base_offsets(records: bytes | memoryview) -> list[int]:
    found, at, data = [], 0, bytes(records)
    while at + 12 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length > len(data):
            break
        found.append(base)
        at += 12 + length
    return found


def test_what_is_produced_is_fetched(wire: Wire, topic: str, make_batch: Any) -> None:
    batches = {(topic, p): make_batch([b"v%d" % p, b"w"]) for p in range(3)}
    produced = wire.produce(batches).result()
    assert {p.error_code for p in produced.values()} == {0}
    answers = wire.fetch([wanted(topic, p) for p in (2, 0, 1)], max_bytes=MEGABYTE).result()
    assert [a.partition for a in answers] == [2, 0, 1]
    for answer in answers:
        assert b"v%d" % answer.partition in bytes(answer.records)
        assert (answer.log_start, answer.last_stable, answer.high_watermark) == (0, 2, 2)


def test_fetch_by_a_wrong_topic_id_says_the_topic_is_gone(
    wire: Wire, admin: Admin, topic: str, make_batch: Any
) -> None:
    wire.produce({(topic, 0): make_batch([b"x"])}).result()
    right = admin.topics([topic])[topic].topic_id
    [answer] = wire.fetch([wanted(topic, topic_id=right)], max_bytes=MEGABYTE).result()
    assert answer.error is None
    other = format_topic_id(uuid.uuid4())
    [answer] = wire.fetch([wanted(topic, topic_id=other)], max_bytes=MEGABYTE).result()
    assert answer.error is not None
    assert (answer.error.kind, answer.error.code) == (FetchErrorKind.TOPIC_GONE, 100)


def test_a_re_created_topic_is_not_mixed_in(
    wire: Wire, admin: Admin, topic: str, make_batch: Any
) -> None:
    old = admin.topics([topic])[topic].topic_id
    wire.fetch([wanted(topic, topic_id=old)], max_bytes=MEGABYTE, wait_ms=0).result()
    with Wire(wire.options) as other:
        Admin(other).delete_topics([topic])
        Admin(other).create_topic(topic, 3)
    [answer] = wire.fetch([wanted(topic, topic_id=old)], max_bytes=MEGABYTE).result()
    assert answer.error is not None
    assert answer.error.kind is FetchErrorKind.TOPIC_GONE


def test_a_client_that_remembers_the_old_topic_reads_the_new_one(
    wire: Wire, topic: str, make_batch: Any
) -> None:
    wire.produce({(topic, 0): make_batch([b"old"])}).result()
    with Wire(wire.options) as other:
        Admin(other).delete_topics([topic])
        new = Admin(other).create_topic(topic, 3).topic_id
        other.produce({(topic, 0): make_batch([b"new"])}).result()
    [answer] = wire.fetch([wanted(topic, topic_id=new)], max_bytes=MEGABYTE).result()
    assert answer.error is None
    assert b"new" in bytes(answer.records)


def test_an_offset_out_of_range_is_an_error_that_does_not_name_the_log_start(
    wire: Wire, admin: Admin, topic: str, make_batch: Any
) -> None:
    wire.produce({(topic, 0): make_batch([b"x"] * 10)}).result()
    assert admin.delete_records({(topic, 0): 4}) == {(topic, 0): 4}
    [answer] = wire.fetch([wanted(topic, offset=1)], max_bytes=MEGABYTE).result()
    assert answer.error is not None
    assert answer.error.kind is FetchErrorKind.OFFSET_OUT_OF_RANGE
    assert answer.log_start == -1
    [answer] = wire.fetch([wanted(topic, offset=4)], max_bytes=MEGABYTE).result()
    assert answer.error is None
    assert answer.log_start == 4


def test_aborted_transactions_are_listed(wire: Wire, services: DevStatus, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": services.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    producer.flush()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(topic, b"kept", partition=0)
    producer.commit_transaction()
    [answer] = wire.fetch([wanted(topic)], max_bytes=MEGABYTE).result()
    assert [first for _, first in answer.aborted] == [0]
    [answer] = wire.fetch(
        [wanted(topic)], max_bytes=MEGABYTE, isolation=Isolation.READ_UNCOMMITTED
    ).result()
    assert list(answer.aborted) == []


def test_an_open_transaction_holds_back_the_last_stable_offset(
    wire: Wire, admin: Admin, services: DevStatus, topic: str
) -> None:
    producer = Producer(
        {"bootstrap.servers": services.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush()
    assert admin.offsets([(topic, 0)], OffsetSpec.LATEST) == {(topic, 0): 1}
    assert admin.offsets([(topic, 0)], OffsetSpec.LAST_STABLE) == {(topic, 0): 0}
    producer.abort_transaction()


def test_a_record_far_larger_than_the_limits_is_fetched(
    wire: Wire, topic: str, make_batch: Any
) -> None:
    value = os.urandom(MEGABYTE) * 21
    assert wire.produce({(topic, 0): make_batch([value])}).result()[topic, 0].error_code == 0
    [answer] = wire.fetch([FetchPosition(topic, "", 0, 0, 1000)], max_bytes=1000).result()
    assert value in bytes(answer.records)


def test_many_fetches_in_flight_are_all_answered(wire: Wire, topic: str, make_batch: Any) -> None:
    batch = make_batch([b"x" * 1000] * 100)
    assert wire.produce({(topic, 0): batch}).result()[topic, 0].error_code == 0
    pending = [wire.fetch([wanted(topic)], max_bytes=MEGABYTE) for _ in range(40)]
    assert {len(p.result()[0].records) for p in pending} == {len(batch)}


def test_requests_to_a_broker_keep_the_order_of_the_calls(
    wire: Wire, admin: Admin, topic: str, make_batch: Any
) -> None:
    producer_id, _ = admin.init_producer_id()
    pending = [
        wire.produce({(topic, 0): make_batch([b"x"], producer_id=producer_id, sequence=i)})
        for i in range(50)
    ]
    found = [p.result()[topic, 0] for p in pending]
    assert [(p.error_code, p.base_offset) for p in found] == [(0, i) for i in range(50)]


def test_a_batch_sent_twice_is_stored_once(
    wire: Wire, admin: Admin, topic: str, make_batch: Any
) -> None:
    producer_id, epoch = admin.init_producer_id()
    assert epoch == 0
    batch = make_batch([b"a", b"b"], producer_id=producer_id, sequence=0)
    first = wire.produce({(topic, 0): batch}).result()[topic, 0]
    again = wire.produce({(topic, 0): batch}).result()[topic, 0]
    assert (first.error_code, first.base_offset) == (again.error_code, again.base_offset) == (0, 0)
    assert admin.offsets([(topic, 0)], OffsetSpec.LATEST)[topic, 0] == 2


def test_refused_batches_come_back_as_codes(
    wire: Wire, admin: Admin, topic: str, make_batch: Any
) -> None:
    producer_id, _ = admin.init_producer_id()
    wire.produce({(topic, 0): make_batch([b"a"], producer_id=producer_id, sequence=0)}).result()

    def code(batch: bytes) -> int:
        return wire.produce({(topic, 0): batch}).result()[topic, 0].error_code

    assert code(make_batch([b"a"], producer_id=producer_id, sequence=7)) == 45
    assert code(make_batch([b"a"], base_offset=5)) == 87
    assert code(make_batch([b"a"]) * 2) == 87
    assert code(make_batch([b"a"], producer_id=producer_id, sequence=1, attributes=0x10)) in (
        48,
        53,
    )
    broken = bytearray(make_batch([b"abc"]))
    broken[-2] ^= 1
    assert code(bytes(broken)) == 2


def test_a_topic_that_is_not_there_is_gone_within_seconds(wire: Wire) -> None:
    began = time.monotonic()
    [answer] = wire.fetch([wanted("no-such-topic")], max_bytes=MEGABYTE).result()
    assert answer.error is not None
    assert answer.error.kind is FetchErrorKind.TOPIC_GONE
    assert time.monotonic() - began < 45  # a fetch waits for a minute


def test_one_wire_per_process_and_options(services: DevStatus) -> None:
    options = KafkaOptions(services.bootstrap_servers)
    wire = wire_for(options)
    assert wire_for(KafkaOptions(services.bootstrap_servers)) is wire
    assert wire_for(KafkaOptions(services.bootstrap_servers, {"client.id": "b"})) is not wire
    wire.close()
    fresh = wire_for(options)
    assert fresh is not wire
    fresh.close()


def test_a_forked_child_makes_its_own_wire(services: DevStatus) -> None:
    script = f"""
import os
from kafkeep.options.kafka import KafkaOptions
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import wire_for
options = KafkaOptions({services.bootstrap_servers!r})
cluster = Admin(wire_for(options)).cluster_id()
child = os.fork()
if child == 0:
    os._exit(0 if Admin(wire_for(options)).cluster_id() == cluster else 1)
assert os.waitpid(child, 0)[1] == 0
assert Admin(wire_for(options)).cluster_id() == cluster
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_S)


def test_an_unreachable_cluster_is_one_clear_error_in_bounded_time() -> None:
    began = time.monotonic()
    with Wire(KafkaOptions("127.0.0.1:1"), connect_timeout_ms=1500) as nowhere:
        pending = nowhere.fetch([wanted("x")], max_bytes=1)
        with pytest.raises(TransientError, match=r"cannot reach Kafka at 127\.0\.0\.1:1") as raised:
            pending.result()
    assert raised.value.hint
    assert time.monotonic() - began < 30


def test_closing_fails_what_is_pending(services: DevStatus, topic: str) -> None:
    wire = Wire(KafkaOptions(services.bootstrap_servers))
    wire.fetch([wanted(topic)], max_bytes=MEGABYTE, wait_ms=0).result()
    [broker] = wire.link.nodes()
    pending = wire.fetch([wanted(topic)], max_bytes=MEGABYTE, wait_ms=30_000)
    until(lambda: wire.link.connections.in_flight(broker), "the request is sent")
    wire.close()
    with pytest.raises(TransientError):
        pending.result(25)
