"""What a restore does to its target, and what it refuses to do."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.support.cluster import ANY_TIME, Cluster
from tests.support.independent_client import assert_same, count, dump
from tests.support.run_kafkeep import Outcome, kafkeep
from tests.support.waiting import until

from kafkeep.archive.view import load_view
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.document import FOLDER, load_document
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
DAY = 86_400_000


class Saved:
    """A topic in an archive, and the commands that bring it back."""

    def __init__(self, cluster: Cluster, topic: str, address: str) -> None:
        self.cluster, self.topic, self.address = cluster, topic, address
        self.where = ("--bootstrap-servers", cluster.bootstrap, "--archive", address)
        self.where += ("--output", "json")
        kafkeep("backup", *self.where, "--topics", topic).expect(0)
        self.before = dump(cluster.bootstrap, topic)

    @property
    def store(self):  # type: ignore[no-untyped-def]
        return open_store(self.address, StorageOptions.from_env())

    def restore(self, target: str | None = None, *arguments: object) -> Outcome:
        chosen = self.topic if target is None else f"{self.topic}:{target}"
        return kafkeep("restore", *self.where, "--topics", chosen, *arguments)

    def check(self, target: str) -> None:
        assert_same(self.before, dump(self.cluster.bootstrap, target))


@pytest.fixture
def saved(cluster: Cluster, topic_name: str, archive_address: str) -> Iterator[Saved]:
    cluster.create(topic_name, 2)
    cluster.fill(topic_name, 300)
    cluster.fill(topic_name, 200, partition=1)
    yield Saved(cluster, topic_name, archive_address)


def test_a_restore_runs_once_and_a_second_run_does_nothing(saved: Saved) -> None:
    target = f"{saved.topic}-new"
    first = saved.restore(target).expect(0).json
    assert first["topics"] == {target: 500} and first["already_there"] == 0
    saved.check(target)
    second = saved.restore(target).expect(0).json
    assert (second["records"], second["already_there"]) == (0, 500)
    saved.check(target)
    saved.cluster.fill(target, 7, first=500)  # the topic is in use again
    assert saved.restore(target).expect(0).json["already_there"] == 500


def test_commits_that_came_after_a_finished_restore_are_reported(saved: Saved) -> None:
    target = f"{saved.topic}-new"
    saved.restore(target).expect(0)
    kafkeep("backup", *saved.where, "--topics", saved.topic).expect(0)  # nothing but a commit
    assert saved.restore(target).expect(0).json["newer"] == []
    saved.cluster.fill(saved.topic, 5, first=300)
    kafkeep("backup", *saved.where, "--topics", saved.topic).expect(0)
    plan = saved.restore(target, "--dry-run").expect(0).json["preflight"]
    assert any("the archive has newer commits" in check["what"] for check in plan)
    told = saved.restore(target).expect(3)
    assert (told.json["records"], told.json["newer"]) == (0, [target])
    assert f"warning: {target}: the archive has newer commits" in told.stderr
    saved.check(target)
    saved.cluster.delete(target)
    assert saved.restore(target).expect(0).json["records"] == 505


def test_a_deleted_target_is_restored_again(saved: Saved) -> None:
    target = f"{saved.topic}-new"
    saved.restore(target).expect(0)
    saved.cluster.delete(target)
    assert saved.restore(target).expect(0).json["records"] == 500
    saved.check(target)


def test_a_target_that_holds_records_is_refused_and_untouched(saved: Saved) -> None:
    refused = saved.restore().expect(14)
    assert "it is not empty" in refused.stderr
    saved.check(saved.topic)
    assert list(saved.store.list(FOLDER)) == []


def test_an_empty_target_that_exists_is_filled_and_keeps_its_settings(saved: Saved) -> None:
    target = saved.cluster.create(f"{saved.topic}-there", 2, {"retention.ms": str(30 * DAY)})
    saved.restore(target).expect(0)
    saved.check(target)
    assert saved.cluster.config(target)["retention.ms"] == str(30 * DAY)
    assert saved.cluster.config(target)["cleanup.policy"] == "delete"


@pytest.mark.core(suite="records")
def test_into_non_empty_appends(saved: Saved) -> None:
    target = saved.cluster.create(f"{saved.topic}-full", 2)
    saved.cluster.fill(target, 5, first=900)
    saved.restore(target, "--into-non-empty").expect(0)
    after = dump(saved.cluster.bootstrap, target)
    assert count(after) == 505
    assert_same(saved.before, {0: after[0][5:], 1: after[1]})


@pytest.mark.core(suite="records")
def test_what_others_write_during_a_restore_is_noticed(saved: Saved) -> None:
    target = f"{saved.topic}-new"
    document = _cut_off(saved, target)
    saved.cluster.fill(target, 1, partition=1, first=777)
    refused = saved.restore(target).expect(14)
    assert "is not what this restore wrote" in refused.stderr
    assert document is not None


def _cut_off(saved: Saved, target: str):  # type: ignore[no-untyped-def]
    """Make a restore whose document says that it is under way, and whose target is complete."""
    id = saved.restore(target).expect(0).json["id"]
    document = load_document(saved.store, id)
    assert document is not None
    store = saved.store
    folder = f"{FOLDER}/{id}/"
    newest = max(info.key for info in store.list(folder))
    store.delete(newest)  # as if it had died before the end was noted
    return load_document(store, id)


@pytest.mark.core(suite="records")
def test_a_late_request_of_a_dead_restore_is_not_stored_twice(saved: Saved) -> None:
    target = f"{saved.topic}-new"
    document = _cut_off(saved, target)
    place = document.target(target).partitions[0]
    values = [Record(i, r.timestamp, r.key, r.value) for i, r in enumerate(saved.before[0])]
    with Wire(KafkaOptions(saved.cluster.bootstrap)) as wire:
        for first, last in ((0, 10), (5, 40), (290, 300), (0, 300)):
            body = build_batch(
                [r._replace(offset=i) for i, r in enumerate(values[first:last])],
                producer_id=place.producer_id,
                producer_epoch=place.producer_epoch,
                base_sequence=first,
            )
            wire.produce({(target, 0): body}).result(30)
    assert saved.restore(target).expect(0).json["records"] == 0
    saved.check(target)


def test_a_restore_cut_off_while_preparing_is_finished(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkeep import failpoint

    for place in ("restore.prepared", "restore.created", "restore.documented", "restore.written"):
        target = f"{saved.topic}-{place}"
        try:
            failpoint.arm(f"{place}:raise")
            saved.restore(target).expect(1)
        finally:
            failpoint.arm("")
        saved.restore(target).expect(0)
        saved.check(target)
        assert saved.cluster.config(target)["retention.ms"] == str(7 * DAY)


@pytest.mark.core(suite="records")
def test_settings_come_back(cluster: Cluster, topic_name: str, archive_address: str) -> None:
    config = {"cleanup.policy": "compact", "max.message.bytes": "2000000", "segment.ms": "70000000"}
    cluster.create(topic_name, 1, config)
    cluster.produce(topic_name, [{"key": f"{i}", "value": "v"} for i in range(10)])
    saved = Saved(cluster, topic_name, archive_address)
    target = f"{topic_name}-new"
    saved.restore(target).expect(0)
    saved.check(target)
    found = cluster.config(target)
    assert {name: found[name] for name in config} == config
    assert found["message.timestamp.type"] == "CreateTime"


@pytest.mark.core(suite="records")
def test_retention_wide_enough_comes_back(
    cluster: Cluster, topic_name: str, archive_address: str
) -> None:
    cluster.create(topic_name, 1, {"retention.ms": str(100 * DAY)})
    old = int(time.time() * 1000) - 90 * DAY
    cluster.produce(topic_name, [{"value": f"{i}", "timestamp": old} for i in range(10)])
    saved = Saved(cluster, topic_name, archive_address)
    assert saved.restore(f"{topic_name}-new").expect(0).json["held_back"] == []
    assert cluster.config(f"{topic_name}-new")["retention.ms"] == str(100 * DAY)


def test_the_clusters_own_retention_does_not_delete_old_records(
    cluster: Cluster, topic_name: str, archive_address: str
) -> None:
    cluster.create(topic_name)
    now = int(time.time() * 1000)  # the new record keeps the old ones from expiring meanwhile
    cluster.produce(topic_name, [{"value": "v", "timestamp": at} for at in (now - 90 * DAY, now)])
    saved = Saved(cluster, topic_name, archive_address)
    planned = saved.restore(f"{topic_name}-a", "--dry-run").expect(0).json["preflight"]
    assert any(f"retention.ms={7 * DAY} will not be put back" in check["what"] for check in planned)
    held = saved.restore(f"{topic_name}-a").expect(3)
    assert held.json["held_back"][0]["key"] == "retention.ms"
    assert "hint: set it with: kafka-configs" in held.stderr
    assert cluster.config(f"{topic_name}-a")["retention.ms"] == "-1"
    saved.restore(f"{topic_name}-b", "--apply-retention").expect(0)
    assert cluster.config(f"{topic_name}-b")["retention.ms"] == str(7 * DAY)


@pytest.mark.core(suite="records")
def test_old_records_stay_in_an_empty_target_that_has_no_retention_of_its_own(
    cluster: Cluster, topic_name: str, archive_address: str
) -> None:
    cluster.create(topic_name, 1, ANY_TIME)
    cluster.produce(topic_name, [{"value": "v", "timestamp": 1000 + i} for i in range(10)])
    saved = Saved(cluster, topic_name, archive_address)
    target = cluster.create(f"{topic_name}-there")
    saved.restore(target).expect(3)
    assert cluster.config(target)["retention.ms"] == "-1"
    short = cluster.create(f"{topic_name}-short", 1, {"retention.ms": "1000"})
    cluster.produce(short, [{"value": "v", "timestamp": 1000}])
    until(lambda: cluster.end(short, start=True) == 1, "the broker has deleted expired records")
    saved.check(target)


@pytest.mark.core(suite="records")
def test_a_target_that_cannot_be_is_refused_before_anything_is_written(
    saved: Saved, topic_name: str
) -> None:
    cluster = saved.cluster
    cluster.create(f"{topic_name}-three", 3)
    differs = saved.restore(f"{topic_name}-three").expect(14)
    assert "it has 3 partitions, the archive 2" in differs.stderr
    many = saved.restore(f"{topic_name}-many", "--replication-factor", 3).expect(14)
    assert "--replication-factor 1" in many.stderr
    cluster.create(f"{topic_name}_x")
    twin = saved.restore(f"{topic_name}.x").expect(14)
    assert "differ only in . and _" in twin.stderr
    saved.restore("not/a/name").expect(2)
    assert not cluster.partitions(f"{topic_name}-many")
    assert list(saved.store.list(FOLDER)) == []


def test_a_missing_object_stops_a_restore_before_it_writes(saved: Saved) -> None:
    target = f"{saved.topic}-new"
    lost = load_view(saved.store, "backup").entries()[1]
    saved.store.delete(lost.key)
    refused = saved.restore(target).expect(13)
    assert lost.key in refused.stderr and "--allow-missing" in refused.stderr
    assert not saved.cluster.partitions(target)
    done = saved.restore(target, "--allow-missing").expect(3)
    assert done.json["lost"] == [lost.key] and lost.key in done.stderr
    assert_same({0: saved.before[0], 1: []}, dump(saved.cluster.bootstrap, target))


def test_a_dry_run_writes_nothing(saved: Saved) -> None:
    target = f"{saved.topic}-new"
    plan = saved.restore(target, "--dry-run").expect(0).json
    assert plan["message_type"] == "plan" and plan["records"] == 500
    assert plan["preflight"][0]["verdict"] == "pass"
    assert not saved.cluster.partitions(target)
    assert list(saved.store.list(FOLDER)) == []


def test_a_rate_is_kept(cluster: Cluster, topic_name: str, archive_address: str) -> None:
    cluster.create(topic_name)
    pad = bytes(range(256)) * 4000
    for i in range(8):
        cluster.records(topic_name, [Record(0, int(time.time() * 1000), b"%d" % i, pad)])
    saved = Saved(cluster, topic_name, archive_address)
    done = saved.restore(f"{topic_name}-new", "--rate", "4MiB").expect(0).json
    assert done["seconds"] >= 1.9  # that it waits no longer than it must: tests/unit/restore
    saved.check(f"{topic_name}-new")


def test_a_document_may_lie_elsewhere(saved: Saved, tmp_path, services: DevStatus) -> None:  # type: ignore[no-untyped-def]
    target = f"{saved.topic}-new"
    saved.restore(target, "--state", tmp_path / "state").expect(0)
    assert list(saved.store.list(FOLDER)) == []
    assert list((tmp_path / "state").rglob("*.json"))
    assert saved.restore(target, "--state", tmp_path / "state").expect(0).json["records"] == 0
