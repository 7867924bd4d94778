"""Consumer groups as the console shows them: real offsets beside archived ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.support.archive_builder import build_archive, partition
from tests.support.cluster import Cluster
from tests.support.waiting import until

from kafkeep.archive.commit import Changes
from kafkeep.archive.entry import PartitionId
from kafkeep.connect.catalog.archives.archives import ArchivePlace, Archives
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.groups import ConsumerGroups
from kafkeep.connect.model import RestError
from kafkeep.dev import DevStatus
from kafkeep.options.kafka import KafkaOptions
from kafkeep.store.open import open_store

pytestmark = pytest.mark.integration


class Scene:
    """A topic with a group, and an archive that saved where the group was."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.cluster, self.topic, self.group = Cluster(bootstrap), topic, f"g/{topic}\n"
        self.cluster.create(topic, 2)
        self.cluster.fill(topic, 50)
        self.cluster.commit_offset(self.group, topic, 30)
        self.place = ArchivePlace(address=str(folder), connectors=("sink",))
        parts = [partition(0, 20), partition(0, 5)]
        self.built = build_archive(
            open_store(str(folder)),
            {topic: parts},
            groups={self.group: {PartitionId(topic, 1, 0): 12, PartitionId(topic, 1, 1): 5}},
        )
        live = LiveCluster(KafkaOptions(bootstrap))
        self.groups = ConsumerGroups(live, Archives(lambda: [self.place]))

    def close(self) -> None:
        self.groups.cluster.close()


@pytest.fixture
def scene(services: DevStatus, topic_name: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(services.bootstrap_servers, topic_name, tmp_path)
    yield made
    made.close()


def test_saved_and_live_offsets_stand_side_by_side(scene: Scene) -> None:
    found = scene.groups.details(scene.group)
    assert found.state == "Empty"
    assert found.saved is not None
    assert (found.saved.log, found.saved.commit) == ("backup", 2)
    [first, second] = found.rows
    assert (first.saved, first.live, first.end, first.lag) == (12, 30, 50, 20)
    assert (second.saved, second.live, second.end, second.lag) == (5, None, 0, None)
    assert first.note == "The topic was created again: its offsets are others."
    [summary] = [one for one in scene.groups.list_all().groups if one.id == scene.group]
    assert (summary.state, summary.topics, summary.partitions) == ("Empty", 1, 2)
    assert scene.groups.with_lag([summary])[0].lag == 20


def test_an_earlier_commit_shows_what_it_saved(scene: Scene) -> None:
    pid = PartitionId(scene.topic, 1, 0)
    scene.built.log.append(Changes(groups={scene.group: {pid: 17}}))
    until(lambda: scene.groups.details(scene.group).rows[0].saved == 17, "the commit is seen")
    earlier = scene.groups.details(scene.group, archive=scene.place.id, log="backup", commit=2)
    assert [row.saved for row in earlier.rows] == [12, 5]
    before = scene.groups.details(scene.group, log="backup", commit=1)
    assert [(row.saved, row.live) for row in before.rows] == [(None, 30)]


def test_members_are_shown_with_their_partitions(scene: Scene) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": scene.cluster.bootstrap,
            "group.id": scene.group,
            "client.id": "reader-1",
        }
    )
    try:
        consumer.subscribe([scene.topic])
        until(lambda: consumer.poll(0.2) is None and bool(consumer.assignment()), "it is assigned")
        until(lambda: scene.groups.details(scene.group).state == "Stable", "the group is stable")
        [member] = scene.groups.details(scene.group).members
        assert member.client_id == "reader-1"
        assert member.partitions == ((scene.topic, 0), (scene.topic, 1))
    finally:
        consumer.close()


def test_a_group_that_kafka_lost_is_still_in_the_archive(scene: Scene) -> None:
    scene.cluster.delete(scene.topic)
    found = scene.groups.details(scene.group, start=1, count=1)
    assert found.row_count == 2
    assert found.rows[0].partition == 1
    assert found.rows[0].note == "The topic is not in Kafka."
    with pytest.raises(RestError, match="There is no consumer group 'nobody'"):
        scene.groups.details("nobody")


def test_groups_of_archives_are_shown_while_kafka_is_away(scene: Scene) -> None:
    away = LiveCluster(KafkaOptions("127.0.0.1:1"))
    groups = ConsumerGroups(away, scene.groups.archives)
    try:
        found = groups.list_all()
        assert [one.id for one in found.groups] == [scene.group]
        assert "127.0.0.1:1" in found.problem
        details = groups.details(scene.group)
        assert [row.saved for row in details.rows] == [12, 5]
        assert details.problem
    finally:
        away.close()
