"""Locations few runs pass: whoever dies there is finished by the next, as at any other."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from confluent_kafka import TopicPartition
from tests.support.cluster import Cluster, until
from tests.support.confluent_registry import ConfluentRegistry, serving
from tests.support.connect.jobs import CONFLUENT, group_offsets, produce_json
from tests.support.connect.run_source import _run_tasks, run_source
from tests.support.independent_client import dump
from tests.support.kills import Trial, die
from tests.support.sink_runs import Bucket

from kafkeep.archive.expiry import load_retention
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.make import make_job
from kafkeep.connect.service.journal import Journal
from kafkeep.dev import DevStatus
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.store.local.store import LocalStore
from kafkeep.store.open import open_store
from kafkeep.store.s3.lifecycle import Lifecycle

pytestmark = [pytest.mark.integration, pytest.mark.slow]
MIB = 1 << 20


# --- a change of a connector

CHANGE = """
import sys
from kafkeep.connect.service.journal import Journal
from kafkeep.connect.service.state import StateChange
from kafkeep.store.local.store import LocalStore
folder, name = sys.argv[1:]
Journal.open(LocalStore(folder)).commit(lambda _: StateChange(kind="define", name=name))
"""


def test_a_change_whose_worker_dies_is_there_or_not_and_never_half(tmp_path: Path) -> None:
    def connectors() -> set[str]:
        return set(Journal.open(LocalStore(tmp_path)).state.connectors)

    die(CHANGE, str(tmp_path), "one", failpoint="journal.before:exit@1")
    assert connectors() == set()
    die(CHANGE, str(tmp_path), "one", failpoint="journal.after:exit@1")
    assert connectors() == {"one"}
    die(CHANGE, str(tmp_path), "two", failpoint="journal.before:exit@1")
    assert connectors() == {"one"}
    subprocess.run([sys.executable, "-c", CHANGE, str(tmp_path), "two"], check=True)
    assert connectors() == {"one", "two"}


# --- an object that goes up in parts

UPLOAD = """
import sys
from dataclasses import replace
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store
options = replace(StorageOptions.from_env(), multipart_bytes=1, part_bytes=5 << 20)
writer = open_store(sys.argv[1], options).create("topics/large")
for letter in b"abc":
    writer.write(bytes([letter]) * (5 << 20))
writer.finish()
"""


def test_an_object_whose_writer_dies_between_parts_is_not_there(archive_address: str) -> None:
    bucket, _, prefix = archive_address.removeprefix("s3://").partition("/")
    client = boto3.client("s3")

    def there() -> list[str]:
        found = client.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/")
        return [row["Key"] for row in found.get("Contents", [])]

    for part in (1, 3):
        die(UPLOAD, archive_address, failpoint=f"object.part:exit@{part}")
        assert there() == []
    assert subprocess.run([sys.executable, "-c", UPLOAD, archive_address], check=True)
    [key] = there()
    body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    assert body == b"".join(bytes([letter]) * (5 * MIB) for letter in b"abc")


# --- groups

RESTORED = ("groups.recorded:exit@1", "groups.committed:exit@1", "groups.committed:exit@2")


@pytest.mark.usefixtures("spark")
def test_groups_are_moved_and_put_back_though_whoever_does_it_dies(
    services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path
) -> None:
    cluster = Cluster(services.bootstrap_servers)
    trial = Trial(cluster, archive_address, topic_name, tmp_path)
    groups, target = [f"{topic_name}-a", f"{topic_name}-b"], f"{topic_name}-back"
    cluster.create(topic_name)
    cluster.fill(topic_name, 100)
    for number, group in enumerate(groups):
        cluster.commit_offset(group, topic_name, 40 + number)
    trial.run("backup", "--topics", topic_name).expect(0)
    asked = ("--topics", f"{topic_name}:{target}")
    trial.run("restore", *asked).expect(0, 3)
    cluster.commit_offset(groups[0], target, 7)

    def stand() -> list[int]:
        return [_committed(cluster, group, target) for group in groups]

    for failpoint in RESTORED:
        trial.die(trial.start("groups apply", *asked, failpoint=failpoint), failpoint)
    trial.run("groups apply", *asked).expect(0)
    assert stand() == [40, 41]
    for failpoint in ("groups.returned:exit@1", "groups.returned:exit@2"):
        trial.die(trial.start("groups rollback", *asked, failpoint=failpoint), failpoint)
    trial.run("groups rollback", *asked).expect(0)
    assert stand()[0] == 7 and stand()[1] < 0


def _committed(cluster: Cluster, group: str, topic: str) -> int:
    with cluster.consumer(group) as consumer:
        [found] = consumer.committed([TopicPartition(topic, 0)], 30)
    return int(found.offset)


# --- a connector's group

TOLD = ("group.before:exit@1", "group.after:exit@1", "group.before:exit@2")


def test_the_group_of_a_connector_that_dies_is_committed_by_the_next(
    services: DevStatus, topic_name: str, s3_env: DevStatus, tmp_path: Path
) -> None:
    """The log is ahead of the group then; nothing is archived again because of that."""
    cluster, s3 = Cluster(services.bootstrap_servers), s3_env.s3
    cluster.create(topic_name)
    name, group = f"sink-{topic_name}", f"connect-sink-{topic_name}"
    config = {
        "connector.class": CONFLUENT,
        "topics": topic_name,
        "s3.bucket.name": s3.bucket,
        "s3.region": s3.region,
        "store.url": s3.endpoint,
        "format.class": "json",
        "flush.size": "3",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    around = JobContext(
        kafka=KafkaOptions(services.bootstrap_servers),
        run_tasks=_run_tasks,
        slots=lambda: 1,
        state_address=str(tmp_path / "state"),
    )
    told = []
    for turn, failpoint in enumerate(TOLD):
        produce_json(cluster, topic_name, *range(3 * turn, 3 * turn + 3))
        assert run_source(name, config, around, failpoint, tmp_path / "trace") == 137
        told.append(group_offsets(cluster, group, topic_name).get((topic_name, 0)))
    assert told[:2] == [None, 3], "the group is not ahead of the log"
    with _running(name, config, around):
        until(
            lambda: group_offsets(cluster, group, topic_name) == {(topic_name, 0): 9},
            "the group is told",
        )
    client = boto3.client("s3")
    pages = client.list_objects_v2(Bucket=s3.bucket, Prefix=f"topics/{topic_name}/")["Contents"]
    bodies = [client.get_object(Bucket=s3.bucket, Key=row["Key"])["Body"].read() for row in pages]
    assert b"".join(bodies) == b"".join(b'{"n":%d}\n' % n for n in range(9))


@contextmanager
def _running(name: str, config: dict[str, str], around: JobContext) -> Iterator[None]:
    job: Any = make_job(name, config, around)
    stop = threading.Event()
    thread = threading.Thread(target=job.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


# --- schemas of a registry

IMPORTED = ("schemas.importing:exit@1", "restore.schemas:exit@1")
MAPPED = ("schemas.register:exit@1", "schemas.register:exit@2", "restore.schemas:exit@1")


@pytest.mark.usefixtures("spark")
def test_schemas_are_kept_and_brought_back_though_whoever_does_it_dies(
    services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path
) -> None:
    cluster = Cluster(services.bootstrap_servers)
    trial = Trial(cluster, archive_address, topic_name, tmp_path)
    cluster.create(topic_name)
    source = ConfluentRegistry(first_id=7)
    subjects = [f"{topic_name}-value", f"{topic_name}-key"]
    ids = [source.add(name, text) for name in subjects for text in ('"string"', '"long"')]
    values = [id.to_bytes(5, "big") + b"\x02x" for id in ids]
    cluster.produce(topic_name, [{"value": value} for value in values])
    with serving(source) as url:
        backup = ("backup", "--topics", topic_name, "--schema-registry", url)
        trial.die(trial.start(*backup, failpoint="schemas.stored:exit@1"), "schemas.stored:exit@1")
        trial.run(*backup).expect(0)
    ways = {"ids": (IMPORTED, 1), "map": (MAPPED, 100)}
    for way, (failpoints, first_id) in ways.items():
        target, into = ConfluentRegistry(first_id), f"{topic_name}-{way}"
        with serving(target) as url:
            asked = ("restore", "--topics", f"{topic_name}:{into}", "--schemas", way)
            asked += ("--schema-registry", url)
            for failpoint in failpoints:
                trial.die(trial.start(*asked, failpoint=failpoint), failpoint)
            trial.run(*asked).expect(0, 3)
        assert not target.modes, "no subject is left open"
        assert {name: sorted(target.subjects[name]) for name in subjects} == {
            name: [1, 2] for name in subjects
        }
        found = [target.subjects[name][n]["id"] for name in subjects for n in (1, 2)]
        assert (found == ids) is (way == "ids")
        restored = [record.value for record in dump(cluster.bootstrap, into)[0]]
        assert restored == [id.to_bytes(5, "big") + b"\x02x" for id in found]


# --- a rule of the bucket

RETENTION = """
import sys
from kafkeep.maintenance.retention import apply_retention
from kafkeep.options.storage import StorageOptions
days = None if sys.argv[2] == "off" else int(sys.argv[2])
apply_retention(sys.argv[1], StorageOptions.from_env(), "log", ["orders"], days, now_ms=1)
"""


@pytest.mark.usefixtures("module_s3")
def test_a_rule_whose_setting_or_removal_dies_half_way_is_finished_by_the_next(
    services: DevStatus,
) -> None:
    bucket = Bucket(services)
    address = f"s3://{bucket.name}"

    def rules() -> tuple[int | None, int | None]:
        """Return the rule as the log's folder has it, and as the bucket has it."""
        known = load_retention(open_store(address), "log").days("orders")
        ours = Lifecycle(address, StorageOptions.from_env()).ours().get("kafkeep:log:orders")
        return known, ours.days if ours else None

    def apply(days: str) -> None:
        subprocess.run([sys.executable, "-c", RETENTION, address, days], check=True)

    die(RETENTION, address, "5", failpoint="retention.recorded:exit@1")
    assert rules() == (5, None), "nothing is deleted that is not explained"
    apply("5")
    assert rules() == (5, 5)
    die(RETENTION, address, "off", failpoint="retention.removed:exit@1")
    assert rules() == (5, None)
    apply("off")
    assert rules() == (None, None)
