"""The topics of the live cluster: read once for many pages, and seldom when reading is slow."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest
from tests.support.waiting import until

from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.readings import FRESH_S, LARGE
from kafkeep.kafka.client.metadata import PartitionDescription, TopicDescription
from kafkeep.options.kafka import KafkaOptions


class Broker:
    """Answers with one topic; each answer takes ``took_s`` of a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.took_s = 0.0
        self.asked = 0
        self.partitions = 1
        self.is_free = threading.Event()
        self.is_free.set()

    def topics(self) -> Mapping[str, TopicDescription]:
        self.asked += 1
        self.is_free.wait()
        self.now += self.took_s
        one = PartitionDescription(index=0, leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,))
        partitions = dict.fromkeys(range(self.partitions), one)
        topic = TopicDescription("orders", f"id-{self.asked}", False, partitions)
        return {"orders": topic}


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def cluster(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> LiveCluster:
    made = LiveCluster(KafkaOptions("localhost:1"), monotonic=lambda: broker.now)
    monkeypatch.setattr(made, "admin", lambda **_: broker)
    return made


def test_topics_are_read_again_when_they_are_old(broker: Broker, cluster: LiveCluster) -> None:
    first = cluster.topics()
    broker.now += FRESH_S - 0.1
    assert cluster.topics() is first
    broker.now += 0.2
    assert cluster.topics()["orders"].topic_id == "id-2"


def test_topics_that_take_long_to_read_are_shown_for_longer(
    broker: Broker, cluster: LiveCluster
) -> None:
    broker.took_s = 0.5
    first = cluster.topics()
    broker.now += 9.9
    assert cluster.topics() is first
    broker.now += 0.2
    assert cluster.topics() is not first


def test_no_page_waits_while_the_topics_of_a_large_cluster_are_read_again(
    broker: Broker, cluster: LiveCluster
) -> None:
    broker.partitions = LARGE
    first = cluster.topics()
    broker.now += FRESH_S + 0.1
    broker.is_free.clear()
    assert cluster.topics() is first
    assert cluster.topics() is first
    broker.is_free.set()
    until(lambda: cluster.topics()["orders"].topic_id == "id-2")
    assert broker.asked == 2
