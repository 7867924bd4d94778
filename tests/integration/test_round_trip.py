"""Nothing is lost, doubled, reordered or altered: one backup, one restore, every kind of topic."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard
from tests.support.cluster import Cluster
from tests.support.independent_client import Dump, assert_same, count, dump
from tests.support.run_kafkeep import Outcome, kafkeep
from tests.support.topic_scenes import scenes

from kafkeep.archive.entry import Entry
from kafkeep.archive.log_check import check_log
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import load_view
from kafkeep.backup import log_writer, reconcile_reports
from kafkeep.dev import DevStatus, kafka_tool
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.core(suite="records")]
TAG = uuid.uuid4().hex[:6]
SCENES = scenes(TAG)
LAYERS = sorted(SCENES)


@dataclass(frozen=True)
class Story:
    """What was there, what was archived, and what came back."""

    cluster: Cluster
    archive: str
    store: ObjectStore
    before: dict[str, Dump]
    backup: Outcome
    split: Outcome
    restore: Outcome

    def entries(self, scene: str, log: str = "backup") -> list[Entry]:
        """What the log says of a scene's topic."""
        return load_view(self.store, log).entries(SCENES[scene][0])


@pytest.fixture(scope="module")
def story(services: DevStatus, module_s3: None, spark: None) -> Iterator[Story]:
    """Make every topic, back up twice (plainly, and cut into many ranges), delete, restore."""
    cluster = Cluster(services.bootstrap_servers)
    archive = f"s3://{services.s3.bucket}/round-trip-{TAG}"
    names = [topic for topic, _ in SCENES.values()]
    for topic, make in SCENES.values():
        if cluster.partitions(topic):  # "...", when services outlive the tests
            cluster.delete(topic)
        make(cluster, topic)
    before = {scene: dump(cluster.bootstrap, topic) for scene, (topic, _) in SCENES.items()}
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive, "--output", "json")
    chosen = ("--topics", ",".join(names))
    with pytest.MonkeyPatch.context() as patch:
        backup = kafkeep("backup", *where, *chosen).expect(0)
        patch.setattr(reconcile_reports, "SMALLEST_SPLIT_BYTES", 1)
        patch.setattr(reconcile_reports, "SMALLEST_BUNDLE_BYTES", 1)
        patch.setattr(log_writer, "RANGES_PER_SLOT", 20)
        split = kafkeep("backup", *where, *chosen, "--name", "split", "--segment-bytes", "5MiB")
        split.expect(0)
        for topic in names:
            cluster.delete(topic)
        restore = kafkeep("restore", *where, "--name", "backup").expect(0, 3)
        renamed = ",".join(
            f"{topic}:{topic[:230]}-split"
            for scene, (topic, _) in SCENES.items()
            if scene != "large"
        )
        kafkeep("restore", *where, "--name", "split", "--topics", renamed).expect(0, 3)
    store = open_store(archive, StorageOptions.from_env())
    yield Story(cluster, archive, store, before, backup, split, restore)


@pytest.mark.parametrize("scene", LAYERS)
def test_the_restored_topic_holds_the_same_records(story: Story, scene: str) -> None:
    topic = SCENES[scene][0]
    assert_same(story.before[scene], dump(story.cluster.bootstrap, topic))


@pytest.mark.parametrize("scene", [scene for scene in LAYERS if scene != "large"])
def test_a_partition_read_by_many_tasks_holds_the_same_records(story: Story, scene: str) -> None:
    topic = SCENES[scene][0]
    assert_same(story.before[scene], dump(story.cluster.bootstrap, f"{topic[:230]}-split"))


def test_the_summaries_count_what_consumers_see(story: Story) -> None:
    seen = sum(count(records) for records in story.before.values())
    assert story.backup.json["records"] == seen
    assert story.split.json["records"] == seen
    assert story.restore.json["records"] == seen
    assert story.backup.json["gaps"] == []


def test_the_scenes_are_what_they_claim(story: Story) -> None:
    times = [record.timestamp for record in story.before["times"][0]]
    assert len(times) == 33 and {-5, -1, 0, 2**63 - 1} <= set(times)
    assert all(record.timestamp_type == 2 for record in story.before["append_time"][0])
    nulls = story.before["nulls"][0][:9]
    assert {(r.key, r.value) for r in nulls} == {
        (key, value) for key in (None, b"", b"filled") for value in (None, b"", b"filled")
    }
    assert story.before["transactions"][1] == []
    assert {len(r) for r in story.before["empty"].values()} == {0}
    compacted = story.before["compacted"][0]
    assert compacted[-1].offset + 1 - len(compacted) > 200
    assert story.before["cut_start"][0][0].offset == 142
    assert max(len(r.value or b"") for r in story.before["large"][0]) == 20_000_000
    assert [len(r) for r in story.before["large_packed"].values()] == [3] * 5
    assert len(SCENES["longest"][0]) == 249


def test_large_records_were_packed_by_every_codec(story: Story) -> None:
    packed = [entry.raw_bytes < 10_000_000 for entry in story.entries("large_packed")]
    assert packed == [False, True, True, True, True]  # the first codec is none


def test_a_wide_partition_is_read_by_several_tasks(story: Story) -> None:
    assert len(story.entries("wide")) >= 3
    assert len(story.entries("wide", "split")) >= 20


@pytest.mark.parametrize("log", ["backup", "split"])
def test_entries_tile_what_was_archived(story: Story, log: str) -> None:
    view = load_view(story.store, log)
    ends: dict[object, int] = {}
    for entry in view.entries():
        before = ends.get(entry.partition_id)
        assert before is None or before <= entry.range.start
        ends[entry.partition_id] = entry.range.end
        assert entry.range.end <= view.positions[entry.partition_id]
    assert check_log(story.store, log) == []


def test_names_of_objects_are_confluents(story: Story) -> None:
    topic = SCENES["dotted"][0]
    keys = [entry.key for entry in story.entries("dotted")]
    assert keys == [
        f"topics/{topic}/partition={n}/{topic}+{n}+0000000000.log.zst" for n in range(2)
    ]


@pytest.mark.parametrize("scene", ["transactions", "compacted", "zstd", "nulls", "cut_start"])
def test_kafkas_own_tool_reads_an_unpacked_object(story: Story, scene: str, tmp_path: Path) -> None:
    entry = story.entries(scene)[0]
    packed = story.store.get(entry.key)
    with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
        raw = reader.read()
    assert len(raw) == entry.raw_bytes
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(raw)
    argv = kafka_tool("kafka-dump-log", "--print-data-log", "--deep-iteration", "--files")
    found = subprocess.run([*argv, str(segment)], capture_output=True, text=True, check=True)
    lines = found.stdout.splitlines()
    records = sum(line.startswith("| offset:") for line in lines)
    outside = sum(
        line.startswith("| offset:") and int(line.split()[2]) < entry.range.start for line in lines
    )
    assert records - outside == entry.records
    assert "isvalid: false" not in found.stdout
