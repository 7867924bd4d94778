"""A world in which a topic goes cold into S3: readings in Avro, a registry, sinks and sources."""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import fastavro
import urllib3
from tests.support.cluster import Cluster
from tests.support.connect.curl_service import CurlService, Shelf
from tests.support.independent_client import dump

TOPIC, OTHER, RESTORED = "s3TestTopicAvro", "s3TestTopicOther", "s3TestTopicRestored"
RESTORED_BY_LOG = f"{RESTORED}ByLog"
BUCKET, PLAIN = "s3-backup-example", "s3-backup-without-log"
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


@dataclass
class World:
    """What the tests share."""

    service: CurlService
    cluster: Cluster
    shelf: Shelf
    plain: Shelf
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

    def source(self, **more: str) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
            **self.avro(),
            "topics": TOPIC,
            "s3.poll.interval.ms": "500",
            "confluent.license": "",
            "confluent.topic.bootstrap.servers": self.bootstrap,
            "confluent.topic.replication.factor": "1",
            **{name.replace("_", "."): text for name, text in more.items()},
        }

    def at(self, number: int) -> datetime:
        """Return when a record was made: one each minute."""
        return self.began + timedelta(minutes=number)

    def made(self, number: int) -> dict[str, Any]:
        """Return a record as it was made."""
        return {"key": f"room-{number % 7}", "celsius": 20 + number / 10}

    def expected(self, number: int) -> dict[str, Any]:
        """Return a record as the sink's transforms leave it."""
        return {**self.made(number), "offset": number, "partition": 0, "ts": self.at(number)}

    def fill(self, topic: str, count: int) -> None:
        """Register a schema by a plain request, and send readings as producers do."""
        body = {"schema": json.dumps(READING)}
        url = f"{self.registry}/subjects/{topic}-value/versions"
        number = urllib3.request("POST", url, json=body).json()["id"]
        messages = []
        for n in range(count):
            target, row = io.BytesIO(), self.made(n)
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

    def came_back(self, topic: str = TOPIC) -> list[Any]:
        """Return the values of a topic, decoded."""
        return [self.decode(record.value or b"") for record in dump(self.bootstrap, topic)[0]]

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap


def clear(cluster: Cluster, *shelves: Shelf) -> None:
    """Take away what a story that was broken off left behind: its names are plain ones."""
    for shelf in shelves:
        shelf.remove()
    for topic in (TOPIC, OTHER, RESTORED, RESTORED_BY_LOG):
        if cluster.partitions(topic):
            cluster.delete(topic)
    groups = cluster.admin.list_consumer_groups().result().valid
    ours = [one.group_id for one in groups if one.group_id.startswith(f"connect-{SINK[:6]}")]
    for done in cluster.admin.delete_consumer_groups(ours).values() if ours else ():
        done.result()
