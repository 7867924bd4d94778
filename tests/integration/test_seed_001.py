"""An example told again on ``kafkeep serve``: a topic goes cold into S3, is lost, and comes back.

A sink adds each record's offset, partition and time as fields and writes Avro with a registry; a
source brings the records back. What the example left to be done is listed at the end, with the
tests that show it here. The tests run in order and each needs the ones before.
"""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest
import urllib3

from cluster import Cluster, until
from curl_service import PATIENCE, CurlService, Shelf, curl_service
from kafkeep.dev import DevStatus
from oracle import dump

pytestmark = pytest.mark.integration

TOPIC, OTHER, BUCKET = "s3TestTopicAvro", "s3TestTopicOther", "s3-backup-example"
SINK, BY_TIME, SOURCE = "s3SinkConnector", "s3SinkByTime", "s3SourceConnector"
COUNT, FLUSH = 99, 3
FOLDER = f"topics/{TOPIC}/partition=0/"
LAST = f"{FOLDER}{TOPIC}+0+0000000096.avro"
INSERT = "org.apache.kafka.connect.transforms.InsertField$Value"
READING = {
    "type": "record",
    "name": "Reading",
    "namespace": "example",
    "fields": [{"name": "key", "type": "string"}, {"name": "celsius", "type": "double"}],
}
# What HTTPie sends of its own accord.
HTTPIE = ("-H", "User-Agent: HTTPie/3.2.2", "-H", "Accept-Encoding: gzip, deflate")


@dataclass
class World:
    """What the tests share."""

    service: CurlService
    cluster: Cluster
    shelf: Shelf
    registry: str
    began: datetime

    def avro(self) -> dict[str, str]:
        """Return what sink and source both say: where things are, and of which form."""
        return {
            **self.service.s3_keys(BUCKET),
            "tasks.max": "1",
            "format.class": "io.confluent.connect.s3.format.avro.AvroFormat",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": self.registry,
        }

    def sink(self, topic: str, **more: str) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "topics": topic,
            "flush.size": str(FLUSH),
            **self.avro(),
            "transforms": "addOffset,addPartition,addTimestamp",
            "transforms.addOffset.type": INSERT,
            "transforms.addOffset.offset.field": "offset",
            "transforms.addPartition.type": INSERT,
            "transforms.addPartition.partition.field": "partition",
            "transforms.addTimestamp.type": INSERT,
            "transforms.addTimestamp.timestamp.field": "ts",
            **{name.replace("_", "."): text for name, text in more.items()},
        }

    def at(self, number: int) -> datetime:
        """Return when a record was made: one each minute."""
        return self.began + timedelta(minutes=number)

    def expected(self, number: int) -> dict[str, Any]:
        """Return a record as the sink's transforms leave it."""
        own = {"key": f"room-{number % 7}", "celsius": 20 + number / 10}
        return {**own, "offset": number, "partition": 0, "ts": self.at(number)}

    def fill(self, topic: str, count: int) -> None:
        """Register a schema by a plain request, and send readings as producers do."""
        body = {"schema": json.dumps(READING)}
        url = f"{self.registry}/subjects/{topic}-value/versions"
        number = urllib3.request("POST", url, json=body).json()["id"]
        messages = []
        for n in range(count):
            target, row = io.BytesIO(), self.expected(n)
            fastavro.schemaless_writer(target, fastavro.parse_schema(READING), row)
            value = struct.pack(">bI", 0, number) + target.getvalue()
            at_ms = int(self.at(n).timestamp() * 1000)
            messages.append({"key": row["key"], "value": value, "timestamp": at_ms})
        self.cluster.produce(topic, messages)

    def decode(self, value: bytes) -> Any:
        """Return what any consumer with the registry gets from a value."""
        magic, number = struct.unpack(">bI", value[:5])
        assert magic == 0
        answer = urllib3.request("GET", f"{self.registry}/schemas/ids/{number}").json()
        schema = fastavro.parse_schema(json.loads(answer["schema"]))
        return fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)

    def came_back(self) -> list[Any]:
        """Return the values of the topic, decoded."""
        return [self.decode(record.value or b"") for record in dump(self.bootstrap, TOPIC)[0]]

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap


@pytest.fixture(scope="module")
def world(
    services: DevStatus,
    cluster: Cluster,
    registry_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    shelf = Shelf(services, BUCKET)
    _clear(cluster, shelf)
    shelf.client.create_bucket(Bucket=BUCKET)
    began = datetime.fromtimestamp(int(time.time()), UTC) - timedelta(hours=3)
    with curl_service(services, tmp_path_factory.mktemp("example")) as service:
        made = World(service, cluster, shelf, registry_url, began)
        for topic, count in ((TOPIC, COUNT), (OTHER, COUNT)):
            cluster.create(topic)
            made.fill(topic, count)
        yield made
        assert service.end() == 0
    _clear(cluster, shelf)


def _clear(cluster: Cluster, shelf: Shelf) -> None:
    """Take away what a story that was broken off left behind: its names are plain ones."""
    shelf.remove()
    for topic in (TOPIC, OTHER):
        if cluster.partitions(topic):
            cluster.delete(topic)
    groups = cluster.admin.list_consumer_groups().result().valid
    ours = [one.group_id for one in groups if one.group_id.startswith(f"connect-{SINK[:6]}")]
    for done in cluster.admin.delete_consumer_groups(ours).values() if ours else ():
        done.result()


def test_a_sink_adds_where_each_record_was_and_when(world: World) -> None:
    world.service.post(SINK, world.sink(TOPIC, timestamp_extractor="Record"))
    by_time = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
        "path.format": "'day'=YYYY-MM-dd/'hour'=HH",
        "partition.duration.ms": "3600000",
        "locale": "en",
        "timezone": "UTC",
        "timestamp.extractor": "Record",
    }
    world.service.post(BY_TIME, world.sink(OTHER) | by_time)
    until(lambda: LAST in world.shelf.sizes(FOLDER), "all is there", seconds=PATIENCE)
    keys = sorted(world.shelf.sizes(f"topics/{TOPIC}/"))
    assert keys == [f"{FOLDER}{TOPIC}+0+{n:010d}.avro" for n in range(0, COUNT, FLUSH)]
    rows = [row for key in keys for row in fastavro.reader(io.BytesIO(world.shelf.read(key)))]
    assert rows == [world.expected(n) for n in range(COUNT)]


def test_folders_are_of_the_records_own_hours(world: World) -> None:
    until(lambda: len(_by_hour(world)) > COUNT - FLUSH, "all is there", seconds=PATIENCE)
    for folder, number in _by_hour(world):
        assert folder == world.at(number).strftime("day=%Y-%m-%d/hour=%H")


def _by_hour(world: World) -> list[tuple[str, int]]:
    prefix = f"topics/{OTHER}/"
    return [
        (key.removeprefix(prefix).rpartition("/")[0], int(row["offset"]))
        for key in world.shelf.sizes(prefix)
        for row in fastavro.reader(io.BytesIO(world.shelf.read(key)))
    ]


def test_another_client_lists_and_deletes_connectors(world: World) -> None:
    listed = world.service.curl(*HTTPIE, "/connectors").expect()
    assert sorted(listed) == sorted([SINK, BY_TIME])
    for name in (SINK, BY_TIME):
        world.service.curl(*HTTPIE, "-X", "DELETE", f"/connectors/{name}").expect(204)
    assert world.service.curl(*HTTPIE, "/connectors").expect() == []
    world.service.curl(*HTTPIE, "-X", "DELETE", f"/connectors/{SINK}").expect(404)


def test_a_lost_topic_comes_back_in_its_order_and_no_other_does(world: World) -> None:
    """Topics can be chosen, and the schema registry needs no restore to read the records."""
    world.cluster.delete(TOPIC)
    world.cluster.delete(OTHER)
    config = {
        "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
        **world.avro(),
        "topics": TOPIC,
        "s3.poll.interval.ms": "500",
        "confluent.license": "",
        "confluent.topic.bootstrap.servers": world.bootstrap,
        "confluent.topic.replication.factor": "1",
    }
    made = world.service.post(SOURCE, config)
    assert made["type"] == "source"
    world.service.wait_running(SOURCE)
    _wait_back(world, COUNT)
    assert world.came_back() == [world.expected(n) for n in range(COUNT)]
    assert world.cluster.partitions(OTHER) == []
    topics = world.service.curl(f"/connectors/{SOURCE}/topics").expect()
    assert topics == {SOURCE: {"topics": [TOPIC]}}


def _wait_back(world: World, count: int) -> None:
    until(
        lambda: bool(world.cluster.partitions(TOPIC)) and world.cluster.end(TOPIC) >= count,
        f"{count} records are back",
        seconds=PATIENCE,
    )


def test_offsets_name_the_last_file_of_each_folder(world: World) -> None:
    read = {"lastFileRead": LAST, "fileOffset": "3", "eof": "true"}
    wanted = {"offsets": [{"partition": {"folder": FOLDER}, "offset": read}]}
    path = f"/connectors/{SOURCE}/offsets"
    until(lambda: world.service.curl(path).expect() == wanted, "it is told", seconds=PATIENCE)


def test_offsets_are_flushed_without_a_new_machine(world: World) -> None:
    """While it runs they cannot be; stopped, they are forgotten and all comes back once more."""
    path = f"/connectors/{SOURCE}/offsets"
    world.service.curl("-X", "DELETE", path).expect(400)
    world.service.curl("-X", "PUT", f"/connectors/{SOURCE}/stop").expect(204)
    until(lambda: world.service.states(SOURCE) == {"STOPPED"}, "it is stopped")
    answer = world.service.curl("-X", "DELETE", path).expect()
    assert "reset successfully" in answer["message"]
    assert world.service.curl(path).expect() == {"offsets": []}
    assert world.cluster.end(TOPIC) == COUNT
    world.service.curl("-X", "PUT", f"/connectors/{SOURCE}/resume").expect(202)
    _wait_back(world, 2 * COUNT)
    assert world.came_back() == [world.expected(n) for n in range(COUNT)] * 2


HERE = Path(__file__).parent
SHOWN_BY = {
    "offset translation for consumers": (
        "test_groups_restore.py",
        "a_group_goes_on_at_the_very_next_record_when_offsets_are_translated",
    ),
    "consumer offsets": ("test_groups_restore.py", "groups_are_planned_applied_and_put_back"),
    "exactly once, to S3": (
        "test_sink_kill.py",
        "a_sink_that_dies_at_a_named_place_is_finished_by_the_next",
    ),
    "exactly once, and back": (
        "test_connect_jobs.py",
        "a_source_killed_at_every_place_doubles_and_loses_nothing",
    ),
    "parallel, and in order": (
        "test_round_trip.py",
        "a_partition_read_by_many_tasks_holds_the_same_records",
    ),
    "retention and timestamps": (
        "test_restore.py",
        "the_clusters_own_retention_does_not_delete_old_records",
    ),
    "retention of the files": (
        "test_retention.py",
        "what_a_rule_may_have_deleted_is_expired_and_all_else_is_damage",
    ),
    "compacted topics": (
        "test_compact_pair.py",
        "roles_change_and_there_is_a_whole_snapshot_at_every_moment",
    ),
    "compacted topics at their offsets": ("test_exact.py", "a_compacted_topic"),
    "choosing the topics that come back": (
        "test_seed_001.py",
        "a_lost_topic_comes_back_in_its_order_and_no_other_does",
    ),
    "schemas": (
        "test_registry.py",
        "restoring_avro_registers_a_schema_that_is_not_there",
    ),
    "errors": (
        "test_serve.py",
        "a_connector_that_fails_leaves_the_one_beside_it_running_and_can_be_mended",
    ),
    "authentication": ("test_security.py", "every_way_in_backs_up"),
    "metadata: settings of topics": ("test_restore.py", "settings_come_back"),
}
"""What the example left to be done, and the test that shows it."""


@pytest.mark.parametrize("wish", SHOWN_BY)
def test_what_was_left_to_be_done_has_its_test(wish: str) -> None:
    file, name = SHOWN_BY[wish]
    assert f"\ndef test_{name}(" in (HERE / file).read_text()
