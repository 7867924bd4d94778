"""Commits removed behind kafkeep's back: no command goes on as if the log ended there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cluster import Cluster
from kafkeep.archive.checkpoint import Checkpointer
from kafkeep.archive.head import load_head
from kafkeep.archive.keys import log_key
from kafkeep.store.local import LocalStore
from oracle import assert_same, dump
from runs import kafkeep

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]


def test_restore_exits_13_on_a_log_cut_below_its_own_checkpoint_and_restores_what_is_left(
    cluster: Cluster, topic_name: str, local_archive: Path
) -> None:
    cluster.create(topic_name)
    where = ("--archive", local_archive, "--output", "json")
    both = (*where, "--bootstrap-servers", cluster.bootstrap)
    backup = ("backup", "--topics", topic_name, *both)
    cluster.fill(topic_name, 30)
    end = kafkeep(*backup).expect(0).json["commit"]
    first = dump(cluster.bootstrap, topic_name)
    cluster.fill(topic_name, 12)
    kafkeep(*backup).expect(0)

    store = LocalStore(local_archive)
    head = load_head(store, "backup")
    assert Checkpointer(store, head.base, head.tail, every=1).write(head.state)
    for number in range(end + 1, head.state.commit + 1):
        store.delete(log_key("backup", number))

    said = f"commits from {end + 1} on were removed from the log"
    lost = f"12 offsets are lost with them: 30 to 41 of {topic_name}-0"
    restore = ("restore", "--topics", f"{topic_name}:{topic_name}-back", *both)
    for command in (restore, backup, ("drill", *both), ("info", *where), ("verify", *where)):
        ended = kafkeep(*command).expect(13)
        assert lost in ended.stderr + ended.stdout, command[0]
    assert said in kafkeep(*restore).stderr
    session = SparkSession.getActiveSession()
    assert session is not None
    with pytest.raises(PySparkException, match=said):
        session.read.format("kafkeep").load(str(local_archive)).count()

    hint = ("--name", "backup", "--commit", end)
    assert kafkeep(*restore, *hint).expect(0).json["records"] == 30
    assert_same(first, dump(cluster.bootstrap, f"{topic_name}-back"))
