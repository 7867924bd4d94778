"""Sinks of other makers on real Kafka and S3: their objects' names, and what is in them."""

from __future__ import annotations

import base64
import gzip
import io
import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pytest
from tests.support.cluster import ANY_TIME, Cluster
from tests.support.independent_client import dump
from tests.support.run_kafkeep import Outcome, kafkeep
from tests.support.sink_runs import Bucket, probed_once

from kafkeep.dev import DevStatus

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]

JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
FIRST_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
HOUR_MS = 3_600_000


class Bench:
    """A bucket of the file's own, and one topic of seven orders over two partitions."""

    def __init__(self, services: DevStatus, cluster: Cluster, folder: Path) -> None:
        self.bucket = Bucket(services)
        self.cluster = cluster
        self._folder = folder
        self._s3 = services.s3
        self.topic = cluster.create(f"orders-{uuid.uuid4().hex[:6]}", 2, ANY_TIME)
        cluster.produce(self.topic, [self.message(number) for number in range(7)])

    @staticmethod
    def message(number: int) -> dict[str, Any]:
        """Return order ``number``; from the fourth on it is an hour later."""
        return {
            "key": f"k{number}",
            "value": json.dumps({"id": number, "country": "AT" if number % 2 else "CH"}),
            "partition": 0 if number < 5 else 1,
            "timestamp": FIRST_MS + number + (HOUR_MS if number >= 3 else 0),
            "headers": [("n", str(number).encode())],
        }

    def backup(self, name: str, config: Mapping[str, str]) -> Outcome:
        """Run a connector kept in a file, as ``kafkeep backup`` does."""
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps({"name": name, "config": {"topics": self.topic, **config}}))
        where = ("--bootstrap-servers", self.cluster.bootstrap, "--output", "json")
        return kafkeep("backup", *where, "--connector-config", path)

    def added(self, name: str, config: Mapping[str, str]) -> dict[str, bytes]:
        """Run a connector and return what it added to the bucket."""
        before = self.bucket.list_keys()
        self.backup(name, config).expect()
        return {key: self.bucket.read(key) for key in sorted(self.bucket.list_keys() - before)}

    @property
    def confluents_keys(self) -> dict[str, str]:
        """Where the store is, in Confluent's and ch.tbd's words."""
        return {
            "s3.bucket.name": self.bucket.name,
            "store.url": self._s3.endpoint,
            "aws.access.key.id": self._s3.access_key,
            "aws.secret.access.key": self._s3.secret_key,
        }

    @property
    def aivens_keys(self) -> dict[str, str]:
        """Where the store is, in Aiven's words."""
        return {
            "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
            "aws.s3.bucket.name": self.bucket.name,
            "aws.s3.endpoint": self._s3.endpoint,
            "aws.access.key.id": self._s3.access_key,
            "aws.secret.access.key": self._s3.secret_key,
        }

    def lenses(self, statement: str) -> dict[str, str]:
        """Return a configuration in Lenses' words."""
        return {
            **JSON,
            "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
            "connect.s3.aws.auth.mode": "Credentials",
            "connect.s3.aws.access.key": self._s3.access_key,
            "connect.s3.aws.secret.key": self._s3.secret_key,
            "connect.s3.custom.endpoint": self._s3.endpoint,
            "connect.s3.vhost.bucket": "true",
            "connect.s3.kcql": f"INSERT INTO {self.bucket.name}:lake SELECT * FROM `{self.topic}` "
            + statement,
        }


@pytest.fixture(scope="module")
def bench(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    with probed_once():
        made = Bench(services, cluster, tmp_path_factory.mktemp("connectors"))
        yield made
        cluster.delete(made.topic)


OLD_NAMES = "{{topic}}/{{partition}}/{{topic}}-{{partition}}-{{start_offset}}{{extension}}"


def lines(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.decode().splitlines()]


def test_the_backup_sink_keeps_whole_records_that_come_back(bench: Bench) -> None:
    config = {
        **bench.confluents_keys,
        "connector.class": "ch.tbd.kafka.backuprestore.backup.kafkaconnect.BackupSinkConnector",
        "value.converter": BYTES,
        "key.converter": BYTES,
        "flush.size": "3",
    }
    topic, objects = bench.topic, bench.added("tbd", config)
    assert list(objects) == [
        f"{topic}/0/{topic}-0-0.avro",
        f"{topic}/0/{topic}-0-3.avro",
        f"{topic}/1/{topic}-1-0.avro",
    ]
    first = list(fastavro.reader(io.BytesIO(objects[min(objects)])))
    assert [(row["topic"], row["partition"], row["offset"]) for row in first] == [
        (topic, 0, offset) for offset in range(3)
    ]
    assert first[1]["timestamp"] == FIRST_MS + 1
    assert (first[1]["key"], json.loads(first[1]["value"])["id"]) == (b"k1", 1)
    assert [(one["key"], one["value"]) for one in first[1]["headers"]] == [("n", b"1")]
    archive = ("--archive", f"s3://{bench.bucket.name}", "--name", "tbd")
    kafkeep("verify", *archive).expect()
    where = ("--bootstrap-servers", bench.cluster.bootstrap)
    back = f"{topic}-back"
    kafkeep("restore", *archive, *where, "--topics", f"{topic}:{back}").expect()
    assert dump(bench.cluster.bootstrap, back) == dump(bench.cluster.bootstrap, topic)
    bench.cluster.delete(back)


def test_a_recreated_topic_lies_beside_the_old_one(bench: Bench) -> None:
    topic = bench.cluster.create(f"{bench.topic}-again", 1)
    config = {
        **bench.confluents_keys,
        "connector.class": "BackupSink",
        "topics": topic,
        "flush.size": "2",
    }
    # As kafkeep 0.1 named them; what is written later lies in the documented folder.
    old = {"object.name.template": OLD_NAMES}
    for more, name in (
        ({}, f"{topic}/0/{topic}-0-0.avro"),
        (old, f"{topic}~2/0/{topic}-0-0.avro"),
        ({}, f"{topic}/0/{topic}-0-0~3.avro"),
    ):
        bench.cluster.fill(topic, 2)
        assert list(bench.added("again", {**config, **more})) == [name]
        bench.cluster.delete(topic)
        bench.cluster.create(topic, 1)
    bench.cluster.delete(topic)
    verified = ("verify", "--archive", f"s3://{bench.bucket.name}", "--name", "again", "--deep")
    assert kafkeep(*verified, "--output", "json").expect().json["intact"]


def test_aivens_sink_wraps_values_under_its_default_names(bench: Bench) -> None:
    config = {**JSON, **bench.aivens_keys, "format.output.type": "jsonl", "file.max.records": "4"}
    topic, objects = bench.topic, bench.added("aiven", config)
    assert list(objects) == [f"{topic}-0-0.gz", f"{topic}-0-4.gz", f"{topic}-1-0.gz"]
    assert lines(gzip.decompress(objects[f"{topic}-0-4.gz"])) == [
        {"value": {"id": 4, "country": "CH"}}
    ]


def test_aivens_sink_as_it_is_without_any_setting_writes_base64(bench: Bench) -> None:
    config = {**bench.aivens_keys, "value.converter": BYTES, "file.name.prefix": "plain/"}
    objects = bench.added("aiven-plain", config)
    assert list(objects) == [f"plain/{bench.topic}-0-0.gz", f"plain/{bench.topic}-1-0.gz"]
    texts = gzip.decompress(objects[max(objects)]).splitlines()
    assert [json.loads(base64.b64decode(text))["id"] for text in texts] == [5, 6]
    config |= {"format.output.fields": "key,value,offset,timestamp", "file.name.prefix": "csv/"}
    objects = bench.added("aiven-csv", {**config, "format.output.fields.value.encoding": "none"})
    [line, _] = gzip.decompress(objects[max(objects)]).decode().splitlines()
    value = bench.message(5)["value"]
    assert line == f"{base64.b64encode(b'k5').decode()},{value},0,{bench.message(5)['timestamp']}"


def test_aivens_sink_names_hours_of_records(bench: Bench) -> None:
    parts = "".join(f"{{{{timestamp:unit={unit}}}}}" for unit in ("yyyy", "MM", "dd", "HH"))
    config = {
        **bench.aivens_keys,
        "file.name.template": f"raw/{{{{topic}}}}/h={parts}/"
        "{{partition:padding=true}}-{{start_offset:padding=true}}.csv",
        "file.name.timestamp.source": "event",
        "file.compression.type": "none",
        "format.output.fields.value.encoding": "none",
        "value.converter": BYTES,
    }
    objects = bench.added("aiven-hours", config)
    assert list(objects) == [
        f"raw/{bench.topic}/h=2023111422/0000000000-00000000000000000000.csv",
        f"raw/{bench.topic}/h=2023111423/0000000000-00000000000000000003.csv",
        f"raw/{bench.topic}/h=2023111423/0000000001-00000000000000000000.csv",
    ]
    assert [row["id"] for row in lines(objects[min(objects)])] == [0, 1, 2]


def test_lenses_sink_names_the_last_offset_and_the_times(bench: Bench) -> None:
    objects = bench.added("lenses", bench.lenses("STOREAS `JSON` PROPERTIES('flush.count'=3)"))
    late = FIRST_MS + HOUR_MS
    assert list(objects) == [
        f"lake/{bench.topic}/0/000000000002_{FIRST_MS}_{FIRST_MS + 2}.json",
        f"lake/{bench.topic}/0/000000000004_{late + 3}_{late + 4}.json",
        f"lake/{bench.topic}/1/000000000001_{late + 5}_{late + 6}.json",
    ]
    assert [row["id"] for row in lines(objects[max(objects)])] == [5, 6]


def test_lenses_sink_partitions_by_a_field_of_the_value(bench: Bench) -> None:
    statement = "PARTITIONBY _value.country STOREAS `JSON` PROPERTIES('flush.count'=100)"
    objects = bench.added("lenses-fields", bench.lenses(statement))
    assert list(objects) == [
        f"lake/country=AT/{bench.topic}(0_000000000003).json",
        f"lake/country=AT/{bench.topic}(1_000000000000).json",
        f"lake/country=CH/{bench.topic}(0_000000000004).json",
        f"lake/country=CH/{bench.topic}(1_000000000001).json",
    ]
    swiss = objects[f"lake/country=CH/{bench.topic}(0_000000000004).json"]
    assert [row["id"] for row in lines(swiss)] == [0, 2, 4]


def test_spredfasts_text_is_lines_of_values_in_the_prefix(bench: Bench) -> None:
    config = {
        "connector.class": "com.spredfast.kafka.connect.s3.sink.S3SinkConnector",
        "s3.bucket": bench.bucket.name,
        "s3.prefix": "lines",
        "s3.endpoint": bench.confluents_keys["store.url"],
        "s3.path_style": "true",
        "format": "text",
        "local.buffer.dir": "/nowhere",
        "timestamp.extractor": "Record",
    }
    objects = bench.added("spredfast", config)
    objects = {key: body for key, body in objects.items() if "/_kafkeep/" not in key}
    assert list(objects) == [
        f"lines/2023-11-14/{bench.topic}-00000-000000000000.gz",
        f"lines/2023-11-14/{bench.topic}-00001-000000000000.gz",
    ]
    body = gzip.decompress(objects[f"lines/2023-11-14/{bench.topic}-00001-000000000000.gz"])
    assert [row["id"] for row in lines(body)] == [5, 6]
