"""Commits removed behind kafkeep's back: no command goes on as if the log ended there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.support.cluster import Cluster
from tests.support.independent_client import assert_same, dump
from tests.support.run_kafkeep import kafkeep

from kafkeep.archive.checkpoint import Checkpointer, load_log
from kafkeep.archive.keys import log_key
from kafkeep.maintenance.verify import lost_commits
from kafkeep.retry import RetryPolicy
from kafkeep.store.local.store import LocalStore

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]


@contextmanager
def removed(store: LocalStore, first: int, last: int) -> Iterator[None]:
    """Let the commits ``first..last`` be gone for a while."""
    bodies = {key: store.get(key) for key in (log_key("backup", n) for n in range(first, last + 1))}
    for key in bodies:
        store.delete(key)
    yield
    for key, body in bodies.items():
        store.put_new(key, body)


def test_removed_commits_are_reported_by_verify_and_below_a_checkpoint_by_every_command(
    cluster: Cluster,
    topic_name: str,
    local_archive: Path,
    session: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
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
    head = load_log(store, "backup")
    last = head.state.commit
    quick = RetryPolicy(first_wait_s=0.5, attempts=2)  # nothing runs beside it
    monkeypatch.setattr(lost_commits, "LATE_COMMIT", quick)
    for begin in (last, last - 2):  # the newest commit; and all of the second backup
        with removed(store, begin, last):
            verified = kafkeep("verify", *where).expect(3)
        found = [f for f in verified.json["findings"] if f["kind"] == "lost-commits"]
        assert len(found) == 1 and "30 to 41" in found[0]["message"]
        assert not verified.json["intact"]
    kafkeep("verify", *where).expect(0)
    with removed(store, last, last):
        verified = kafkeep("verify", *where).expect(3)
    assert f"commit {last} was removed from the log since it was verified" in verified.stdout

    assert Checkpointer(store, head.base, head.tail, every=1).write(head.state)
    for number in range(end + 1, last + 1):
        store.delete(log_key("backup", number))

    said = f"commits from {end + 1} on were removed from the log"
    lost = f"12 offsets are lost with them: 30 to 41 of {topic_name}-0"
    restore = ("restore", "--topics", f"{topic_name}:{topic_name}-back", *both)
    for command in (restore, backup, ("drill", *both), ("info", *where), ("verify", *where)):
        ended = kafkeep(*command).expect(13)
        assert lost in ended.stderr + ended.stdout, command[0]
    assert said in kafkeep(*restore).stderr
    with pytest.raises(PySparkException, match=said):
        session.read.format("kafkeep").load(str(local_archive)).count()

    hint = ("--name", "backup", "--commit", end)
    assert kafkeep(*restore, *hint).expect(0).json["records"] == 30
    assert_same(first, dump(cluster.bootstrap, f"{topic_name}-back"))
