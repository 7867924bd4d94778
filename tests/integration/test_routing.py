"""Records come back in another shape: other partitions, other times, fewer; each exactly once."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.support.cluster import Cluster
from tests.support.independent_client import Dump, Seen, assert_same, count, dump
from tests.support.run_kafkeep import Driver, Outcome, kafkeep
from tests.support.waiting import until

from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]
NOW = time.time_ns() // 1_000_000 - 3_600_000
COUNT = 6000
PAD = bytes(range(256)) * 4
KEYS = [f"user-{n}".encode() for n in range(97)] + [b"", b"\x00\xff", b"a-little-bit-longer-string"]


class Archive:
    """One topic of three partitions: keys, none, headers, times that go back, four codecs."""

    def __init__(self, cluster: Cluster, folder: str) -> None:
        self.cluster = cluster
        self.topic = cluster.create(f"shaped-{time.time_ns()}", 3)
        chances = random.Random(11)
        codecs = [Codec.NONE, Codec.ZSTD, Codec.GZIP, Codec.LZ4]
        for number in range(3):
            records = [self._record(number, i, chances) for i in range(COUNT)]
            batches, at = [], 0
            while at < COUNT:
                size = chances.choice([1, 7, 90, 800])
                part = [r._replace(offset=i) for i, r in enumerate(records[at : at + size])]
                batches.append(build_batch(part, codec=chances.choice(codecs)))
                at += size
            cluster.raw(self.topic, batches, number)
        self.where = ("--bootstrap-servers", cluster.bootstrap, "--archive", folder)
        self.where += ("--output", "json")
        kafkeep("backup", *self.where, "--topics", self.topic, "--segment-bytes", "256KiB").expect()
        self.before = dump(cluster.bootstrap, self.topic)
        assert count(self.before) == 3 * COUNT

    @staticmethod
    def _record(number: int, i: int, chances: random.Random) -> Record:
        mine = KEYS[number::3]  # a key is in one partition, as producers have it
        key = None if chances.random() < 0.2 else chances.choice(mine)
        headers = [(b"type", chances.choice([b"created", b"deleted"]))] if i % 3 else []
        at = NOW + i * 10 + chances.randrange(-300, 300)
        return Record(i, at, key, b"%d/%d " % (number, i) + PAD, headers)

    def target(self, name: str) -> str:
        """Return a name that no other run has."""
        return f"{self.topic}-{name}"

    def asked(self, target: str, *arguments: object) -> tuple[object, ...]:
        """Return the command that restores into a topic of that name."""
        chosen = f"{self.topic}:{self.target(target)}"
        return ("restore", *self.where, "--topics", chosen, *arguments)

    def restore(self, target: str, *arguments: object) -> Outcome:
        return kafkeep(*self.asked(target, *arguments))

    def after(self, target: str) -> Dump:
        return dump(self.cluster.bootstrap, self.target(target))

    def size(self, target: str, partitions: int) -> int:
        """Count what is there already; nothing while the topic is not."""
        if len(self.cluster.partitions(self.target(target))) < partitions:
            return 0
        return sum(self.cluster.end(self.target(target), n) for n in range(partitions))

    def check_dealt(self, target: str, partitions: int) -> None:
        """Compare with what librdkafka's murmur2 says of each key, and with the order there was."""
        after, judge = self.after(target), self.judge(partitions)
        assert sorted(after) == list(range(partitions))
        wanted: dict[int, list[Seen]] = {number: [] for number in after}
        turns = [0, 1, 2]
        for _, number, record in sorted(self.ranked(), key=lambda found: found[:2]):
            if record.key is None:
                wanted[turns[number] % partitions].append(record)
                turns[number] += 1
            else:
                wanted[judge[record.key]].append(record)
        assert_same(wanted, after)
        free = [sum(r.key is None for r in records) for records in after.values()]
        assert max(free) - min(free) <= 3

    def ranked(self) -> Iterator[tuple[int, int, Seen]]:
        """Yield records with the latest time up to each in its partition; sorting is stable."""
        for number, records in self.before.items():
            latest = 0
            for record in records:
                latest = max(latest, record.timestamp)
                yield latest, number, record

    def judge(self, partitions: int) -> dict[bytes, int]:
        """Let an independent client place every key."""
        topic = self.cluster.create(f"judge-{time.time_ns()}", partitions)
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "partitioner": "murmur2_random"}
        )
        for key in KEYS:
            producer.produce(topic, key=key, value=b"")
        assert producer.flush(30) == 0
        found = dump(self.cluster.bootstrap, topic)
        placed = [(record.key, n) for n, records in found.items() for record in records]
        return {key: number for key, number in placed if key is not None}


@pytest.fixture(scope="module")
def archive(
    cluster: Cluster, spark: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Archive]:
    yield Archive(cluster, str(tmp_path_factory.mktemp("archive") / "a"))


@pytest.mark.parametrize("partitions", [5, 1])
def test_another_number_of_partitions(archive: Archive, partitions: int) -> None:
    done = archive.restore(f"to-{partitions}", "--partition-count", partitions).expect(0, 3).json
    assert done["records"] == 3 * COUNT
    archive.check_dealt(f"to-{partitions}", partitions)
    again = archive.restore(f"to-{partitions}", "--partition-count", partitions).expect(0, 3).json
    assert (again["records"], again["already_there"]) == (0, 3 * COUNT)


def test_a_group_that_had_read_everything_has_read_everything(archive: Archive) -> None:
    for number in range(3):
        archive.cluster.commit_offset("caught", archive.topic, COUNT, number)
    kafkeep("backup", *archive.where, "--topics", archive.topic).expect(0)
    done = archive.restore("caught", "--partition-count", 2, "--groups", "caught").expect(0, 3)
    assert done.json["groups"] == {"caught": 2}
    from confluent_kafka import TopicPartition

    target = archive.target("caught")
    with archive.cluster.consumer("caught") as consumer:
        found = consumer.committed([TopicPartition(target, n) for n in range(2)], 30)
    assert [one.offset for one in found] == [archive.cluster.end(target, n) for n in range(2)]


def test_a_paused_and_then_killed_restore_continues(archive: Archive, tmp_path: Path) -> None:
    trace = tmp_path / "trace"  # its one task waits with the second request: nothing is on the way
    held = {"KAFKEEP_FAILPOINT": "request.before:sleep=600000@2"}
    held |= {"KAFKEEP_FAILPOINT_TRACE": str(trace)}
    asked, part = archive.asked("killed", "--partition-count", 4), 0
    for turn, number in enumerate((signal.SIGTERM, signal.SIGKILL)):
        alone = ("--spark-conf", "spark.master=local[1,4]")
        driver = Driver(tmp_path / f"driver-{turn}", *asked, *alone, env=held)
        until(lambda d=driver: d.runs() and trace.exists(), "it writes")
        trace.unlink()
        if number == signal.SIGTERM:
            driver.signal(number)
            assert driver.wait().expect(0).json == {"message_type": "paused"}
            driver.wait_for_group()
        else:
            driver.kill()
        before, part = part, archive.size("killed", 4)
        assert before < part < 3 * COUNT
    rest = archive.restore("killed", "--partition-count", 4).expect(0, 3).json
    assert rest["records"] == 3 * COUNT - part
    archive.check_dealt("killed", 4)


def test_partitions_by_a_map(archive: Archive) -> None:
    archive.cluster.commit_offset("mapped", archive.topic, 4321)
    kafkeep("backup", *archive.where, "--topics", archive.topic).expect(0)
    mapped = ("--partition-map", "0:3,1:1,2:0", "--groups", "mapped", "--shift-time", "+30d")
    plan = archive.restore("map", *mapped, "--dry-run").expect(0).json
    shares = [(s["from"], s["records"]) for s in plan["topics"][0]["shares"]]
    assert shares == [([2], COUNT), ([1], COUNT), ([], 0), ([0], COUNT)]
    archive.restore("map", *mapped).expect(0, 3)
    moved = {n: [_later(r, 30 * 86_400_000) for r in rs] for n, rs in archive.before.items()}
    assert_same({0: moved[2], 1: moved[1], 2: [], 3: moved[0]}, archive.after("map"))
    from confluent_kafka import TopicPartition

    with archive.cluster.consumer("mapped") as consumer:
        [found] = consumer.committed([TopicPartition(archive.target("map"), 3)], 30)
    assert found.offset == 4321


def test_a_map_that_merges_keeps_the_order_of_each_partition(archive: Archive) -> None:
    archive.restore("merged", "--partition-map", "0:1,1:0,2:1").expect(0, 3)
    ranked = sorted((f for f in archive.ranked() if f[1] != 1), key=lambda found: found[:2])
    wanted = {0: archive.before[1], 1: [record for _, _, record in ranked]}
    assert_same(wanted, archive.after("merged"))


def test_exact_offsets_with_a_map_and_moved_times(archive: Archive) -> None:
    asked = ("--partition-map", "0:1,1:2,2:0", "--exact-offsets", "--shift-time", "-1d")
    archive.restore("exact", *asked).expect(0, 3)
    after = archive.after("exact")
    for number, records in archive.before.items():
        found = after[(number + 1) % 3]
        assert [(r.offset, r.timestamp + 86_400_000, r.value) for r in found] == [
            (r.offset, r.timestamp, r.value) for r in records
        ]


Keep = Callable[[Seen], bool]


@pytest.mark.parametrize(
    ("conditions", "keep"),
    [
        (
            "key^=user-1,header:type=created",
            lambda r: _key(r, b"user-1") and _type(r) == b"created",
        ),
        ("key=hex:00ff", lambda r: r.key == b"\x00\xff"),
        ("!key,header:type!=deleted", lambda r: r.key is None and _type(r) != b"deleted"),
    ],
)
def test_a_filter(archive: Archive, conditions: str, keep: Keep) -> None:
    name = f"filtered-{time.time_ns()}"
    archive.restore(name, "--filter", conditions).expect(0, 3)
    wanted = {n: [r for r in records if keep(r)] for n, records in archive.before.items()}
    assert count(wanted)
    assert_same(wanted, archive.after(name))


def test_objects_of_a_sink_are_dealt_out_too(archive: Archive, tmp_path: Path) -> None:
    where = (*archive.where[:2], "--archive", tmp_path / "rows", "--output", "json")
    kafkeep("backup", *where, "--topics", archive.topic, "--format", "parquet").expect(0)
    chosen = ("--topics", f"{archive.topic}:{archive.target('rows')}")
    kafkeep("restore", *where, *chosen, "--partition-count", 2).expect(0, 3)
    archive.check_dealt("rows", 2)


def test_what_cannot_be_is_refused_by_name(archive: Archive) -> None:
    def refused(code: int, *arguments: object) -> str:
        return archive.restore("never", *arguments).expect(code).stderr

    assert "exact-offsets cannot" in refused(2, "--partition-count", 2, "--exact-offsets")
    archive.cluster.commit_offset("within", archive.topic, 5)
    kafkeep("backup", *archive.where, "--topics", archive.topic).expect(0)
    dealt = ("--partition-count", 2, "--groups", "within")
    assert "group within had no offset on" in refused(14, *dealt)
    assert f"no target for {archive.topic}-2" in refused(2, "--partition-map", "0:0,1:1")
    assert "before 1970" in refused(14, "--shift-time", "-40000d")
    archive.cluster.create(archive.target("there"), 2)
    says = archive.restore("there", "--partition-count", 5).expect(14).stderr
    assert "it has 2 partitions, this restore needs 5" in says


def _key(record: Seen, start: bytes) -> bool:
    return record.key is not None and record.key.startswith(start)


def _type(record: Seen) -> bytes | None:
    return dict(record.headers).get("type")


def _later(record: Seen, shift_ms: int) -> Seen:
    return record._replace(timestamp=record.timestamp + shift_ms)
