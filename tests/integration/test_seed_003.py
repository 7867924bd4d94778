"""ch.tbd's backup and restore, done on ``kafkeep serve`` by ``curl -X PUT …/config``.

The bodies are the documented ones with their blanks filled in. Objects are read with fastavro,
rules with boto3, topics with a client that is not kafkeep's. All requests to the store go through
an HTTP proxy, as the connectors are told.
"""

from __future__ import annotations

import io
import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pytest
from tests.support.cluster import Cluster, until
from tests.support.connect.curl_service import PATIENCE, CurlService, Shelf, curl_service
from tests.support.faults.s3_recorder import Recorder
from tests.support.independent_client import dump

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration

PACKAGE = "ch.tbd.kafka.backuprestore."
BACKUP = PACKAGE + "backup.kafkaconnect.BackupSinkConnector"
PAIR = PACKAGE + "backup.kafkaconnect.compact.CompactBackupSinkConnector"
RESTORE = PACKAGE + "restore.kafkaconnect.RestoreSourceConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JSON = ("-H", "Content-Type: application/json", "-H", "Accept: application/json")
PROFILE = "backup-keys"
HOURS = "0.0012"
"""How long the two of a pair keep their roles: four seconds and a bit."""
Contents = dict[int, list[tuple[object, ...]]]


@dataclass
class World:
    """A service that knows the store's address and profiles, and what stands around it."""

    services: DevStatus
    service: CurlService
    cluster: Cluster
    proxy: Recorder
    shelves: list[Shelf] = field(default_factory=list)

    def shelf(self) -> Shelf:
        """Make an empty bucket, which these connectors want."""
        made = Shelf(self.services, f"ch-tbd-{uuid.uuid4().hex[:8]}")
        made.client.create_bucket(Bucket=made.name)
        self.shelves.append(made)
        return made

    def topics(self, count: int, partitions: int = 1, **config: str) -> list[str]:
        """Make topics with names of their own: test-topic, test-topic1 …"""
        tail = uuid.uuid4().hex[:6]
        names = [f"test-topic{number or ''}-{tail}" for number in range(count)]
        settings = {key.replace("_", "."): text for key, text in config.items()}
        return [self.cluster.create(name, partitions, settings) for name in names]

    def config(self, kind: str, topics: str, shelf: Shelf, **more: str) -> dict[str, str]:
        """Return what all the documented bodies have."""
        return {
            "connector.class": kind,
            "value.converter": BYTES,
            "key.converter": BYTES,
            "topics": topics,
            "s3.bucket.name": shelf.name,
            "s3.region": self.services.s3.region,
            "s3.proxy.url": self.proxy.url,
            "s3.profile.name": PROFILE,
            "tasks.max": "1",
            **{key.replace("_", "."): text for key, text in more.items()},
        }

    def put(self, name: str, config: dict[str, str], *, expect: int = 201) -> Any:
        """Define or change a connector, its body on the command line."""
        path, body = f"/connectors/{name}/config", json.dumps(config)
        return self.service.curl("-X", "PUT", path, *JSON, "--data", body).expect(expect)

    def delete(self, *names: str) -> None:
        for name in names:
            self.service.curl("-X", "DELETE", f"/connectors/{name}").expect(204)

    def contents(self, topic: str) -> Contents:
        """What any consumer gets from a topic."""
        found = dump(self.cluster.bootstrap, topic)
        return {number: [record.content for record in all_] for number, all_ in found.items()}

    def wait_restored(self, topic: str, expected: Contents) -> None:
        """Wait until a topic holds as many records as another, and compare them."""

        def is_full() -> bool:
            return len(self.cluster.partitions(topic)) == len(expected) and all(
                self.cluster.end(topic, number) >= len(records)
                for number, records in expected.items()
            )

        until(is_full, f"{topic} is restored", seconds=PATIENCE)
        assert self.contents(topic) == expected


def rows(shelf: Shelf, prefix: str) -> dict[str, list[dict[str, Any]]]:
    """Return the Avro objects under a prefix; one may be deleted after it was listed."""
    found = {}
    for key in sorted(shelf.sizes(prefix)):
        with suppress(shelf.client.exceptions.NoSuchKey):
            found[key] = list(fastavro.reader(io.BytesIO(shelf.read(key))))
    return found


@pytest.fixture(scope="module")
def world(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("ch-tbd")
    environ = _environ(folder, services)
    with (
        Recorder(services.s3.endpoint) as proxy,
        curl_service(services, folder, environ=environ) as service,
    ):
        made = World(services, service, cluster, proxy)
        yield made
        assert service.end() == 0
    for shelf in made.shelves:
        shelf.remove()


def _environ(folder: Path, services: DevStatus) -> dict[str, str]:
    """Where AWS's tools find the store's address and its keys; only a named profile has them."""
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = nobody\naws_secret_access_key = of-no-use\n"
        f"[{PROFILE}]\naws_access_key_id = {services.s3.access_key}\n"
        f"aws_secret_access_key = {services.s3.secret_key}\n"
    )
    rest = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    return {
        **rest,
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
        "AWS_ENDPOINT_URL_S3": services.s3.endpoint,
    }


def test_topics_are_kept_and_brought_back_under_their_names_and_others(world: World) -> None:
    shelf, topics = world.shelf(), world.topics(3, partitions=2)
    for topic in topics:
        for partition in (0, 1):
            sent = [{"key": b"k%d" % n, "value": b"%s %d" % (topic.encode(), n)} for n in range(5)]
            sent.append({"key": None, "value": None, "headers": [("h", b"\x00"), ("h", b"2")]})
            world.cluster.produce(topic, [{**one, "partition": partition} for one in sent])
    before = {topic: world.contents(topic) for topic in topics}
    world.put("backup", world.config(BACKUP, ",".join(topics), shelf, flush_size="3"))
    names = {f"{t}/{p}/{t}-{p}-{at}.avro" for t in topics for p in (0, 1) for at in (0, 3)}
    until(lambda: shelf.sizes("test-topic").keys() >= names, "all is stored", seconds=PATIENCE)
    stored = rows(shelf, "test-topic")
    assert stored.keys() == names
    for key, records in stored.items():
        topic, partition, name = key.split("/")
        start = int(name.removesuffix(".avro").rpartition("-")[2])
        assert [row["offset"] for row in records] == list(range(start, start + 3))
        assert {(row["topic"], row["partition"]) for row in records} == {(topic, int(partition))}
        sent = before[topic][int(partition)][start : start + 3]
        assert [(row["timestamp"], row["key"], row["value"]) for row in records] == [
            one[:3] for one in sent
        ]
    through = {one.target.partition("?")[0] for one in world.proxy.puts()}
    mine = [one for one in through if f"/{shelf.name}/{topics[0]}/" in one]
    assert len(mine) == 4, "objects go through the proxy"

    # Gone, and made again as they were, without a record.
    world.delete("backup")
    world.cluster.delete(topics[0])
    world.cluster.create(topics[0], 2)
    restore = world.config(RESTORE, topics[0], shelf)
    world.put("source-restore", restore)
    world.wait_restored(topics[0], before[topics[0]])

    # The same connector, told to bring it back under another name, and then several.
    renamed = f"new-{topics[0]}"
    world.put("source-restore", {**restore, "topics": f"{topics[0]}:{renamed}"}, expect=200)
    world.wait_restored(renamed, before[topics[0]])
    pairs = {topic: f"newer-{topic}" for topic in topics}
    told = ",".join(f"{old}:{new}" for old, new in pairs.items())
    world.put("source-restore", {**restore, "topics": told}, expect=200)
    for old, new in pairs.items():
        world.wait_restored(new, before[old])
    world.service.wait_running("source-restore")
    world.delete("source-restore")


def test_two_take_turns_at_a_compacted_topic_and_one_of_them_is_restored(
    world: World,
) -> None:
    shelf, (topic,) = world.shelf(), world.topics(1, cleanup_policy="compact")
    values = {b"k%d" % n: b"%d" % n for n in range(6)}
    world.cluster.produce(topic, [{"key": k, "value": v} for k, v in values.items()])
    pair = {"backup-activate": "ACTIVATE", "backup-passivate": "PASSIVATE"}

    def snapshot(instance: str) -> dict[bytes, bytes]:
        found = [
            r for key, all_ in rows(shelf, topic).items() if f"/{instance}/" in key for r in all_
        ]
        return {row["key"]: row["value"] for row in sorted(found, key=lambda row: row["offset"])}

    for name, status in pair.items():
        config = {
            **world.config(PAIR, topic, shelf, flush_size="3"),
            "compacted.log.backup.initial.status": status,
            "compacted.log.backup.length.hours": HOURS,
            "compacted.log.backup.interval.offsets": "10000",
            "compacted.log.backup.path.configuration": "/etc/kafka-connect/connect.properties",
            "compacted.log.backup.login.name.jaas.configuration": "LoginModuleName",
        }
        world.put(name, config)
    until(lambda: snapshot("backup-activate") == values, "one begins", seconds=PATIENCE)
    first = f"{topic}/backup-activate/0/{topic}-0-0.avro"
    assert first in shelf.sizes(topic)
    assert snapshot("backup-passivate") == {}
    layout = re.compile(rf"{topic}/backup-(activate|passivate)/0/{topic}-0-[0-9]+(~[0-9]+)?\.avro")

    values[b"k0"] = b"newer"
    world.cluster.produce(topic, [{"key": b"k0", "value": b"newer"}])
    until(lambda: snapshot("backup-passivate") == values, "roles change", seconds=PATIENCE)
    until(lambda: first not in shelf.sizes(topic), "the old one is deleted", seconds=PATIENCE)
    until(lambda: snapshot("backup-activate") == values, "and change back", seconds=PATIENCE)
    assert all(layout.fullmatch(key) for key in shelf.sizes(topic)), shelf.sizes(topic)
    for name in pair:
        world.service.wait_running(name)
        world.service.curl("-X", "PUT", f"/connectors/{name}/stop").expect(204)

    def counted(instance: str) -> list[int]:
        """Return how far an instance's log is: it counts objects after they are there."""
        told = world.service.curl(f"/connectors/{instance}/offsets").expect()["offsets"]
        return [one["offset"]["kafka_offset"] for one in told]

    (whole, *_) = [name for name in pair if counted(name) == [7] and snapshot(name) == values]
    target = world.cluster.create(f"new-{topic}", 1, {"cleanup.policy": "compact"})
    restore = world.config(RESTORE, f"{topic}:{target}", shelf, instance_name_restore=whole)
    world.put("snapshot-restore", restore)

    def restored() -> dict[object, object]:
        return {key: value for _, key, value, _ in world.contents(target)[0]}

    until(lambda: restored() == values, "the snapshot is brought back", seconds=PATIENCE)
    world.delete("snapshot-restore", *pair)


def test_retention_is_a_rule_of_the_bucket_for_the_topics_folder(world: World) -> None:
    shelf, (topic,) = world.shelf(), world.topics(1)

    def days() -> dict[str, int]:
        """Return the rules of the bucket as the store tells them: prefixes and days."""
        try:
            told = shelf.client.get_bucket_lifecycle_configuration(Bucket=shelf.name)
        except shelf.client.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchLifecycleConfiguration"
            return {}
        assert {rule["Status"] for rule in told["Rules"]} == {"Enabled"}
        return {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in told["Rules"]}

    config = world.config(BACKUP, topic, shelf, flush_size="3")
    path = f"/connector-plugins/{BACKUP}/config"
    shown = {one["name"]: one["default_value"] for one in world.service.curl(path).expect()}
    assert shown["s3.retention.days"] == "30"
    world.put("keeper", config)
    until(lambda: days().get(f"{topic}/") == 30, "there is a default", seconds=PATIENCE)
    world.put("keeper", {**config, "s3.retention.days": "7"}, expect=200)
    until(lambda: days().get(f"{topic}/") == 7, "the rule is changed", seconds=PATIENCE)
    world.put("keeper", {**config, "s3.retention.policy.days": "9"}, expect=200)
    until(lambda: days().get(f"{topic}/") == 9, "by its other name too", seconds=PATIENCE)
    world.put("keeper", {**config, "s3.retention.days": "-1"}, expect=200)
    until(lambda: days() == {}, "it can be switched off", seconds=PATIENCE)
    world.service.wait_running("keeper")
    world.delete("keeper")
