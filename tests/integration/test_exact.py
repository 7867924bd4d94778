"""Every record stands at its old offset again, as an independent client sees it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.support import topic_scenes as scenes
from tests.support.cluster import Cluster, until
from tests.support.independent_client import Dump, dump
from tests.support.run_kafkeep import Driver, Outcome, kafkeep

from kafkeep.kafka.admin.fill_offsets import filler_batch

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]
NOW = time.time_ns() // 1_000_000
MILLION = 1_000_000


class Saved:
    """A topic in an archive, and what an independent client saw of it."""

    def __init__(self, cluster: Cluster, topic: str, folder: Path) -> None:
        self.cluster, self.topic = cluster, topic
        self.where = ("--bootstrap-servers", cluster.bootstrap, "--archive", folder / "archive")
        self.where += ("--output", "json")
        kafkeep("backup", *self.where, "--topics", topic).expect(0)
        self.before = dump(cluster.bootstrap, topic)
        self.target = f"{topic}-exact"
        self.arguments = (
            "restore", *self.where, "--topics", f"{topic}:{self.target}", "--exact-offsets",
        )  # fmt: skip

    def restore(self, *arguments: object) -> Outcome:
        return kafkeep(*self.arguments, *arguments)

    def against(self) -> Outcome:
        """Hold the target against the archive; that offsets are exact, its restore has said."""
        where = ("--against", self.cluster.bootstrap, *self.where[2:])
        return kafkeep("verify", *where, "--topics", f"{self.topic}:{self.target}")

    def ends(self, topic: str) -> list[tuple[int, int]]:
        partitions = self.cluster.partitions(topic)
        return [
            (self.cluster.end(topic, n, start=True), self.cluster.end(topic, n))
            for n in sorted(partitions)
        ]

    def check(self, *, starts: bool = True) -> None:
        """Compare offset by offset; also where the logs begin and end."""
        assert_at_old_offsets(self.before, dump(self.cluster.bootstrap, self.target))
        before, after = self.ends(self.topic), self.ends(self.target)
        assert [end for _, end in before] == [end for _, end in after]
        if starts:
            assert before == after


def assert_at_old_offsets(before: Dump, after: Dump) -> None:
    assert sorted(before) == sorted(after)
    for number, records in before.items():
        found = after[number]
        for left, right in zip(records, found, strict=False):
            assert (left.offset, left.content) == (right.offset, right.content)
        assert len(records) == len(found)


@pytest.mark.core(suite="exact")
def test_a_log_that_begins_at_fifty_million(
    cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    cluster.create(topic_name, 2, {"max.message.bytes": str(64 << 20)})
    cluster.raw(topic_name, [bytes(filler_batch_signed(MILLION))] * 50)
    cluster.delete_records(topic_name, 50 * MILLION)
    cluster.fill(topic_name, 500)
    cluster.fill(topic_name, 40, partition=1)
    saved = Saved(cluster, topic_name, tmp_path)
    assert saved.before[0][0].offset == 50 * MILLION
    done = saved.restore().expect(0).json
    assert (done["filled"], done["holes"], done["records"]) == (50 * MILLION, 0, 540)
    saved.check()
    again = saved.restore().expect(0).json
    assert (again["records"], again["already_there"]) == (0, 540)
    saved.check()


def filler_batch_signed(count: int) -> bytearray:
    """Return a batch of null records that a broker takes from no producer in particular."""
    from kafkeep.kafka.batch.rewrite import stamp

    body = filler_batch(count, NOW)
    stamp(body, -1, -1, -1)
    return body


@pytest.mark.core(suite="exact")
def test_transactions_leave_the_holes_they_left(
    cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    scenes.transactions(cluster, topic_name)
    saved = Saved(cluster, topic_name, tmp_path)
    plan = saved.restore("--dry-run").expect(0).json
    says = [check["what"] for check in plan["preflight"]]
    assert any("are filled by empty transactions" in what for what in says)
    done = saved.restore().expect(0).json
    assert done["holes"] > 30
    # A partition whose first offsets were all aborted begins at its first record.
    saved.check(starts=False)
    seen = dump(cluster.bootstrap, saved.target, committed=False)
    assert_at_old_offsets(saved.before, seen)  # nothing that any consumer sees fills the holes
    compared = saved.against().expect(0).json
    assert compared["exact_offsets"] and compared["matched"] == compared["found"]


@pytest.mark.core(suite="exact")
@pytest.mark.parametrize("way", ["transactions", "tombstones"])
def test_a_compacted_topic(cluster: Cluster, compacted: str, tmp_path: Path, way: str) -> None:
    saved = Saved(cluster, compacted, tmp_path)
    saved.target = f"{compacted}-{way}"
    arguments = ("--topics", f"{compacted}:{saved.target}", "--exact-offsets", "--fill-holes", way)
    kafkeep("restore", *saved.where, *arguments).expect(0, 3)
    after = dump(cluster.bootstrap, saved.target)
    ours = {n: [r for r in rs if r.key != b"__kafkeep_hole"] for n, rs in after.items()}
    assert_at_old_offsets(saved.before, ours)
    assert saved.ends(saved.target)[0][1] == saved.ends(compacted)[0][1]
    assert (ours == after) == (way == "transactions")
    assert cluster.config(saved.target)["cleanup.policy"] == "compact"


@pytest.fixture(scope="module")
def compacted(cluster: Cluster) -> str:
    """A topic with holes that the cleaner made."""
    name = f"compacted-{time.time_ns()}"
    scenes.compacted(cluster, name)
    return name


def test_many_holes_are_refused_with_their_number_and_time(
    cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    cluster.create(topic_name, 1, {"max.message.bytes": str(64 << 20)})
    cluster.fill(topic_name, 10)
    saved = Saved(cluster, topic_name, tmp_path)
    cluster.raw(topic_name, [bytes(filler_batch_signed(MILLION))])
    cluster.fill(topic_name, 5, first=10)
    cluster.delete_records(topic_name, MILLION + 10)
    kafkeep("backup", *saved.where, "--topics", topic_name).expect(3)  # a gap of a million
    refused = saved.restore().expect(14)
    assert "1,000,000 offsets have no record" in refused.stderr and "1h 56m" in refused.stderr
    assert not cluster.partitions(saved.target)
    saved.restore("--fill-holes", "tombstones").expect(3)
    after = dump(cluster.bootstrap, saved.target)[0]
    assert [r.offset for r in after] == list(range(MILLION + 15))
    assert {r.key for r in after[10:-5]} == {b"__kafkeep_hole"}
    assert [r.key for r in after[-5:]] == [b"k10", b"k11", b"k12", b"k13", b"k14"]
    compared = saved.against().expect(3).json
    assert {k: n for k, n in compared["counts"].items() if n} == {"filler": MILLION}
    assert (compared["archived"], compared["matched"], compared["found"]) == (15, 15, MILLION + 15)


def test_a_target_whose_offsets_are_used_up_is_refused(
    cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    cluster.create(topic_name)
    cluster.fill(topic_name, 10)
    saved = Saved(cluster, topic_name, tmp_path)
    cluster.create(saved.target)
    cluster.fill(saved.target, 3)
    assert "it is not empty" in saved.restore().expect(14).stderr
    cluster.delete_records(saved.target, 3)
    assert "its next offset is 3" in saved.restore().expect(14).stderr


@pytest.mark.core(suite="exact")
def test_a_record_of_somebody_else_is_noticed(
    cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    from kafkeep import failpoint

    cluster.create(topic_name)
    cluster.transaction(topic_name, ["a", "b"], commit=True)
    saved = Saved(cluster, topic_name, tmp_path)
    try:
        failpoint.arm("restore.written:raise")
        saved.restore().expect(1)
    finally:
        failpoint.arm("")
    cluster.fill(saved.target, 1)
    assert "past 3" in saved.restore().expect(14).stderr


KILLS = (
    "request.before:exit@2",
    "exact.trim:exit@1",
    "exact.trimmed:exit@1",
    "exact.mark:exit@2",
    "exact.marked:exit@4",
)


def test_killed_again_and_again_it_stands_at_its_old_offsets(
    cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    cluster.create(topic_name, 2, {"max.message.bytes": str(64 << 20)})
    cluster.raw(topic_name, [bytes(filler_batch_signed(MILLION))] * 4)
    cluster.delete_records(topic_name, 4 * MILLION)
    for turn in range(8):
        values = [f"{turn} {i}" for i in range(50)]
        cluster.transaction(topic_name, values, commit=turn % 3 > 0, partition=turn % 2)
    saved = Saved(cluster, topic_name, tmp_path)
    for place in (";".join(KILLS[:3]), ";".join(KILLS[3:])):
        trace = tmp_path / "trace"
        env = {"KAFKEEP_FAILPOINT": place, "KAFKEEP_FAILPOINT_TRACE": str(trace)}
        driver = Driver(tmp_path / "run", *saved.arguments, env=env)
        driver.wait()
        driver.kill()
        assert trace.exists(), f"it never died: {driver.said()}"
        trace.unlink()
    saved.restore().expect(0)
    saved.check(starts=False)


def test_doctor_tries_exact_offsets_and_leaves_no_topic(cluster: Cluster) -> None:
    where = ("--bootstrap-servers", cluster.bootstrap, "--no-spark", "--output", "json")
    found = kafkeep("doctor", *where, "--exact").expect(0).json["checks"]
    [exact] = [check for check in found if check["subject"] == "kafka exact offsets"]
    assert exact["verdict"] == "pass"
    until(
        lambda: not [n for n in cluster.admin.list_topics(timeout=30).topics if "doctor" in n],
        "the scratch topic is gone",
    )
    assert (
        "--exact needs a Kafka cluster"
        in kafkeep("doctor", "--exact", "--no-spark").expect(2).stderr
    )
