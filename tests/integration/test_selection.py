"""A part of an archive comes back: exactly the records that were asked for, and no others."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pytest
from tests.support.cluster import Cluster
from tests.support.independent_client import Seen, assert_same, count, dump
from tests.support.run_kafkeep import Outcome, kafkeep

from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]
NOW = time.time_ns() // 1_000_000 - 3_600_000
COUNT = 60_000


class Archive:
    """One topic of two partitions; the times of the second are not in order."""

    def __init__(self, cluster: Cluster, folder: str) -> None:
        self.cluster = cluster
        self.topic = cluster.create(f"picked-{time.time_ns()}", 2)
        pad = bytes(range(200))
        chances = random.Random(5)
        batches: tuple[list[bytes], list[bytes]] = ([], [])
        for first in range(0, COUNT, 2000):
            ordered = [Record(i, NOW + first + i, b"%d" % i, pad) for i in range(2000)]
            mixed = [r._replace(timestamp=NOW + chances.randrange(COUNT)) for r in ordered]
            codec = Codec.ZSTD if first % 4000 else Codec.NONE
            batches[0].append(build_batch(ordered, codec=codec))
            batches[1].append(build_batch(mixed[:300], codec=codec))
        cluster.raw(self.topic, batches[0], 0)
        cluster.raw(self.topic, batches[1], 1)
        self.where = ("--bootstrap-servers", cluster.bootstrap, "--archive", folder)
        self.where += ("--output", "json")
        self.backup()
        self.before = dump(cluster.bootstrap, self.topic)

    def backup(self) -> int:
        done = kafkeep("backup", *self.where, "--topics", self.topic, "--segment-bytes", "4MiB")
        commit: int = done.expect(0).json["commit"]
        return commit

    def restore(self, target: str, *arguments: object) -> Outcome:
        chosen = f"{self.topic}:{self.target(target)}"
        return kafkeep("restore", *self.where, "--topics", chosen, *arguments)

    def target(self, name: str) -> str:
        """Return a name that no other run has."""
        return f"{self.topic}-{name}"

    def check(self, target: str, keep: Callable[[int, Seen], bool]) -> None:
        """Compare a restored topic with what an independent client saw of the original."""
        wanted = {n: [r for r in records if keep(n, r)] for n, records in self.before.items()}
        assert any(wanted.values())
        assert_same(wanted, dump(self.cluster.bootstrap, self.target(target)))


@pytest.fixture(scope="module")
def archive(
    cluster: Cluster, spark: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Archive]:
    yield Archive(cluster, str(tmp_path_factory.mktemp("archive") / "a"))


def test_until_inside_a_segment_gives_exactly_the_records_before_it(archive: Archive) -> None:
    at = NOW + COUNT // 3 + 17
    archive.restore("until", "--until", at).expect(0, 3)
    archive.check("until", lambda _n, r: r.timestamp < at)


def test_from_and_until_together(archive: Archive) -> None:
    low, high = NOW + 40_011, NOW + 41_500
    done = archive.restore("between", "--from", low, "--until", high).expect(0, 3).json
    archive.check("between", lambda _n, r: low <= r.timestamp < high)
    after = dump(archive.cluster.bootstrap, archive.target("between"))
    assert done["records"] == count(after)


def test_a_small_part_is_not_read_whole(archive: Archive) -> None:
    asked = ("--offsets", f"{archive.topic}:0:30000-30600", "--dry-run")
    plan = archive.restore("small", *asked).expect(0).json
    everything = archive.restore("small", "--dry-run").expect(0).json
    assert 600 <= plan["records"] < 12_000
    assert plan["read_bytes"] < everything["read_bytes"] / 5


def test_offsets_and_partitions_pick(archive: Archive) -> None:
    picks = f"{archive.topic}:0:100-2345,{archive.topic}:0:59990-,{archive.topic}:1:7-11"
    archive.restore("offsets", "--offsets", picks).expect(0)
    archive.check(
        "offsets",
        lambda n, r: 7 <= r.offset < 11 if n else 100 <= r.offset < 2345 or r.offset >= 59990,
    )
    archive.restore("second", "--partitions", "1").expect(0)
    archive.check("second", lambda n, _r: n == 1)


def test_a_picked_restore_that_was_cut_off_continues(archive: Archive) -> None:
    from kafkeep import failpoint

    at = NOW + COUNT // 2
    asked = ("--until", at, "--offsets", f"{archive.topic}:0:1500-,{archive.topic}:1:0-")
    try:
        failpoint.arm("restore.written:raise")
        archive.restore("again", *asked).expect(1)
    finally:
        failpoint.arm("")
    assert archive.restore("again", *asked).expect(0, 3).json["records"] == 0
    archive.check("again", lambda n, r: r.timestamp < at and (n == 1 or r.offset >= 1500))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--partitions", "7"), "no topic to restore has a partition 7"),
        (("--offsets", "other:0:1-2"), "topic other is not among those to restore"),
        (("--incarnation", "{topic}:2"), "has no incarnation 2"),
        (("--topics-regex", "x.*"), "topics and topics-regex cannot both be given"),
        (("--from", "5", "--until", "5"), "from must be before until"),
    ],
)
def test_what_picks_nothing_is_refused(
    archive: Archive, arguments: tuple[str, ...], says: str
) -> None:
    given = [argument.format(topic=archive.topic) for argument in arguments]
    assert says in archive.restore("none", *given).expect(2).stderr


def test_at_between_two_commits_gives_what_the_earlier_one_held(archive: Archive) -> None:
    cluster = archive.cluster
    cluster.commit_offset("early", archive.topic, 777)
    cluster.records(archive.topic, [Record(0, NOW, b"new", b"first")], 1)
    archive.backup()
    first = dump(cluster.bootstrap, archive.topic)
    between = int(time.time() * 1000)
    cluster.commit_offset("early", archive.topic, 888)
    cluster.records(archive.topic, [Record(0, NOW, b"new", b"second")], 1)
    archive.backup()
    archive.restore("at", "--at", between, "--groups", "early").expect(0, 3)
    assert_same(first, dump(cluster.bootstrap, archive.target("at")))
    from confluent_kafka import TopicPartition

    with cluster.consumer("early") as consumer:
        [found] = consumer.committed([TopicPartition(archive.target("at"), 0)], 30)
    assert found.offset == 777


def test_a_regex_and_an_incarnation(archive: Archive) -> None:
    cluster, name = archive.cluster, f"again-{time.time_ns()}"
    cluster.create(name)
    cluster.fill(name, 20)
    kafkeep("backup", *archive.where, "--topics", name).expect(0)
    old = dump(cluster.bootstrap, name)
    cluster.delete(name)
    cluster.create(name)
    cluster.fill(name, 5, first=100)
    kafkeep("backup", *archive.where, "--topics", name).expect(0, 3)
    chosen = ("--topics", f"{name}:{name}-1", "--incarnation", f"{name}:1")
    kafkeep("restore", *archive.where, *chosen).expect(0)
    assert_same(old, dump(cluster.bootstrap, f"{name}-1"))
    new = dump(cluster.bootstrap, name)
    cluster.delete(name)
    kafkeep("restore", *archive.where, "--topics-regex", "again-[0-9]+").expect(0)
    assert_same(new, dump(cluster.bootstrap, name))
