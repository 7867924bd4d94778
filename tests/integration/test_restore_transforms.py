"""Records of an archive with a log change on their way back, each once: seen by another client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from tests.support.cluster import Cluster
from tests.support.independent_client import Seen, dump
from tests.support.run_kafkeep import Driver, Outcome, kafkeep
from tests.support.waiting import until

import kafkeep as library
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]
NOW = time.time_ns() // 1_000_000 - 3_600_000
COUNT = 3000
SMT = "org.apache.kafka.connect.transforms."
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
MASK = {
    "transforms": "mask",
    "transforms.mask.type": f"{SMT}MaskField$Value",
    "transforms.mask.fields": "card",
}
MASK_AND_DROP = {
    **MASK,
    "transforms": "drop,mask",
    "transforms.drop.type": f"{SMT}Filter",
    "transforms.drop.predicate": "test",
    "predicates": "test",
    "predicates.test.type": f"{SMT}predicates.HasHeaderKey",
    "predicates.test.name": "test",
}


class Archive:
    """One topic of two partitions, as segments and as rows of Parquet: orders with a card."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.topic = cluster.create(f"cards-{time.time_ns()}", 2)
        for number in range(2):
            records = [self._record(number, i) for i in range(COUNT)]
            batches = [
                build_batch(
                    [r._replace(offset=i) for i, r in enumerate(records[at : at + 250])],
                    codec=Codec.ZSTD if at % 500 else Codec.NONE,
                )
                for at in range(0, COUNT, 250)
            ]
            cluster.raw(self.topic, batches, number)
        cluster.commit_offset("reader", self.topic, 1234)
        self.folders = {"segment": folder / "segment", "parquet": folder / "parquet"}
        chosen = ("--topics", self.topic)
        self.run("backup", "segment", *chosen, "--segment-bytes", "128KiB").expect()
        rows = (*chosen, "--format", "parquet", *told(JSON), "--set", "store.kafka.keys=true")
        rows += ("--set", "key.converter=ByteArrayConverter", "--set", "flush.size=700")
        self.run("backup", "parquet", *rows, "--set", "store.kafka.headers=true").expect(0)
        self.before = dump(cluster.bootstrap, self.topic)

    @staticmethod
    def _record(number: int, i: int) -> Record:
        value = b'{"id": %d, "card": "4929-%d", "note": "%s"}' % (i, i * 7, b"x" * 200)
        headers = [(b"test", None)] if i % 6 == 0 else [(b"kind", b"order")]
        return Record(i, NOW + i, b"\xff%d/%d" % (number, i), value, headers)

    def run(self, verb: str, kind: str, *arguments: object) -> Outcome:
        return kafkeep(verb, *self.where(kind), *arguments)

    def where(self, kind: str) -> tuple[object, ...]:
        place = ("--bootstrap-servers", self.cluster.bootstrap, "--archive", self.folders[kind])
        return (*place, "--output", "json")

    def asked(self, kind: str, target: str, settings: Mapping[str, str]) -> tuple[object, ...]:
        return (*self.where(kind), "--topics", f"{self.topic}:{target}", *told(settings))

    def restore(
        self, kind: str, target: str, settings: Mapping[str, str], *more: object
    ) -> Outcome:
        return kafkeep("restore", *self.asked(kind, target, settings), *more)

    def size(self, target: str) -> int:
        """Count what is there already; nothing while the topic is not."""
        if len(self.cluster.partitions(target)) < 2:
            return 0
        return sum(self.cluster.end(target, n) for n in range(2))

    def check(
        self,
        target: str,
        keep: Callable[[Seen], bool] = lambda _: True,
        *,
        times: bool = True,
    ) -> None:
        """Compare with what was there before: everything but the card, in its order."""
        after = dump(self.cluster.bootstrap, target)
        for number, records in self.before.items():
            wanted = [_expected(r, times) for r in records if keep(r)]
            assert [_shown(r, times) for r in after[number]] == wanted


def told(settings: Mapping[str, str]) -> list[str]:
    return [part for key, text in settings.items() for part in ("--set", f"{key}={text}")]


def _shown(record: Seen, times: bool) -> tuple[object, ...]:
    at = record.timestamp if times else None
    return at, record.key, json.loads(record.value or b""), record.headers


def _expected(record: Seen, times: bool) -> tuple[object, ...]:
    at, key, value, headers = _shown(record, times)
    assert isinstance(value, dict)
    return at, key, {**value, "card": ""}, headers


def _is_no_test(record: Seen) -> bool:
    return "test" not in dict(record.headers)


@pytest.fixture(scope="module")
def archive(
    cluster: Cluster, spark: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Archive]:
    yield Archive(cluster, tmp_path_factory.mktemp("archive"))


def test_a_field_of_segments_is_masked_at_the_old_offsets(archive: Archive) -> None:
    target = f"{archive.topic}-exact"
    archive.restore("segment", target, {**MASK, **JSON}, "--exact-offsets").expect(0, 3)
    archive.check(target)
    after = dump(archive.cluster.bootstrap, target)
    assert [r.offset for r in after[1]] == [r.offset for r in archive.before[1]]
    again = archive.restore("segment", target, {**MASK, **JSON}, "--exact-offsets").expect(0, 3)
    assert again.json["records"] == 0
    place = ("--archive", archive.folders["segment"], "--against", archive.cluster.bootstrap)
    judged = kafkeep("verify", *place, "--topics", f"{archive.topic}:{target}").expect(14)
    assert "was restored with transforms" in judged.stderr


def test_a_field_of_a_sinks_rows_is_masked_by_the_library(archive: Archive) -> None:
    target = f"{archive.topic}-rows"
    done = library.restore(
        archive=archive.folders["parquet"],
        bootstrap_servers=archive.cluster.bootstrap,
        topics={archive.topic: target},
        settings=MASK,
    )
    assert done.records == 2 * COUNT
    archive.check(target, times=False)


def test_killed_in_the_middle_it_loses_nothing_and_repeats_nothing(
    archive: Archive, tmp_path: Path
) -> None:
    target, settings = f"{archive.topic}-killed", {**MASK_AND_DROP, **JSON}
    trace = tmp_path / "trace"  # its one task waits with the second request: nothing is on the way
    held = {"KAFKEEP_FAILPOINT": "request.before:sleep=600000@2"}
    held |= {"KAFKEEP_FAILPOINT_TRACE": str(trace)}
    asked = (*archive.asked("segment", target, settings), "--spark-conf", "spark.master=local[1,4]")
    driver = Driver(tmp_path, "restore", *asked, env=held)
    until(lambda: driver.runs() and trace.exists(), "it writes")
    driver.kill()
    part, kept = archive.size(target), 2 * sum(map(_is_no_test, archive.before[0]))
    assert 0 < part < kept
    rest = archive.restore("segment", target, settings, "--groups", "reader").expect(0, 3).json
    assert rest["records"] == kept - part
    archive.check(target, _is_no_test)
    # The group stands before the first record that it had not read and that is still there.
    with archive.cluster.consumer("reader") as consumer:
        [place] = consumer.committed([TopicPartition(target, 0)], 30)
    after = dump(archive.cluster.bootstrap, target)[0]
    unread = next(r for r in archive.before[0] if r.offset >= 1234 and _is_no_test(r))
    assert after[place.offset].key == unread.key


def test_what_cannot_be_is_refused_by_name(archive: Archive) -> None:
    def refused(code: int, settings: Mapping[str, str], *more: object) -> str:
        return archive.restore("segment", "never", settings, *more).expect(code).stderr

    assert "transforms.mask (MaskField$Value) needs decoded values" in refused(14, MASK)
    assert "value.converter has no effect" in refused(2, JSON)
    assert "topics.dir: " in refused(2, {**MASK, "topics.dir": "d"})
    assert "exact-offsets cannot" in refused(2, {**MASK_AND_DROP, **JSON}, "--exact-offsets")
    router = {"transforms": "r", "transforms.r.type": f"{SMT}TimestampRouter"}
    assert "topics are renamed with topics=a:new-a" in refused(2, router)
    assert archive.cluster.partitions("never") == []
