"""The topics of the live cluster: read once for many pages, and seldom when reading is slow."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkeep.connect.catalog.cluster import FRESH_S, LiveCluster
from kafkeep.kafka.client.metadata import TopicDescription
from kafkeep.options.kafka import KafkaOptions


class Broker:
    """Answers with one topic; each answer takes ``took_s`` of a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.took_s = 0.0
        self.asked = 0

    def topics(self) -> Mapping[str, TopicDescription]:
        self.asked += 1
        self.now += self.took_s
        return {"orders": TopicDescription("orders", f"id-{self.asked}")}


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def cluster(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> LiveCluster:
    made = LiveCluster(KafkaOptions("localhost:1"), monotonic=lambda: broker.now)
    monkeypatch.setattr(made, "admin", lambda: broker)
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


def test_pages_show_older_topics_while_one_of_them_reads(
    broker: Broker, cluster: LiveCluster
) -> None:
    first = cluster.topics()
    broker.now += FRESH_S + 0.1
    with cluster._reading:
        assert cluster.topics() is first
    assert cluster.topics() is not first
