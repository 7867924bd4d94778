from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.support.waiting import PATIENCE_S, until

from kafkeep.clock import now_ms
from kafkeep.dev import DevStatus
from kafkeep.errors import PreflightError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.admin.groups import commit_offsets, load_group_offsets
from kafkeep.kafka.client.wire import Wire

pytestmark = [pytest.mark.integration, pytest.mark.core(suite="client")]


@pytest.fixture
def group(services: DevStatus, topic: str) -> Iterator[str]:
    yield f"group-{topic}"


def test_the_cluster_reports_its_id(admin: Admin, services: DevStatus) -> None:
    assert len(admin.cluster_id()) == 22
    assert [f"{b.host}:{b.port}" for b in admin.brokers()] == [services.bootstrap_servers]
    assert admin.broker_version()[0] == int(services.kafka.split(".")[0])
    assert 1 in admin.api_versions()


def test_a_topic_is_created_described_changed_and_deleted(admin: Admin, topic_name: str) -> None:
    made = admin.create_topic(topic_name, 2, replication_factor=1, configs={"retention.ms": "1000"})
    assert (made.partition_count, made.replication_factor, made.internal) == (2, 1, False)
    assert len(made.topic_id) == 22
    assert admin.topic_configs([topic_name]) == {topic_name: {"retention.ms": "1000"}}
    in_force = admin.all_topic_configs([topic_name])[topic_name]
    assert in_force["retention.ms"].source == "topic"
    assert in_force["cleanup.policy"].value == "delete"
    admin.alter_topic_configs(
        topic_name, set={"cleanup.policy": "compact"}, delete=["retention.ms"]
    )
    wanted = {topic_name: {"cleanup.policy": "compact"}}
    until(lambda: admin.topic_configs([topic_name]) == wanted, "the settings are changed")
    assert admin.create_partitions(topic_name, 4).partition_count == 4
    admin.delete_topics([topic_name])
    assert admin.topics([topic_name]) == {}
    assert topic_name not in admin.topics()
    admin.delete_topics([topic_name])


def test_refusals_name_the_topic_and_the_reason(admin: Admin, topic: str) -> None:
    with pytest.raises(PreflightError, match=f"create topic {topic}: TOPIC_ALREADY_EXISTS"):
        admin.create_topic(topic, 1)
    with pytest.raises(PreflightError, match="INVALID_CONFIG"):
        admin.alter_topic_configs(topic, set={"no.such.setting": "1"})
    with pytest.raises(PreflightError, match="INVALID_REPLICATION_FACTOR"):
        admin.create_topic(f"{topic}-2", 1, replication_factor=7)
    with pytest.raises(PreflightError, match="no-such-topic-0 does not exist"):
        admin.offsets([("no-such-topic", 0)], OffsetSpec.LATEST)


def test_offsets_are_found_by_end_and_by_time(
    wire: Wire, admin: Admin, topic: str, make_batch: Any
) -> None:
    at = now_ms()
    wire.produce({(topic, 1): make_batch([b"x"] * 3, time_ms=at)}).result()
    both = [(topic, 0), (topic, 1)]
    assert admin.offsets(both, OffsetSpec.EARLIEST) == dict.fromkeys(both, 0)
    assert admin.offsets(both, OffsetSpec.LATEST) == {(topic, 0): 0, (topic, 1): 3}
    assert admin.offsets_for_times({(topic, 1): at}) == {(topic, 1): 0}
    assert admin.offsets_for_times({(topic, 1): at + 1}) == {(topic, 1): None}
    assert admin.epoch_ends({(topic, 1): 0})[topic, 1].end_offset == 3
    assert admin.partition_sizes({topic: [0, 1]})[topic, 1] > 60


def test_group_offsets_are_read_and_committed(admin: Admin, topic: str, group: str) -> None:
    commit_offsets(admin, group, {(topic, 0): 5, (topic, 2): 7})
    assert load_group_offsets(admin, [topic]).offsets[group] == {(topic, 0): 5, (topic, 2): 7}
    assert load_group_offsets(admin, ["other"]).offsets.get(group) is None
    assert load_group_offsets(admin, [topic], [group, "no-such-group"]).offsets.keys() == {group}


def test_an_active_group_is_read_but_refuses_offsets(
    admin: Admin, services: DevStatus, topic: str, group: str, make_batch: Any
) -> None:
    admin.wire.produce({(topic, 0): make_batch([b"x"] * 3)}).result()
    consumer = Consumer(
        {
            "bootstrap.servers": services.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        consumer.commit(message=message, asynchronous=False)
        assert load_group_offsets(admin, [topic]).offsets[group] == {(topic, 0): 1}
        with pytest.raises(PreflightError, match=f"group {group} is active"):
            commit_offsets(admin, group, {(topic, 0): 2})
    finally:
        consumer.close()
