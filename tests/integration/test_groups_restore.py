"""A consumer group goes on at the very next record: nothing skipped, nothing twice."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from tests.support.cluster import Cluster
from tests.support.independent_client import Seen, dump
from tests.support.run_kafkeep import Outcome, kafkeep
from tests.support.waiting import PATIENCE_S

from kafkeep.dev import DevOptions, kafka_tool, start, stop

pytestmark = [
    pytest.mark.integration,
    pytest.mark.core(suite="groups"),
    pytest.mark.usefixtures("spark", "module_s3"),
]
PATIENCE = PATIENCE_S


def consume(
    cluster: Cluster, group: str, topic: str, count: int | None = None
) -> list[tuple[int, int, bytes | None]]:
    """Read as a member of the group would, from where it stands; commit, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    seen: list[tuple[int, int, bytes | None]] = []
    try:
        consumer.subscribe([topic])
        ended, deadline = set(), time.monotonic() + PATIENCE
        while count is None or len(seen) < count:
            assert time.monotonic() < deadline, f"{group} read {len(seen)} of {count}"
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
                if count is None and len(ended) == len(consumer.assignment()):
                    break
                continue
            seen.append((message.partition(), message.offset(), message.value()))
            consumer.commit(message, asynchronous=False)
        return seen
    finally:
        consumer.close()


def committed(cluster: Cluster, group: str, topic: str, partition: int = 0) -> int:
    with cluster.consumer(group) as consumer:
        [found] = consumer.committed([TopicPartition(topic, partition)], 30)
    offset: int = found.offset
    return offset


Reader = Callable[[Cluster, str, str, int], Sequence[tuple[int, int, bytes | None]]]


class Saved:
    """A topic with holes, a group that has read half of it, and the archive of both."""

    def __init__(
        self, cluster: Cluster, topic: str, folder: Path, *, read: Reader | None = None
    ) -> None:
        self.cluster, self.topic, self.group = cluster, topic, f"g-{topic}"
        cluster.create(topic, 2)
        for turn in range(4):
            for partition in (0, 1):
                values = [f"{partition} {turn} {i}" for i in range(25)]
                cluster.transaction(topic, values, commit=turn != 1, partition=partition)
        for partition in (0, 1):
            cluster.commit_offset(self.group, topic, 0, partition)
        self.first = (read or consume)(cluster, self.group, topic, 80)
        self.where = ("--bootstrap-servers", cluster.bootstrap, "--archive", folder / "archive")
        self.where += ("--output", "json")
        kafkeep("backup", *self.where, "--topics", topic).expect(0)
        self.before = dump(cluster.bootstrap, topic)
        self.everything = [r.value for rs in self.before.values() for r in rs]

    def run(self, verb: tuple[str, ...], target: str, *arguments: object) -> Outcome:
        names = ("--topics", f"{self.topic}:{target}")
        return kafkeep(*verb, *self.where, *names, *arguments)

    def check_rest(self, target: str) -> list[tuple[int, int, bytes | None]]:
        """Go on as the group: with what it had read, that is everything, once."""
        rest = consume(self.cluster, self.group, target)
        read = [value for _, _, value in (*self.first, *rest)]
        assert len(read) == len(self.everything) and sorted(read) == sorted(self.everything)
        return rest


@pytest.fixture
def saved(cluster: Cluster, topic_name: str, tmp_path: Path) -> Saved:
    return Saved(cluster, topic_name, tmp_path)


def test_a_group_continues_at_the_very_next_record_at_exact_offsets(saved: Saved) -> None:
    target = f"{saved.topic}-exact"
    arguments = ("--exact-offsets", "--groups", saved.group)
    plan = saved.run(("restore",), target, *arguments, "--dry-run").expect(0).json
    assert {m["archived"] for m in plan["groups"]} == {m["offset"] for m in plan["groups"]}
    done = saved.run(("restore",), target, *arguments).expect(0).json
    assert done["groups"] == {saved.group: 2}
    for partition in (0, 1):
        before = committed(saved.cluster, saved.group, saved.topic, partition)
        assert committed(saved.cluster, saved.group, target, partition) == before
    saved.check_rest(target)
    again = (
        saved.run(("restore",), target, *arguments).expect(0).json
    )  # the group is not moved back
    assert again["records"] == 0 and consume(saved.cluster, saved.group, target) == []


def test_a_group_continues_at_the_very_next_record_when_offsets_are_translated(
    saved: Saved,
) -> None:
    target = f"{saved.topic}-new"
    done = saved.run(("restore",), target, "--groups", "all").expect(0).json
    assert done["groups"] == {saved.group: 2}
    rest = saved.check_rest(target)
    for partition in (0, 1):  # nothing before what it had read
        mine = [offset for number, offset, _ in rest if number == partition]
        had = len([1 for number, _, _ in saved.first if number == partition])
        assert not mine or min(mine) == had


def test_a_target_that_was_deleted_comes_back_and_the_others_are_left_alone(
    saved: Saved,
) -> None:
    cluster, other = saved.cluster, f"{saved.topic}-b"
    cluster.create(other)
    cluster.fill(other, 30)
    cluster.commit_offset(saved.group, other, 10)
    kafkeep("backup", *saved.where, "--topics", other).expect(0)
    names = f"{saved.topic}:{saved.topic}-x,{other}:{other}-x"
    restore = ("restore", *saved.where, "--topics", names, "--groups", saved.group)
    kafkeep(*restore).expect(0)
    rest = saved.check_rest(f"{saved.topic}-x")
    cluster.fill(f"{saved.topic}-x", 3)
    cluster.delete(f"{other}-x")
    again = kafkeep(*restore).expect(0).json
    assert again["topics"] == {f"{other}-x": 30} and again["groups"] == {saved.group: 1}
    assert committed(cluster, saved.group, f"{other}-x") == 10
    read = consume(cluster, saved.group, f"{saved.topic}-x")
    assert rest and len(read) == 3, "what was written since, and nothing again"
    assert kafkeep(*restore).expect(0).json["records"] == 0


def test_groups_are_planned_applied_and_put_back(saved: Saved) -> None:
    target, cluster = f"{saved.topic}-back", saved.cluster
    saved.run(("restore",), target).expect(0)
    cluster.commit_offset(saved.group, target, 5)
    planned = saved.run(("groups", "plan"), target).expect(0).json["groups"]
    had = len([1 for number, _, _ in saved.first if number == 0])
    assert [m["offset"] for m in planned if m["partition"] == 0] == [had]
    assert committed(cluster, saved.group, target) == 5
    saved.run(("groups", "apply"), target).expect(0)
    assert committed(cluster, saved.group, target) == had
    assert committed(cluster, saved.group, target, 1) >= 0
    told = saved.run(("groups", "rollback"), target, "--dry-run").expect(0).json["groups"]
    assert {m["partition"]: m["offset"] for m in told} == {0: 5, 1: None}
    assert committed(cluster, saved.group, target) == had
    saved.run(("groups", "rollback"), target).expect(0)
    assert committed(cluster, saved.group, target) == 5
    assert committed(cluster, saved.group, target, 1) < 0
    assert "has not moved any group" in saved.run(("groups", "rollback"), target).expect(14).stderr


def test_an_active_group_is_refused_by_name(saved: Saved) -> None:
    target, cluster = f"{saved.topic}-busy", saved.cluster
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": saved.group})
    consumer.subscribe([saved.topic])
    deadline = time.monotonic() + PATIENCE
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.1)
    try:
        refused = saved.run(("restore",), target, "--groups", saved.group).expect(14)
        assert saved.group in refused.stderr and "active" in refused.stderr
        assert not cluster.partitions(target)
    finally:
        consumer.close()
    unknown = saved.run(("restore",), target, "--groups", "nobody").expect(2)
    assert "group nobody has no offset" in unknown.stderr


def test_a_picked_partition_leaves_the_others_out_by_name(saved: Saved) -> None:
    target = f"{saved.topic}-part"
    done = saved.run(("restore",), target, "--partitions", "0", "--groups", "all").expect(3)
    assert done.json["groups"] == {saved.group: 1}
    assert f"group {saved.group}: {target}-1 is not restored" in done.stderr
    had = len([1 for number, _, _ in saved.first if number == 0])
    assert committed(saved.cluster, saved.group, target) == had
    saved.run(("groups", "apply"), target, "--partitions", "0", "--dry-run").expect(0)
    again = saved.run(("groups", "apply"), target, "--partitions", "0").expect(3)
    assert again.json["left_out"] == [f"group {saved.group}: {target}-1 is not restored"]


def test_groups_of_an_archive_are_shown(saved: Saved) -> None:
    shown = kafkeep("groups", "show", *saved.where[2:]).expect(0).json["groups"]
    found = {row["partition"]: row["offset"] for row in shown if row["group"] == saved.group}
    assert found == {n: committed(saved.cluster, saved.group, saved.topic, n) for n in (0, 1)}


def next_records(before: list[Seen], offset: int) -> list[bytes | None]:
    """Return what a consumer at ``offset`` reads."""
    return [record.value for record in before if record.offset >= offset]


def test_a_time_cut_keeps_the_place_of_a_group(saved: Saved) -> None:
    target = f"{saved.topic}-cut"
    before = dump(saved.cluster.bootstrap, saved.topic)[0]
    times = sorted({record.timestamp for record in before})
    at = times[len(times) // 2]
    saved.run(("restore",), target, "--from", at, "--groups", "all").expect(0)
    place = committed(saved.cluster, saved.group, saved.topic)
    wanted = [r.value for r in before if r.offset >= place and r.timestamp >= at]
    after = dump(saved.cluster.bootstrap, target)[0]
    assert next_records(after, committed(saved.cluster, saved.group, target)) == wanted


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A broker that has never seen the topic, the group or the archive."""
    folder = tmp_path / "new"
    try:
        yield Cluster(start(DevOptions(folder=folder)).bootstrap_servers)
    finally:
        stop(folder)


def tool(name: str, cluster: Cluster, *arguments: object) -> list[list[str]]:
    """Run one of Kafka's own tools and return its lines, split."""
    servers = ("--bootstrap-server", cluster.bootstrap)
    argv = kafka_tool(name, *servers, *map(str, arguments))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE * 2, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines() if line.strip()]


def console(cluster: Cluster, group: str, topic: str, count: int) -> list[tuple[int, int, bytes]]:
    """Read as ``kafka-console-consumer --group`` does: partition, offset and value of each."""
    lines = tool(
        "kafka-console-consumer", cluster, "--topic", topic, "--group", group,
        "--max-messages", count, "--timeout-ms", int(PATIENCE * 1000),
        "--isolation-level", "read_committed",
        *("--property", "print.partition=true", "--property", "print.offset=true"),
        *("--property", "key.separator=|"),
    )  # fmt: skip
    assert len(lines) == count, f"{group} on {topic}: {len(lines)} of {count}"
    read = [" ".join(line).split("|") for line in lines]
    return [
        (int(partition.split(":")[1]), int(offset.split(":")[1]), value.encode())
        for partition, offset, value in read
    ]


def places(cluster: Cluster, group: str) -> dict[tuple[str, int], int]:
    """Return where a group stands, as ``kafka-consumer-groups --describe`` tells it."""
    header, *rows = tool("kafka-consumer-groups", cluster, "--describe", "--group", group)
    topic, number, offset = (header.index(n) for n in ("TOPIC", "PARTITION", "CURRENT-OFFSET"))
    return {(row[topic], int(row[number])): int(row[offset]) for row in rows}


def test_kafkas_own_tools_continue_in_a_new_cluster(
    cluster: Cluster, new_cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    saved = Saved(cluster, topic_name, tmp_path, read=console)
    group, exact, new = saved.group, topic_name, f"{topic_name}-new"
    elsewhere = ("--bootstrap-servers", new_cluster.bootstrap, "--groups", group)
    saved.run(("restore",), exact, "--exact-offsets", *elsewhere).expect(0)
    saved.run(("restore",), new, *elsewhere).expect(0)
    found = places(new_cluster, group)
    had = {n: len([1 for number, _, _ in saved.first if number == n]) for n in (0, 1)}
    assert found == {
        **{(exact, n): committed(cluster, group, topic_name, n) for n in (0, 1)},
        **{(new, n): had[n] for n in (0, 1)},
    }
    rest = len(saved.everything) - len(saved.first)
    for target in (exact, new):
        read = console(new_cluster, group, target, rest)
        values = [value for _, _, value in (*saved.first, *read)]
        assert sorted(values) == sorted(value or b"" for value in saved.everything)
        if target == exact:
            before = {(n, r.offset): r.value for n, rs in saved.before.items() for r in rs}
            assert {(n, offset): value for n, offset, value in read}.items() <= before.items()
