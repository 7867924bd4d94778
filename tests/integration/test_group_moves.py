"""Groups moved from the console: what is planned is set, and every change can be undone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.support.archive_builder import build_archive, partition
from tests.support.cluster import Cluster
from tests.support.waiting import until

from kafkeep.archive.commit import Changes
from kafkeep.archive.entry import PartitionId
from kafkeep.clock import now_ms
from kafkeep.connect.catalog.archives.archives import ArchivePlace, Archives
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.group_moves import GroupMoveRequest, GroupMoves
from kafkeep.connect.catalog.groups import ConsumerGroups
from kafkeep.connect.model import RestError
from kafkeep.dev import DevStatus
from kafkeep.errors import PreflightError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.store.open import open_store

pytestmark = pytest.mark.integration


def moves_of(bootstrap: str, folder: str) -> GroupMoves:
    cluster = LiveCluster(KafkaOptions(bootstrap))
    archives = Archives(lambda: [ArchivePlace(address=folder, connectors=("sink",))])
    return GroupMoves(cluster, archives, ConsumerGroups(cluster, archives), now_ms)


class Scene:
    """A topic of two partitions; the archive saved 12 and 90 (past its end) of the group."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.cluster, self.topic = Cluster(bootstrap), topic
        self.group, self.folder = f"<b>/{topic}", str(folder)
        self.cluster.create(topic, 2)
        for number in (0, 1):
            self.cluster.fill(topic, 50, partition=number)
        self.commit({0: 30})
        self.moves = moves_of(bootstrap, self.folder)
        self.built = build_archive(
            open_store(self.folder), {topic: [partition(0, 20), partition(0, 50)]}
        )
        self.archive()

    def archive(self) -> None:
        """Let the log name the topic that is in Kafka now, and save the offsets of the group."""
        log, topic = self.built.log, self.topic
        [info] = log.state.topics.values()
        there = self.moves._cluster.admin().topics([topic])[topic]
        saved = {PartitionId(topic, 1, 0): 12, PartitionId(topic, 1, 1): 90}
        log.append(
            Changes(topics=(replace(info, topic_id=there.topic_id),), groups={self.group: saved})
        )

    def commit(self, offsets: Mapping[int, int]) -> None:
        for number, offset in offsets.items():
            self.cluster.commit_offset(self.group, self.topic, offset, number)

    def live(self) -> dict[int, int]:
        """Return the offsets as a client that is not kafkeep's sees them; without those of none."""
        places = [TopicPartition(self.topic, number) for number in (0, 1)]
        with self.cluster.consumer(self.group) as consumer:
            found = consumer.committed(places, 30)
        return {one.partition: one.offset for one in found if one.offset >= 0}

    @property
    def request(self) -> GroupMoveRequest:
        return GroupMoveRequest(group=self.group)


@pytest.fixture
def scene(services: DevStatus, topic_name: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(services.bootstrap_servers, topic_name, tmp_path)
    yield made
    made.moves._cluster.close()


def test_a_plan_says_what_it_would_set_and_why_and_writes_nothing(scene: Scene) -> None:
    plan = scene.moves.plan(scene.request)
    assert not plan.is_refused
    assert [(one.live, one.move.offset, one.why) for one in plan.moves] == [
        (30, 12, "the saved offset"),
        (None, 50, "limited: the archive ends at 50"),
    ]
    assert scene.live() == {0: 30}
    assert scene.moves.snapshots(scene.group) == []


def test_a_move_can_be_rolled_back_and_the_roll_back_too(scene: Scene) -> None:
    scene.moves.apply(scene.request, scene.moves.plan(scene.request).digest)
    assert scene.live() == {0: 12, 1: 50}
    [before] = scene.moves.snapshots(scene.group)
    assert before.offsets == {(scene.topic, 0): 30, (scene.topic, 1): None}
    assert before.is_finished
    assert scene.moves.roll_back(scene.group, before) == []
    assert scene.live() == {0: 30}
    moved, first = scene.moves.snapshots(scene.group)
    assert first == before
    assert moved.offsets == {(scene.topic, 0): 12, (scene.topic, 1): 50}
    scene.moves.roll_back(scene.group, moved)
    assert scene.live() == {0: 12, 1: 50}


def test_only_the_plan_that_was_shown_is_applied(scene: Scene) -> None:
    digest = scene.moves.plan(scene.request).digest
    scene.built.log.append(Changes(groups={scene.group: {PartitionId(scene.topic, 1, 0): 15}}))
    with pytest.raises(RestError, match="The plan has changed") as refusal:
        scene.moves.apply(scene.request, digest)
    assert refusal.value.status == 409
    assert scene.live() == {0: 30}


def test_an_active_group_is_refused(scene: Scene) -> None:
    digest = scene.moves.plan(scene.request).digest
    scene.moves.apply(scene.request, digest)
    [snapshot] = scene.moves.snapshots(scene.group)
    consumer = Consumer(
        {
            "bootstrap.servers": scene.cluster.bootstrap,
            "group.id": scene.group,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([scene.topic])
        until(lambda: consumer.poll(0.2) is not None or bool(consumer.assignment()), "it joined")
        plan = scene.moves.plan(scene.request)
        assert plan.is_refused
        assert "it has active members" in plan.checks[-1].what
        with pytest.raises(PreflightError, match="active"):
            scene.moves.apply(scene.request, digest)
        with pytest.raises(PreflightError, match="is active"):
            scene.moves.roll_back(scene.group, snapshot)
    finally:
        consumer.close()
    assert len(scene.moves.snapshots(scene.group)) == 1


def test_a_topic_that_was_created_again_is_left_out(scene: Scene) -> None:
    scene.moves.apply(scene.request, scene.moves.plan(scene.request).digest)
    [snapshot] = scene.moves.snapshots(scene.group)
    scene.cluster.delete(scene.topic)
    gone = scene.moves.plan(scene.request)
    assert gone.is_refused
    assert gone.checks[0].what == "the topic is not in Kafka: it is left out"
    with pytest.raises(PreflightError, match="none of the partitions"):
        scene.moves.roll_back(scene.group, snapshot)
    scene.cluster.create(scene.topic, 1)
    until(
        lambda: "created again" in scene.moves.plan(scene.request).checks[0].what,
        "the new topic is seen",
    )
    wanted = GroupMoveRequest(group=scene.group, topics=((scene.topic, scene.topic),))
    named = scene.moves.plan(wanted)
    assert named.is_refused
    assert "neither the one that was archived" in named.checks[0].what
    assert scene.moves.split_missing(snapshot)[1] == [(scene.topic, 1)]


@pytest.mark.parametrize(
    "place", [("x", "00", 0), ("", "0" * 32, 0), ("", "../secret", 0), ("", "", 0)]
)
def test_offsets_that_were_never_stored_are_not_found(
    scene: Scene, place: tuple[str, str, int]
) -> None:
    archive, restore, revision = place
    known = scene.moves._archives.places()[0].id
    with pytest.raises(RestError) as refusal:
        scene.moves.snapshot(scene.group, archive or known, restore, revision)
    assert refusal.value.status == 404


# --- killed on the way

_DYING = """
import sys
from kafkeep.failpoint import arm_from_environment
from tests.integration.test_group_moves import moves_of
from kafkeep.connect.catalog.group_moves import GroupMoveRequest
bootstrap, folder, group, what = sys.argv[1:]
moves = moves_of(bootstrap, folder)
request = GroupMoveRequest(group=group)
if what == "apply":
    digest = moves.plan(request).digest
    arm_from_environment()
    moves.apply(request, digest)
else:
    first = moves.snapshots(group)[-1]
    arm_from_environment()
    moves.roll_back(group, first)
"""


def die(scene: Scene, what: str, failpoint: str) -> None:
    """Run a change in a process that is killed at a place."""
    ended = subprocess.run(
        [sys.executable, "-c", _DYING, scene.cluster.bootstrap, scene.folder, scene.group, what],
        env={**os.environ, "KAFKEEP_FAILPOINT": failpoint},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 137, ended.stderr.decode()


PLACES = ("groups.recorded:exit@1", "groups.halfway:exit@1", "groups.committed:exit@1")


@pytest.mark.parametrize(
    "place",
    [PLACES[0], *(pytest.param(place, marks=pytest.mark.slow) for place in PLACES[1:])],
)
def test_a_move_that_was_killed_is_rolled_back(scene: Scene, place: str) -> None:
    die(scene, "apply", place)
    [snapshot] = scene.moves.snapshots(scene.group)
    assert not snapshot.is_finished
    assert snapshot.offsets == {(scene.topic, 0): 30, (scene.topic, 1): None}
    scene.moves.roll_back(scene.group, snapshot)
    assert scene.live() == {0: 30}


@pytest.mark.slow
def test_a_roll_back_that_was_killed_is_done_again(scene: Scene) -> None:
    scene.moves.apply(scene.request, scene.moves.plan(scene.request).digest)
    for place in PLACES[1:]:
        die(scene, "roll back", place)
    assert [one.is_finished for one in scene.moves.snapshots(scene.group)] == [False, False, True]
    scene.moves.roll_back(scene.group, scene.moves.snapshots(scene.group)[-1])
    assert scene.live() == {0: 30}


def test_a_move_that_was_killed_is_applied_again(scene: Scene) -> None:
    die(scene, "apply", PLACES[0])
    scene.moves.apply(scene.request, scene.moves.plan(scene.request).digest)
    assert scene.live() == {0: 12, 1: 50}
    newest, first = scene.moves.snapshots(scene.group)
    assert [newest.is_finished, first.is_finished] == [True, False]
    assert first.offsets == {(scene.topic, 0): 30, (scene.topic, 1): None}
