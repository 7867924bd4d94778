"""What lies on the desk of somebody who does the exercise: a connector, orders, a bucket."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow.parquet as pq
import urllib3
from tests.support.cluster import Cluster
from tests.support.connect.curl_service import CurlService, Shelf, patiently
from tests.support.independent_client import dump

from kafkeep.dev import DevStatus

SINK, BUCKET = "s3-sink", "exercise-backup"
CLASS = "io.confluent.connect.s3.S3SinkConnector"
FORMATS = "io.confluent.connect.s3.format."
PARTITIONERS = "io.confluent.connect.storage.partitioner."
SHORT_MS = "1500"
LAYOUTS: Mapping[str, Mapping[str, str]] = {
    "by-hour": {
        "partitioner.class": PARTITIONERS + "TimeBasedPartitioner",
        "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
        "partition.duration.ms": "3600000",
        "timestamp.extractor": "Record",
    },
    "by-field": {
        "partitioner.class": PARTITIONERS + "FieldPartitioner",
        "partition.field.name": "customerId",
    },
    "by-day": {
        "partitioner.class": PARTITIONERS + "DailyPartitioner",
        "timestamp.extractor": "Record",
    },
}
"""Partitioners that make other folders, by the folder above."""
MORE_SETTINGS: Sequence[Mapping[str, str]] = (
    *LAYOUTS.values(),
    *({"s3.compression.type": name} for name in ("none", "gzip", "snappy", "zstd")),
    {"topics.dir": "kafka-data", "directory.delim": "/", "file.delim": "-"},
    {
        "tasks.max": "4",
        "s3.part.size": "5242880",
        "s3.wan.mode": "true",
        "behavior.on.null.values": "ignore",
    },
    {"rotate.schedule.interval.ms": "3600000", "timezone": "UTC"},
)
"""What the exercise names besides, to be tried with its connector."""
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "orderId", "type": "string"}, {"name": "amount", "type": "double"}],
}


@dataclass
class Desk:
    """What the person has in front of them, and has seen so far."""

    services: DevStatus
    service: CurlService
    cluster: Cluster
    shelf: Shelf
    seen: dict[str, list[Any]] = field(default_factory=dict)

    def config(self, **changes: str | None) -> dict[str, str]:
        """Return the exercise's connector with changes; ``_`` stands for a dot, None removes."""
        config: dict[str, str | None] = {
            "connector.class": CLASS,
            "tasks.max": "1",
            "topics": "orders,events",
            **self.service.s3_keys(BUCKET),
            "flush.size": "5",
            "rotate.interval.ms": SHORT_MS,
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": FORMATS + "json.JsonFormat",
            "partitioner.class": PARTITIONERS + "DefaultPartitioner",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            **{name.replace("_", "."): text for name, text in changes.items()},
        }
        return {name: text for name, text in config.items() if text is not None}

    def validate(self, **settings: str) -> Any:
        """Return what the service says of a configuration before there is a connector."""
        file = self.service.write("config.json", {"name": SINK, **self.config(), **settings})
        path = f"/connector-plugins/{CLASS}/config/validate"
        return self.service.send("PUT", path, file).expect()

    def stored(self, topic: str, folder: str = "topics") -> dict[str, list[Any]]:
        return self.shelf.lines(f"{folder}/{topic}/")

    def wait_stored(self, topic: str, records: int, folder: str = "topics") -> None:
        """Wait until a folder holds so many records of a topic."""
        patiently(
            lambda: sum(map(len, self.stored(topic, folder).values())) >= records,
            f"{records} records of {topic} are stored",
        )

    def committed(self) -> list[str]:
        """Return what the service's log says of commits."""
        return [line for line in self.service.log.read_text().splitlines() if "committed" in line]

    def check(self, topic: str) -> None:
        """Every record that any consumer sees is in one file, whose name says where it begins."""
        stored = self.stored(topic)
        for partition, records in dump(self.cluster.bootstrap, topic).items():
            prefix, at = f"topics/{topic}/partition={partition}/{topic}+{partition}+", 0
            for key in sorted(key for key in stored if key.startswith(prefix)):
                lines = stored.pop(key)
                assert key == f"{prefix}{at:010d}.json"
                assert 1 <= len(lines) <= 5
                sent = [json.loads(record.value or b"") for record in records[at:]]
                assert lines == sent[: len(lines)]
                at += len(lines)
            assert at == len(records), f"{topic}-{partition} is stored to {at} of {len(records)}"
        assert not stored, "files that belong to no partition"


def order(number: int) -> dict[str, Any]:
    return {
        "orderId": f"order-{number}",
        "customerId": f"cust-{number % 3}",
        "amount": 10.5 * number,
        "note": f'a "quoted" nöte: {number}',
    }


def typed_orders(first: int, last: int) -> list[str]:
    """Return orders as they are typed, each with its key."""
    return [f"order-{n}:{json.dumps(order(n))}" for n in range(first, last + 1)]


def clear(cluster: Cluster, shelf: Shelf) -> None:
    """Take away what an exercise that was broken off left behind: its names are plain ones."""
    shelf.remove()
    for topic in ("orders", "events", "orders-avro"):
        if cluster.partitions(topic):
            cluster.delete(topic)
    groups = cluster.admin.list_consumer_groups().result().valid
    ours = [one.group_id for one in groups if one.group_id.startswith(f"connect-{SINK}")]
    for done in cluster.admin.delete_consumer_groups(ours).values() if ours else ():
        done.result()


def expected_folders(cluster: Cluster) -> Mapping[str, list[tuple[str, str]]]:
    """Return in which folder each order belongs, by its own time and its customer."""
    wanted: dict[str, list[tuple[str, str]]] = {"by-hour": [], "by-field": [], "by-day": []}
    for records in dump(cluster.bootstrap, "orders").values():
        for record in records:
            value = json.loads(record.value or b"")
            day = datetime.fromtimestamp(record.timestamp / 1000, UTC)
            text = day.strftime("year=%Y/month=%m/day=%d")
            wanted["by-day"].append((text, value["orderId"]))
            wanted["by-hour"].append((f"{text}/hour={day:%H}", value["orderId"]))
            wanted["by-field"].append((f"customerId={value['customerId']}", value["orderId"]))
    return wanted


def registered(url: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Register a schema by a plain request, and write messages as producers do."""
    body = {"schema": json.dumps(ORDER)}
    answer = urllib3.request("POST", f"{url}/subjects/orders-avro-value/versions", json=body)
    for row in rows:
        target = io.BytesIO()
        fastavro.schemaless_writer(target, fastavro.parse_schema(ORDER), row)
        yield struct.pack(">bI", 0, answer.json()["id"]) + target.getvalue()


def parquet_rows(shelf: Shelf) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for key in shelf.sizes("parquet/orders/"):
        assert key.endswith(".snappy.parquet")
        table = pq.read_table(io.BytesIO(shelf.read(key))).drop_columns(["_json"])
        rows += table.to_pylist()
    return sorted(rows, key=number_of)


def number_of(row: Mapping[str, Any]) -> int:
    return int(row["orderId"].removeprefix("order-"))
