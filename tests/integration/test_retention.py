"""Lifecycle rules on a real bucket, and what is told of objects that a rule has deleted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from tests.support.cluster import Cluster, until
from tests.support.connect.jobs import Worker, produce_json
from tests.support.run_kafkeep import kafkeep
from tests.support.sink_runs import Bucket

from kafkeep.archive.expiry import DAY_MS
from kafkeep.archive.view import load_view
from kafkeep.dev import DevStatus
from kafkeep.errors import KeyMissingError, UsageError
from kafkeep.maintenance.inspect.cat import CatOptions, iter_lines, json_line
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.tasks import TaskRunner
from kafkeep.store.open import open_store
from kafkeep.store.s3.lifecycle import Lifecycle, Rule, rule_id

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("module_s3", "spark")]

CH_TBD = "ch.tbd.kafka.backuprestore.backup.kafkaconnect.BackupSinkConnector"
KEPT = {"retention.ms": "-1"}
THEIRS = {
    "ID": "logs of the web server",
    "Status": "Enabled",
    "Filter": {"And": {"Prefix": "web/", "Tags": [{"Key": "kind", "Value": "log"}]}},
    "Expiration": {"Days": 3},
}


@pytest.fixture
def bucket(services: DevStatus) -> Bucket:
    return Bucket(services)


def rules(bucket: Bucket) -> dict[str, Any]:
    """Return the bucket's rules by id, as a client that is not kafkeep's sees them."""
    try:
        answer = bucket.client.get_bucket_lifecycle_configuration(Bucket=bucket.name)
    except bucket.client.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "NoSuchLifecycleConfiguration"
        return {}
    return {
        rule["ID"]: (rule["Filter"].get("Prefix"), rule["Expiration"]["Days"], rule["Status"])
        for rule in answer["Rules"]
    }


def set_rules(bucket: Bucket, *raw: dict[str, Any]) -> None:
    bucket.client.put_bucket_lifecycle_configuration(
        Bucket=bucket.name, LifecycleConfiguration={"Rules": list(raw)}
    )


def test_only_our_rules_are_added_changed_and_removed(bucket: Bucket) -> None:
    set_rules(bucket, THEIRS)
    (theirs,) = rules(bucket).items()
    lifecycle = Lifecycle(f"s3://{bucket.name}/deep/er", StorageOptions.from_env())
    one = Rule(rule_id("backup", "orders"), "topics/orders/", 7)
    lifecycle.set([one, Rule(rule_id("backup", "events"), "topics/events/", 9)])
    assert rules(bucket) == dict(
        [
            theirs,
            ("kafkeep:backup:orders", ("deep/er/topics/orders/", 7, "Enabled")),
            ("kafkeep:backup:events", ("deep/er/topics/events/", 9, "Enabled")),
        ]
    )
    assert lifecycle.ours()["kafkeep:backup:orders"] == one
    lifecycle.set([Rule(one.id, one.prefix, 30)])
    assert rules(bucket)[one.id][1] == 30
    lifecycle.remove([one.id, "kafkeep:backup:events", "logs of the web server"])
    assert rules(bucket) == dict([theirs])
    raw = bucket.client.get_bucket_lifecycle_configuration(Bucket=bucket.name)["Rules"]
    assert raw == [THEIRS]
    bucket.client.delete_bucket_lifecycle(Bucket=bucket.name)
    lifecycle.remove([one.id])
    assert rules(bucket) == {}


def test_a_folder_has_no_rules(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no lifecycle rules: only a bucket of S3"):
        Lifecycle(str(tmp_path), StorageOptions())


@pytest.fixture(scope="module")
def archived(services: DevStatus, cluster: Cluster) -> Iterator[tuple[str, str, Any]]:
    """An archive of one topic in three objects, the first of which a rule has deleted."""
    topic = f"expiring-{uuid.uuid4().hex[:6]}"
    cluster.create(topic)
    address = f"s3://{services.s3.bucket}/{topic}"
    for start in (0, 10, 20):
        produce_json(cluster, topic, *range(start, start + 10))
        kafkeep(
            "backup", "--bootstrap-servers", services.bootstrap_servers, "--topics", topic,
            "--archive", address,
        ).expect(0)  # fmt: skip
    client = boto3.client(
        "s3", endpoint_url=services.s3.endpoint, aws_access_key_id=services.s3.access_key,
        aws_secret_access_key=services.s3.secret_key, region_name=services.s3.region,
    )  # fmt: skip
    yield topic, address, client
    client.delete_bucket_lifecycle(Bucket=services.s3.bucket)


def delete(archived: tuple[str, str, Any], services: DevStatus, number: int) -> None:
    topic, address, client = archived
    entry = load_view(open_store(address), "backup").entries(topic)[number]
    client.delete_object(Bucket=services.s3.bucket, Key=f"{topic}/{entry.key}")


def test_what_a_rule_may_have_deleted_is_expired_and_all_else_is_damage(
    services: DevStatus,
    cluster: Cluster,
    archived: tuple[str, str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic, address, _ = archived
    kafkeep("retention", "show", "--archive", address).expect(0)
    kafkeep("retention", "set", "--archive", address, "--days", 7).expect(0)
    shown = kafkeep("retention", "show", "--archive", address, "--output", "json").expect(0)
    (rule,) = shown.json["rules"]
    assert (rule["topic"], rule["days"], rule["in_bucket"]) == (topic, 7, 7)
    delete(archived, services, 0)
    # The object is of today: no rule of a week has deleted it.
    kafkeep("verify", "--archive", address).expect(13)
    target = f"{topic}-back"
    restore = (
        "restore", "--bootstrap-servers", services.bootstrap_servers, "--archive", address,
        "--topics", f"{topic}:{target}", "--output", "json",
    )  # fmt: skip
    kafkeep(*restore).expect(13)
    with pytest.raises(KeyMissingError):
        count_rows(address, topic)
    eight_days = 8 * DAY_MS * 1_000_000
    late = SimpleNamespace(time_ns=lambda: time.time_ns() + eight_days)
    monkeypatch.setattr("kafkeep.clock.time", late)
    checked = kafkeep("verify", "--archive", address, "--output", "json").expect(0)
    expired = [f for f in checked.json["findings"] if f["kind"] == "expired"]
    assert len(expired) == 1 and checked.json["intact"]
    assert expired[0]["message"].endswith("expired by the retention rule of 7 days")
    summary = kafkeep(*restore).expect(3).json
    assert summary["records"] == 20
    (gap,) = summary["gaps"]
    assert (gap["start"], gap["end"]) == (0, 10)
    assert gap["reason"] == "expired by the retention rule of 7 days"
    assert cluster.end(target) == 20
    against = ("verify", "--archive", address, "--against", services.bootstrap_servers)
    for there, code, counts in ((target, 0, {}), (topic, 3, {"unheld": 10})):
        asked = (*against, "--topics", f"{topic}:{there}", "--output", "json")
        compared = kafkeep(*asked).expect(code).json
        assert {k: n for k, n in compared["counts"].items() if n} == counts
        assert compared["matched"] == compared["archived"] == 20
        assert "expired by the retention rule of 7 days" in str(compared["topics"][0]["notes"])
    where = ("--archive", address, "--bootstrap-servers", services.bootstrap_servers)
    drill = kafkeep("drill", *where, "--output", "json").expect(3).json
    assert (drill["archived"], drill["restored"], drill["proven"]) == (30, 20, 20)
    assert "expired by the retention rule of 7 days" in str(drill["warnings"])
    caplog.clear()
    lines = iter_lines(open_store(address), "backup", CatOptions(topics=(topic,)), json_line)
    assert len(b"".join(lines).splitlines()) == 20
    assert "expired by the retention rule of 7 days" in caplog.text
    caplog.clear()
    assert count_rows(address, topic) == 20
    assert f"{topic}-0 offsets 0..10: expired by the retention rule of 7 days" in caplog.text
    kafkeep("retention", "remove", "--archive", address).expect(0)


def count_rows(address: str, topic: str) -> int:
    """Read a topic as Spark would, in this process."""
    from kafkeep.spark.datasource.source import KafkeepReader  # which Spark 3.5 lacks

    reader = KafkeepReader({"path": address, "topics": topic})
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


@pytest.fixture
def worker(services: DevStatus, open_spark: TaskRunner, bucket: Bucket, tmp_path: Path) -> Worker:
    return Worker(services, open_spark, str(tmp_path / "state"), bucket.name)


def test_a_connector_sets_its_rule_when_it_starts_and_takes_it_away_without_the_key(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic_name: str
) -> None:
    topic = cluster.create(topic_name)
    set_rules(bucket, THEIRS)
    config = worker.json_sink(topic)
    ours = {f"kafkeep:keeper:{topic}", f"kafkeep:keeper:{topic}~"}
    with worker.running("keeper", {**config, "s3.retention.days": "5"}):
        until(lambda: ours <= rules(bucket).keys(), "the rules are set")
    assert rules(bucket)[f"kafkeep:keeper:{topic}"] == (f"topics/{topic}/", 5, "Enabled")
    assert rules(bucket)[f"kafkeep:keeper:{topic}~"] == (f"topics/{topic}~", 5, "Enabled")
    with worker.running("keeper", config):
        until(lambda: not ours & rules(bucket).keys(), "and taken away")
    assert rules(bucket).keys() == {THEIRS["ID"]}


def test_topics_that_an_expression_finds_have_their_rules_also_those_that_come_later(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic_name: str
) -> None:
    first = cluster.create(f"{topic_name}-1")
    config = {**worker.json_sink(""), "topics.regex": f"{topic_name}-.*"}
    with worker.running("finder", {**config, "s3.retention.days": "5"}):
        until(lambda: f"kafkeep:finder:{first}" in rules(bucket), "the first has its rule")
        later = cluster.create(f"{topic_name}-2")
        until(lambda: f"kafkeep:finder:{later}" in rules(bucket), "the second, too")
    assert rules(bucket)[f"kafkeep:finder:{later}~"] == (f"topics/{later}~", 5, "Enabled")
    mine = f"kafkeep:finder:{topic_name}"
    with worker.running("finder", config):
        until(lambda: not any(name.startswith(mine) for name in rules(bucket)), "none is left")


def test_ch_tbds_backup_has_a_rule_by_default_that_spares_what_kafka_or_the_bucket_keeps(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic_name: str
) -> None:
    settings = {"plain": {}, "long": {"retention.ms": str(100 * DAY_MS)}, "kept": KEPT}
    names = {kind: cluster.create(f"{topic_name}-{kind}", 1, own) for kind, own in settings.items()}
    held = cluster.create(f"{topic_name}-held")
    bucket.client.put_object(Bucket=bucket.name, Key=f"{held}/by-others", Body=b"x")
    topics = ",".join((*names.values(), held))
    config = worker.config(CH_TBD, topics=topics, flush_size=3, tasks_max=1)
    expected = {names["plain"]: 30, names["long"]: 101}

    def days() -> dict[str, int]:
        found = rules(bucket).values()
        return {prefix.rstrip("/"): n for prefix, n, _ in found if prefix.endswith("/")}

    with worker.running("keeper", config):
        until(lambda: days() == expected, "the default is set")
        produce_json(cluster, names["plain"], 1, 2, 3)
        until(lambda: len(bucket.list_keys()) > 1, "an object is there")
    with worker.running("keeper", config):
        produce_json(cluster, names["plain"], 4, 5, 6)
        until(lambda: len(bucket.list_keys()) > 2, "another one is there")
        assert days() == expected
    with worker.running("keeper", {**config, "s3.retention.days": "-1"}):
        until(lambda: days() == {}, "it is switched off")
    # What is kept for ever is not put under a default later on.
    with worker.running("keeper", config):
        until(lambda: days() == {names["long"]: 101}, "a topic without objects has it again")
        produce_json(cluster, names["plain"], 7, 8, 9)
        until(lambda: len(bucket.list_keys()) > 3, "a third one is there")
        assert days() == {names["long"]: 101}
