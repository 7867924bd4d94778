"""A leader that never had the last records takes over: its log is not mixed with the archive's."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic
from tests.support.cluster import WAIT, Cluster
from tests.support.independent_client import assert_same, dump
from tests.support.run_kafkeep import Driver, kafkeep
from tests.support.waiting import until

from kafkeep.archive.log_check import check_log
from kafkeep.archive.view import load_view
from kafkeep.dev import DevStatus, kill_broker, start_broker
from kafkeep.store.local import LocalStore

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
FIRST, SECOND = 2, 3
"""The brokers with the topic's replicas; the third only votes."""


def leader(cluster: Cluster, topic: str) -> int | None:
    """Return the leader that the brokers know of by now."""
    known = cluster.admin.list_topics(topic, timeout=WAIT).topics[topic].partitions.get(0)
    return None if known is None else int(known.leader)


def in_sync(cluster: Cluster, topic: str) -> list[int]:
    known = cluster.admin.list_topics(topic, timeout=WAIT).topics[topic].partitions.get(0)
    return [] if known is None else sorted(known.isrs)


def let_the_second_take_over(cluster: Cluster, folder: Path, topic: str) -> None:
    """End the one broker that has all records and elect the one that has not."""
    kill_broker(folder, FIRST)
    start_broker(folder, SECOND)

    def elected() -> bool:
        wanted = [TopicPartition(topic, 0)]
        cluster.admin.elect_leaders(ElectionType.UNCLEAN, wanted).result(WAIT)
        return leader(cluster, topic) == SECOND

    until(elected, "the second broker leads")


def test_a_log_that_an_unclean_election_cut_back_is_refused_and_both_histories_stay(
    three: DevStatus, topic_name: str, local_archive: Path, tmp_path: Path
) -> None:
    cluster, folder = Cluster(three.bootstrap_servers), Path(three.folder)
    topic = NewTopic(topic_name, 1, replica_assignment=[[FIRST, SECOND]], config=UNCLEAN)
    cluster.admin.create_topics([topic])[topic_name].result(WAIT)
    until(lambda: in_sync(cluster, topic_name) == [FIRST, SECOND], "both have the topic")
    cluster.fill(topic_name, 100)
    kill_broker(folder, SECOND)
    until(lambda: in_sync(cluster, topic_name) == [FIRST], "one is left in sync")
    cluster.fill(topic_name, 100, first=100)
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", local_archive)
    backup = ("backup", "--topics", topic_name, *where)
    kafkeep(*backup).expect(0)
    cluster.fill(topic_name, 50, first=200)
    dies = {"KAFKEEP_FAILPOINT": "task.start:exit"}
    Driver(tmp_path / "dies", *backup, env=dies).wait().expect(1)
    old = load_view(LocalStore(local_archive), "backup")
    assert old.intent is not None

    let_the_second_take_over(cluster, folder, topic_name)
    cluster.fill(topic_name, 300, first=1000)
    assert cluster.end(topic_name) == 400

    for _ in range(2):
        refused = kafkeep(*backup).expect(1)
        assert "under the same topic id" in refused.stderr
        assert "--name" in refused.stderr
    now = load_view(LocalStore(local_archive), "backup")
    assert list(now.entries()) == list(old.entries()) and now.positions == old.positions
    kafkeep(*backup, "--name", "new-history").expect(0)
    assert check_log(LocalStore(local_archive), "new-history") == []
    back = f"{topic_name}-back"
    new = ("--name", "new-history", "--replication-factor", 1)
    kafkeep("restore", "--topics", f"{topic_name}:{back}", *new, *where).expect(0)
    assert_same(dump(cluster.bootstrap, topic_name), dump(cluster.bootstrap, back))
