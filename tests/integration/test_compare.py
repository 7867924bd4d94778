"""A target held against its archive on real Kafka, and a drill from beginning to end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import ANY_TIME, Cluster
from tests.support.run_kafkeep import Outcome, kafkeep

from kafkeep.clock import now_ms
from kafkeep.dev import DevStatus
from kafkeep.maintenance.drill import PREFIX
from kafkeep.maintenance.verify.last_verified import last_verified_ms, verified_prefix
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]

Message = dict[str, Any]
Edit = Callable[[list[Message]], list[Message]]
COUNT = 400


def messages(count: int = COUNT) -> list[Message]:
    return [
        {
            "key": f"k{i % 9}",
            "value": f"value {i}",
            "timestamp": 1_700_000_000_000 + i,
            "headers": [("a", b"1"), ("a", None), ("n", b"%d" % i)],
            "partition": 0,
        }
        for i in range(count)
    ]


class Archived:
    """One topic in an archive, and a way to hold others against it."""

    def __init__(self, cluster: Cluster, services: DevStatus) -> None:
        self.cluster = cluster
        self.topic = f"against-{uuid.uuid4().hex[:8]}"
        self.address = f"s3://{services.s3.bucket}/{uuid.uuid4().hex[:12]}"
        cluster.create(self.topic, 2, ANY_TIME)
        cluster.produce(self.topic, messages())
        cluster.fill(self.topic, 50, partition=1)
        kafkeep(
            "backup", "--bootstrap-servers", cluster.bootstrap, "--archive", self.address,
            "--topics", self.topic,
        ).expect(0)  # fmt: skip

    @property
    def store(self):  # type: ignore[no-untyped-def]
        return open_store(self.address, StorageOptions.from_env())

    def produce_as(self, edit: Edit) -> str:
        """Write another topic with partition 0 edited, by a client that is not kafkeep."""
        other = self.cluster.create(f"{self.topic}-{uuid.uuid4().hex[:6]}", 2, ANY_TIME)
        self.cluster.produce(other, edit(messages()))
        return other

    def against(self, target: str, *arguments: object) -> Outcome:
        return kafkeep(
            "verify", "--archive", self.address, "--against", self.cluster.bootstrap,
            "--topics", f"{self.topic}:{target}", "--output", "json", *arguments,
        )  # fmt: skip


@pytest.fixture(scope="module")
def archived(cluster: Cluster, services: DevStatus, module_s3: None, spark: None) -> Archived:
    return Archived(cluster, services)


def told(document: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in document["counts"].items() if count}


def test_a_restored_topic_is_clean_and_leaves_a_trace(archived: Archived, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    written = tmp_path / "restore.html"
    target = restored(archived, "new", "--report", written)
    assert target in written.read_text() and "450" in written.read_text()
    document = archived.against(target, "--report", report).expect(0).json
    assert told(document) == {} and document["verdict"] == "clean"
    assert document["archived"] == document["found"] == document["matched"] == COUNT + 50
    page = report.read_text()
    assert document["commit_sha256"] in page and target in page and "<svg" in page
    assert "src=" not in page and "http://" not in page and "https://" not in page
    assert last_verified_ms(archived.store, "backup") is None  # not all of it: renamed
    # The topic itself, by its own name: all of the archive.
    kafkeep(
        "verify", "--archive", archived.address, "--against", archived.cluster.bootstrap,
        "--exact-offsets",
    ).expect(0)  # fmt: skip
    assert abs(now_ms() - (last_verified_ms(archived.store, "backup") or 0)) < 60_000
    kafkeep("verify", "--archive", archived.address).expect(0)
    assert len(list(archived.store.list(verified_prefix("backup")))) == 2


EDITS: dict[
    str, tuple[Callable[[list[Message]], list[Message]], dict[str, int], dict[str, Any]]
] = {
    "altered value": (
        lambda m: [*m[:7], {**m[7], "value": "another"}, *m[8:]],
        {"altered": 1},
        {"archive": 7, "target": 7, "what": "value"},
    ),
    "altered headers": (
        lambda m: [*m[:7], {**m[7], "headers": m[7]["headers"][::-1]}, *m[8:]],
        {"altered": 1},
        {"archive": 7, "target": 7, "what": "headers"},
    ),
    "altered time": (
        lambda m: [*m[:7], {**m[7], "timestamp": 5}, *m[8:]],
        {"altered": 1},
        {"archive": 7, "target": 7, "what": "timestamp"},
    ),
    "lost": (lambda m: m[:100] + m[103:], {"lost": 3}, {"archive": 100}),
    "duplicate": (lambda m: m[:200] + m[150:], {"duplicate": 50}, {"target": 200}),
    "reordered": (
        lambda m: [*m[:30], m[31], m[30], *m[32:]],
        {"reordered": 1},
        {},
    ),
    "extra": (
        lambda m: [*m[:30], {**m[0], "key": "new", "value": "new", "timestamp": 9}, *m[30:]],
        {"extra": 1},
        {"archive": None, "target": 30},
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_what_differs_is_named(archived: Archived, name: str) -> None:
    edit, expected, place = EDITS[name]
    target = archived.produce_as(edit)
    document = archived.against(target, "--partitions", "0").expect(13).json
    assert told(document) == expected and document["verdict"] == "differs"
    (verdict,) = expected
    first = document["topics"][0]["partitions"][0]["places"][verdict][0]
    assert {key: first[key] for key in place} == place


def test_what_was_written_since_is_a_warning(archived: Archived) -> None:
    late = {"key": "late", "value": "late", "partition": 0}
    target = archived.produce_as(lambda m: [*m, late])
    document = archived.against(target, "--partitions", "0").expect(3).json
    assert told(document) == {"newer": 1}


def test_other_partitions_are_refused_unless_requested(archived: Archived) -> None:
    other = archived.cluster.create(f"{archived.topic}-wide", 3, ANY_TIME)
    spread = [{**m, "partition": hash(m["key"]) % 3} for m in messages()]
    archived.cluster.produce(other, spread)
    refused = archived.against(other, "--partitions", "0").expect(14)
    assert "3 partitions" in refused.stderr and "--repartitioned" in refused.stderr
    clean = archived.against(other, "--partitions", "0", "--repartitioned").expect(0).json
    assert clean["topics"][0]["compared_by"] == "key" and clean["matched"] == COUNT
    lost = archived.produce_as(lambda m: m[:3] + m[4:])
    document = archived.against(lost, "--partitions", "0", "--repartitioned").expect(13).json
    assert told(document) == {"lost": 1}


def restored(archived: Archived, name: str, *arguments: object) -> str:
    target = f"{archived.topic}-{name}"
    kafkeep(
        "restore", "--bootstrap-servers", archived.cluster.bootstrap, "--archive", archived.address,
        "--topics", f"{archived.topic}:{target}", *arguments,
    ).expect(0)  # fmt: skip
    return target


def test_the_document_of_a_restore_says_how_to_compare(archived: Archived) -> None:
    exact = archived.against(restored(archived, "exact", "--exact-offsets")).expect(0).json
    assert exact["exact_offsets"] and exact["matched"] == COUNT + 50
    wide = archived.against(restored(archived, "dealt", "--partition-count", 3)).expect(0).json
    assert wide["topics"][0]["compared_by"] == "key" and wide["matched"] == COUNT + 50
    moved = archived.against(restored(archived, "moved", "--shift-time", "+1h")).expect(0).json
    assert moved["topics"][0]["left_out"] == ["timestamp"]
    swapped = ("--exact-offsets", "--partition-map", "0:1,1:0")
    mapped = archived.against(restored(archived, "mapped", *swapped)).expect(0).json
    assert mapped["exact_offsets"] and mapped["topics"][0]["compared_by"] == "order"
    picked = restored(archived, "picked", "--filter", "key=k1")
    assert "--filter" in archived.against(picked).expect(14).stderr


def test_flags_of_a_comparison_are_refused_without_one(archived: Archived) -> None:
    refused = kafkeep("verify", "--archive", archived.address, "--exact-offsets").expect(2)
    assert "--exact-offsets" in refused.stderr
    assert "no topic nope" in archived.against("nope").expect(14).stderr


def test_what_a_format_does_not_store_is_not_compared_and_reported(
    archived: Archived, archive_address: str
) -> None:
    source = archived.produce_as(lambda m: [{**one, "value": '{"a": 1}'} for one in m])
    where = ("--bootstrap-servers", archived.cluster.bootstrap, "--archive", archive_address)
    kafkeep("backup", *where, "--topics", source, "--format", "json").expect(0)
    kafkeep("restore", *where, "--topics", f"{source}:{source}-back").expect(3)
    outcome = kafkeep(
        "verify", "--archive", archive_address, "--against", archived.cluster.bootstrap,
        "--topics", f"{source}:{source}-back", "--output", "json",
    ).expect(0)  # fmt: skip
    topic = outcome.json["topics"][0]
    assert "timestamp" in topic["left_out"] and topic["matched"] == COUNT


def scratch(cluster: Cluster) -> list[str]:
    return [name for name in cluster.admin.list_topics(timeout=30).topics if PREFIX in name]


@pytest.fixture
def no_scratch(cluster: Cluster) -> Iterator[None]:
    assert scratch(cluster) == []
    yield
    assert scratch(cluster) == []


def drill(archived: Archived, *arguments: object) -> Outcome:
    return kafkeep(
        "drill", "--archive", archived.address, "--bootstrap-servers", archived.cluster.bootstrap,
        "--output", "json", *arguments,
    )  # fmt: skip


@pytest.mark.usefixtures("no_scratch")
def test_a_drill_proves_everything_and_cleans_up(archived: Archived, tmp_path: Path) -> None:
    before = {info.key for info in archived.store.list("")}
    report = tmp_path / "drill.json"
    document = drill(archived, "--report", report).expect(0).json
    assert document["proven"] == document["archived"] == COUNT + 50
    assert document["proven_share"] == 1 and document["verify"]["verdict"] == "clean"
    assert json.loads(report.read_text()) == document
    assert {info.key for info in archived.store.list("")} == before


@pytest.mark.usefixtures("no_scratch")
def test_a_drill_may_take_a_sample(archived: Archived, tmp_path: Path) -> None:
    report = tmp_path / "drill.html"
    document = drill(archived, "--sample", "10%", "--report", report).expect(0).json
    assert document["proven"] == document["restored"] == COUNT // 10 + 5
    assert "Restore drill" in report.read_text()


def test_a_drill_that_fails_cleans_up_and_the_next_names_what_one_left(
    archived: Archived, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = tmp_path / "failed.json"

    def interrupt(*_: object, **__: object) -> None:
        assert scratch(archived.cluster)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kafkeep.maintenance.drill.run_compare", interrupt)
        drill(archived, "--report", report).expect(130)
    failed = json.loads(report.read_text())
    assert (failed["verdict"], failed["message"]) == ("failed", "interrupted")
    assert scratch(archived.cluster) == []
    left = archived.cluster.create(f"{PREFIX}20240101T000000-deadbeef-0-orders")
    document = drill(archived, "--sample", "5").expect(3).json
    assert document["leftovers"] == [left] and scratch(archived.cluster) == [left]
    archived.cluster.delete(left)
