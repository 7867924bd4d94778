"""What a backup does, told by its log, its summary and its exit code."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, until
from tests.support.independent_client import assert_same, count, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Driver, Outcome, kafkeep, members, signal_group

from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.errors import NoSuchArchiveError
from kafkeep.kafka.batch.layout import Record
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]


class Archive:
    """One archive, and the commands that fill and read it."""

    def __init__(self, cluster: Cluster, address: str) -> None:
        self.address = address
        self.where = ("--bootstrap-servers", cluster.bootstrap, "--archive", address)
        self.where += ("--output", "json")

    def backup(self, *arguments: object) -> Outcome:
        return kafkeep("backup", *self.where, *arguments)

    def restore(self, *arguments: object) -> Outcome:
        return kafkeep("restore", *self.where, *arguments)

    @property
    def view(self) -> ArchiveView:
        return load_view(open_store(self.address, StorageOptions.from_env()), "backup")

    def commits(self) -> int:
        return self.view.commits


@pytest.fixture
def archive(cluster: Cluster, archive_address: str) -> Archive:
    return Archive(cluster, archive_address)


@pytest.fixture
def topic(cluster: Cluster, topic_name: str) -> Iterator[str]:
    cluster.create(topic_name)
    yield topic_name
    if cluster.partitions(topic_name):
        cluster.delete(topic_name)


def test_a_second_run_archives_only_what_is_new(
    cluster: Cluster, archive: Archive, topic: str
) -> None:
    cluster.fill(topic, 100)
    assert archive.backup("--topics", topic).expect(0).json["records"] == 100
    cluster.fill(topic, 30, first=100)
    second = archive.backup("--topics", topic).expect(0).json
    assert (second["records"], second["objects"]) == (30, 1)
    assert [e.range for e in archive.view.entries()] == [OffsetRange(0, 100), OffsetRange(100, 130)]
    before = archive.commits()
    nothing = archive.backup("--topics", topic).expect(0).json
    assert (nothing["records"], nothing["objects"]) == (0, 0)
    assert archive.commits() == before + 1  # the epoch it took, and nothing else


def test_a_pattern_takes_matching_topics_and_leaves_internal_ones(
    cluster: Cluster, archive: Archive, topic_name: str
) -> None:
    for end in ("one", "two", "other.x"):
        cluster.create(f"{topic_name}-{end}")
    cluster.commit_offset(f"{topic_name}-group", f"{topic_name}-one", 0)
    done = archive.backup("--topics-regex", f"{topic_name}-(one|two)|__.*").expect(0)
    assert set(done.json["topics"]) == {f"{topic_name}-one", f"{topic_name}-two"}
    named = archive.backup("--topics", "__consumer_offsets", "--name", "internal").expect(0, 3)
    assert set(named.json["topics"]) == {"__consumer_offsets"}


def test_a_topics_regex_that_backtracks_on_a_topic_of_45_letters_is_answered(
    cluster: Cluster, archive: Archive
) -> None:
    letters = "a" * 45
    cluster.create(letters)
    try:
        refused = archive.backup("--topics-regex", "(a+)+$" * 6).expect(2)
        assert "no topic in Kafka matches" in refused.stderr
    finally:
        cluster.delete(letters)


@pytest.mark.core(suite="follow")
def test_following_picks_up_new_topics_and_partitions_and_ends_on_sigterm(
    cluster: Cluster, archive: Archive, topic_name: str, tmp_path: Path
) -> None:
    first, second = f"{topic_name}-1", f"{topic_name}-2"
    cluster.create(first)
    cluster.fill(first, 10)
    driver = Driver(
        tmp_path / "follow",
        *("backup", *archive.where, "--topics-regex", f"{topic_name}-.*", "--follow"),
        *("--interval", "200ms", "--segment-age", "100ms"),
    )
    try:
        until(lambda: _archived(archive, first) == 10, "the first topic")
        cluster.create(second)
        cluster.fill(second, 7)
        cluster.grow(first, 2)
        cluster.fill(first, 5, partition=1)
        until(lambda: _archived(archive, second) == 7, "the new topic")
        until(lambda: _archived(archive, first) == 15, "the new partition")
        driver.signal(signal.SIGTERM)
        done = driver.wait().expect(0)
    finally:
        driver.kill()
    assert done.json["message_type"] == "summary" and done.json["records"] == 22
    lines = [json.loads(line)["message_type"] for line in done.stdout.splitlines()]
    assert set(lines[:-1]) == {"commit"}
    assert not members(driver.group)


def test_a_rate_is_kept(cluster: Cluster, archive: Archive, topic: str) -> None:
    pad, mib = bytes(range(256)) * 4000, 1 << 20
    for i in range(8):
        cluster.records(topic, [Record(0, int(time.time() * 1000), b"%d" % i, pad)])
    done = archive.backup("--topics", topic, "--rate", "4MiB").expect(0).json
    assert done["records"] == 8 and done["bytes"] > 7 * mib
    assert done["bytes"] / done["seconds"] <= 4 * mib


def test_a_dry_run_names_what_a_backup_then_does_and_writes_nothing(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    archive = Archive(cluster, str(tmp_path / "new"))
    cluster.fill(topic, 100)
    first = archive.backup("--topics", topic, "--dry-run").expect(0).json
    assert (first["records_at_most"], first["commit"], first["new_topics"]) == (100, -1, [topic])
    assert not (tmp_path / "new").exists()
    archive.backup("--topics", topic).expect(0)
    cluster.fill(topic, 50, first=100)
    cluster.delete_records(topic, 120)
    before = {p: p.read_bytes() for p in (tmp_path / "new").rglob("*") if p.is_file()}
    second = archive.backup("--topics", topic, "--dry-run").expect(3).json
    assert before == {p: p.read_bytes() for p in (tmp_path / "new").rglob("*") if p.is_file()}
    archive.backup("--topics", f"{topic},nothing", "--dry-run").expect(2)
    archive.backup("--topics", topic, "--dry-run", "--on-gap", "fail").expect(3)
    done = archive.backup("--topics", topic).expect(3).json
    (lost,) = second["gaps"]
    assert (lost["start"], lost["end"]) == (100, 120) and second["gaps"] == done["gaps"]
    assert second["records_at_most"] == done["records"] == 30


def _archived(archive: Archive, topic: str) -> int:
    try:
        return sum(entry.records for entry in archive.view.entries(topic))
    except NoSuchArchiveError:
        return 0


@pytest.mark.core(suite="follow")
def test_records_deleted_before_they_were_read_are_a_gap(
    cluster: Cluster, archive: Archive, topic: str
) -> None:
    cluster.fill(topic, 50)
    archive.backup("--topics", topic).expect(0)
    cluster.fill(topic, 50, first=50)
    cluster.delete_records(topic, 80)
    before = archive.commits()
    refused = archive.backup("--topics", topic, "--on-gap", "fail").expect(3)
    assert f"{topic}-0: offsets 50 to 79" in refused.stderr and archive.commits() == before + 1
    assert len(archive.view.entries()) == 1
    done = archive.backup("--topics", topic).expect(3)
    assert f"{topic}-0: offsets 50 to 79 are lost" in done.stderr
    assert [(g.range, g.partition_id.topic) for g in archive.view.gaps] == [
        (OffsetRange(50, 80), topic)
    ]
    assert archive.view.entries()[-1].range == OffsetRange(80, 100)
    assert archive.backup("--topics", topic).expect(0).json["gaps"] == []


@pytest.mark.core(suite="follow")
@pytest.mark.parametrize("again", [20, 90])
def test_a_topic_created_again_is_an_incarnation_with_a_folder_of_its_own(
    cluster: Cluster,
    archive: Archive,
    topic: str,
    again: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster.fill(topic, 50)
    archive.backup("--topics", topic).expect(0)
    first = archive.view.commit
    old = dump(cluster.bootstrap, topic)
    cluster.delete(topic)
    cluster.create(topic)
    cluster.fill(topic, again, first=1000)
    new = dump(cluster.bootstrap, topic)
    archive.backup("--topics", topic).expect(0)
    assert f"topic {topic} was re-created: it is archived as incarnation 2" in caplog.text
    assert [(e.partition_id, e.range) for e in archive.view.entries()] == [
        (PartitionId(topic, 1, 0), OffsetRange(0, 50)),
        (PartitionId(topic, 2, 0), OffsetRange(0, again)),
    ]
    assert archive.view.entries()[-1].key.startswith(f"topics/{topic}~2/partition=0/")
    archive.restore("--topics", f"{topic}:{topic}-new").expect(0)
    archive.restore("--topics", f"{topic}:{topic}-old", "--commit", first).expect(0)
    assert_same(new, dump(cluster.bootstrap, f"{topic}-new"))
    assert_same(old, dump(cluster.bootstrap, f"{topic}-old"))


@pytest.mark.core(suite="follow")
def test_an_open_transaction_holds_back_and_is_named(
    cluster: Cluster, archive: Archive, topic: str
) -> None:
    cluster.fill(topic, 10)
    open_one = cluster.open_transaction(topic, ["held"] * 5)
    cluster.fill(topic, 10, first=10)
    done = archive.backup("--topics", topic).expect(3)
    assert done.json["records"] == 10 and done.json["blocked"] == [f"{topic}-0"]
    assert "an open transaction holds back" in done.stderr
    cluster.end_transaction(open_one, topic, commit=True)
    done = archive.backup("--topics", topic).expect(0)
    assert done.json["records"] == 15 and done.json["blocked"] == []


def test_records_produced_meanwhile_are_not_taken_for_a_transaction(
    cluster: Cluster, archive: Archive, topic: str, tmp_path: Path
) -> None:
    from threading import Event, Thread

    stop = Event()

    def produce() -> None:
        while not stop.is_set():
            cluster.fill(topic, 20)

    producer = Thread(target=produce)
    producer.start()
    try:
        for _ in range(3):
            assert archive.backup("--topics", topic).expect(0).json["blocked"] == []
    finally:
        stop.set()
        producer.join()


def test_aborted_records_are_kept_and_marked_on_request_and_restored_only_when_asked(
    cluster: Cluster, archive: Archive, topic: str
) -> None:
    cluster.fill(topic, 10)
    cluster.transaction(topic, ["gone"] * 5, commit=False)
    cluster.transaction(topic, ["kept"] * 5, commit=True)
    everything = dump(cluster.bootstrap, topic, committed=False)
    done = archive.backup("--topics", topic, "--isolation-level", "read_uncommitted").expect(0)
    assert done.json["records"] == 20
    (entry,) = archive.view.entries()
    assert entry.aborted == (OffsetRange(10, 15),)
    archive.restore("--topics", f"{topic}:{topic}-clean").expect(0)
    archive.restore("--topics", f"{topic}:{topic}-all", "--restore-aborted").expect(0)
    assert_same(dump(cluster.bootstrap, topic), dump(cluster.bootstrap, f"{topic}-clean"))
    assert_same(everything, dump(cluster.bootstrap, f"{topic}-all"))


def test_offsets_of_groups_are_saved_and_lie_inside_the_data(
    cluster: Cluster, archive: Archive, topic: str
) -> None:
    cluster.fill(topic, 40)
    cluster.commit_offset(f"{topic}-a", topic, 25)
    cluster.commit_offset(f"{topic}-b", topic, 40)
    archive.backup("--topics", topic).expect(0)
    pid = PartitionId(topic, 1, 0)
    assert {g: dict(o) for g, o in archive.view.groups.items()} == {
        f"{topic}-a": {pid: 25},
        f"{topic}-b": {pid: 40},
    }
    cluster.commit_offset(f"{topic}-a", topic, 30)
    archive.backup("--topics", topic).expect(0)
    assert archive.view.groups[f"{topic}-a"][pid] == 30


@pytest.mark.core(suite="follow")
def test_groups_keep_their_place_in_a_deleted_topic_and_deleted_groups_are_forgotten(
    cluster: Cluster, archive: Archive, topic: str, topic_name: str
) -> None:
    other = f"{topic_name}-stays"
    cluster.create(other, 1)
    both, none = f"{topic}-both", f"{topic}-none"
    for name in (topic, other):
        cluster.fill(name, 10)
        cluster.commit_offset(both, name, 4)
    cluster.commit_offset(none, other, 3)
    pattern = ("--topics-regex", f"{topic}|{other}")
    archive.backup(*pattern).expect(0)
    cluster.delete(topic)
    cluster.admin.delete_consumer_groups([none])[none].result()
    cluster.commit_offset(both, other, 7)
    archive.backup(*pattern).expect(0)
    known = {PartitionId(topic, 1, 0): 4, PartitionId(other, 1, 0): 7}
    assert {g: dict(o) for g, o in archive.view.groups.items()} == {both: known}


@pytest.mark.core(suite="follow")
def test_settings_of_topics_are_in_the_log(
    cluster: Cluster, archive: Archive, topic_name: str
) -> None:
    cluster.create(topic_name, 3, {"cleanup.policy": "compact", "segment.bytes": "2097152"})
    archive.backup("--topics", topic_name).expect(0)
    info = archive.view.topics[topic_name, 1]
    assert info.partitions == 3 and info.replication_factor == 1
    assert info.configs == {"cleanup.policy": "compact", "segment.bytes": "2097152"}


@pytest.fixture
def trial(cluster: Cluster, archive: Archive, topic: str, tmp_path: Path) -> Trial:
    return Trial(cluster, archive.address, topic, tmp_path)


def test_a_writer_that_slept_through_a_takeover_is_fenced(
    cluster: Cluster, archive: Archive, trial: Trial, topic: str
) -> None:
    cluster.fill(topic, 100)
    sleepy = trial.start("backup", "--topics", topic, failpoint="object.before:hold")
    try:
        until(lambda: sleepy.runs() and trial.passed("object.before:hold"), "it has taken the log")
        signal_group(sleepy.group, signal.SIGSTOP)
        archive.backup("--topics", topic).expect(0)
        trial.open_gate()
        signal_group(sleepy.group, signal.SIGCONT)
        ended = sleepy.wait().expect(11)
    finally:
        sleepy.kill()
    assert "took over the log" in ended.stderr
    archive.backup("--topics", topic).expect(0)
    assert sum(entry.records for entry in archive.view.entries()) == 100
    archive.restore("--topics", f"{topic}:{topic}-back").expect(0)
    assert_same(dump(cluster.bootstrap, topic), dump(cluster.bootstrap, f"{topic}-back"))


@pytest.mark.core(suite="follow")
def test_a_topic_deleted_while_it_is_read_keeps_what_was_archived(
    cluster: Cluster, archive: Archive, trial: Trial, topic: str
) -> None:
    other = cluster.create(f"{topic}-stays")
    cluster.fill(topic, 100)
    cluster.fill(other, 100)
    driver = trial.start("backup", "--topics", f"{topic},{other}", failpoint="task.start:hold")
    try:
        until(lambda: driver.runs() and trial.passed("task.start:hold"), "it is about to read")
        cluster.delete(topic)
        trial.open_gate()
        driver.wait().expect(0, 3)
    finally:
        driver.kill()
    assert archive.view.intent is None
    assert archive.view.topics[topic, 1].deleted
    assert sum(e.records for e in archive.view.entries(other)) == 100
    assert count(dump(cluster.bootstrap, other)) == 100
