"""A bucket that Confluent's sink wrote, restored without a log: seen by an independent client."""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import fastavro
import httpx
import pytest
from tests.support.cluster import Cluster, until
from tests.support.connect.jobs import Worker
from tests.support.golden.cases import GoldenCase, GoldenRecord, load_case
from tests.support.independent_client import dump
from tests.support.run_kafkeep import Outcome, kafkeep

from kafkeep import failpoint
from kafkeep.connect.jobs.offsets import read_offsets
from kafkeep.dev import DevStatus
from kafkeep.options.unlogged import layout_of_sink
from kafkeep.spark.tasks import TaskRunner

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("open_spark", "module_s3")]
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
SMT = "org.apache.kafka.connect.transforms."
BACK_AGAIN = {
    "key.converter": STRING,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
    "timestamp.extractor": "RecordField",
    "timestamp.field": "ts",
    "transforms": "createKey,bareKey,drop",
    "transforms.createKey.type": f"{SMT}ValueToKey",
    "transforms.createKey.fields": "orderId",
    "transforms.bareKey.type": f"{SMT}ExtractField$Key",
    "transforms.bareKey.field": "orderId",
    "transforms.drop.type": f"{SMT}ReplaceField$Value",
    "transforms.drop.exclude": "offset,partition,ts",
}
"""Undoes what InsertField did at backup, and makes keys of a field."""


@pytest.fixture
def worker(services: DevStatus, open_spark: TaskRunner, bucket: Bucket, tmp_path: Path) -> Worker:
    return Worker(services, open_spark, str(tmp_path / "state"), bucket.name)


class Bucket:
    """A bucket of this file's own, filled by another client than kafkeep's."""

    def __init__(self, services: DevStatus) -> None:
        s3 = services.s3
        self.name = f"foreign-{uuid.uuid4().hex[:8]}"
        self.client = boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            region_name=s3.region,
            aws_access_key_id=s3.access_key,
            aws_secret_access_key=s3.secret_key,
        )
        self.client.create_bucket(Bucket=self.name)

    def put(self, prefix: str, objects: Mapping[str, bytes]) -> str:
        """Store objects under a prefix; return the address."""
        for key, body in objects.items():
            self.client.put_object(Bucket=self.name, Key=f"{prefix}/{key}", Body=body)
        return f"s3://{self.name}/{prefix}"

    def put_as_they_are(self, objects: Mapping[str, bytes]) -> None:
        """Store objects under their own names."""
        for key, body in objects.items():
            self.client.put_object(Bucket=self.name, Key=key, Body=body)


@pytest.fixture(scope="module")
def bucket(services: DevStatus) -> Iterator[Bucket]:
    made = Bucket(services)
    yield made
    for page in made.client.get_paginator("list_objects_v2").paginate(Bucket=made.name):
        for one in page.get("Contents", ()):
            made.client.delete_object(Bucket=made.name, Key=one["Key"])
    made.client.delete_bucket(Bucket=made.name)


def restore(
    cluster: Cluster, archive: str, topics: str, settings: Mapping[str, str], *more: object
) -> Outcome:
    """Run ``kafkeep restore``."""
    told = [part for key, text in settings.items() for part in ("--set", f"{key}={text}")]
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive)
    return kafkeep("restore", *where, "--topics", topics, "--output", "json", *told, *more)


def committed(case: GoldenCase) -> dict[int, list[GoldenRecord]]:
    """Return what was in Kafka and committed by the real sink, by partition."""
    ends = case.committed[next(iter(case.topics))]
    found: dict[int, list[GoldenRecord]] = {partition: [] for partition in ends}
    for record in case.records:
        if record.offset < (ends[record.partition] or 0):
            found[record.partition].append(record)
    return found


def test_keys_headers_and_values_come_back_once(cluster: Cluster, bucket: Bucket) -> None:
    case = load_case("20")
    topic = next(iter(case.topics))
    archive = bucket.put("headers", case.objects)
    settings = layout_of_sink(case.config)
    target = f"back-{uuid.uuid4().hex[:6]}"
    plan = restore(cluster, archive, f"{topic}:{target}", settings, "--dry-run").expect().json
    said = " ".join(check["what"] for check in plan["preflight"])
    assert "timestamps are not in objects" in said and "no tombstones" in said
    assert "keys were not stored" not in said
    first = restore(cluster, archive, f"{topic}:{target}", settings).expect(3)
    assert first.json["records"] == 60
    again = restore(cluster, archive, f"{topic}:{target}", settings).expect(0, 3)
    assert again.json["records"] == 0
    records = committed(case)
    for partition, seen in dump(cluster.bootstrap, target).items():
        found = [(s.key, json.loads(s.value or b""), s.headers) for s in seen]
        assert found == [(r.key, json.loads(r.value or b""), r.headers) for r in records[partition]]


def test_inserted_fields_go_and_keys_and_times_come_back(cluster: Cluster, bucket: Bucket) -> None:
    case = load_case("26")
    topic = next(iter(case.topics))
    archive = bucket.put("smt", case.objects)
    target = f"back-{uuid.uuid4().hex[:6]}"
    restore(cluster, archive, f"{topic}:{target}", BACK_AGAIN).expect(3)
    same_records(cluster, target, case)


def test_a_source_follows_a_bucket_over_restarts(
    cluster: Cluster, bucket: Bucket, worker: Worker
) -> None:
    case = load_case("26")
    topic = next(iter(case.topics))
    folder = f"smt-{uuid.uuid4().hex[:6]}"
    target = f"back-{uuid.uuid4().hex[:6]}"
    objects = {key.replace("topics/", f"{folder}/", 1): body for key, body in case.objects.items()}
    first = {key: body for key, body in objects.items() if not key.endswith("+0000000000.json")}
    config = worker.config(
        "io.confluent.connect.s3.source.S3SourceConnector",
        format_class="io.confluent.connect.s3.format.json.JsonFormat",
        topics_dir=folder,
        topics=f"{topic}:{target}",
        s3_poll_interval_ms=500,
    )
    config |= BACK_AGAIN
    early = {key: objects[key] for key in objects.keys() - first.keys()}
    bucket.put_as_they_are(early)
    count = sum(body.count(b"\n") for body in early.values())

    def restored() -> int:
        return sum(cluster.end(target, p) for p in cluster.partitions(target))

    with worker.running("source", config) as job:
        until(lambda: job.progress.records == count, "the first objects came back")
        failpoint.arm("follow.opened:raise@1;restore.written:raise@1;follow.written:raise@2")
        bucket.put_as_they_are(dict(list(first.items())[:1]))
        until(lambda: restored() == count + 10, "the next one is found")
    failpoint.arm("")
    bucket.put_as_they_are(dict(list(first.items())[1:]))
    with worker.running("source", config):
        until(lambda: restored() >= 70, "and the rest after a restart")
        until(lambda: len(told_by(worker, config)) == 2, "it is written down")
    same_records(cluster, target, case)
    told = told_by(worker, config)
    last = max(key for key in objects if "/partition=0/" in key)
    assert {
        "partition": {"folder": f"{folder}/{topic}/partition=0/"},
        "offset": {"lastFileRead": last, "fileOffset": "10", "eof": "true"},
    } in told


def test_what_our_own_sink_inserted_goes_the_same_way(
    cluster: Cluster, bucket: Bucket, worker: Worker
) -> None:
    """With a log beside the objects, and a source that is cut off twice."""
    topic, count = cluster.create(f"own-{uuid.uuid4().hex[:6]}"), 30
    target, archive = f"{topic}-back", f"s3://{bucket.name}/own"
    began = time.time_ns() // 1_000_000 - 3_600_000
    orders = [(f"o-{n % 7}", b'{"orderId":"o-%d","n":%d}' % (n % 7, n)) for n in range(count)]
    cluster.produce(
        topic,
        [{"key": k, "value": v, "timestamp": began + n} for n, (k, v) in enumerate(orders)],
    )
    inserted = ("offset", "partition", "timestamp")
    sink = worker.json_sink(topic, archive=archive, transforms=",".join(inserted))
    for name in inserted:
        field = "ts" if name == "timestamp" else name
        sink |= {f"transforms.{name}.type": f"{SMT}InsertField$Value"}
        sink |= {f"transforms.{name}.{name}.field": field}
    with worker.running("sink", sink) as job:
        until(lambda: job.progress.records == count, "the sink has it all")
    source = worker.config(
        "io.confluent.connect.s3.source.S3SourceConnector",
        archive=archive,
        topics=f"{topic}:{target}",
        s3_poll_interval_ms=500,
    )
    failpoint.arm("restore.written:raise@1;follow.written:raise@1")
    with worker.running("source", source | BACK_AGAIN) as job:
        until(lambda: job.progress.commits == 1, "cut off before and behind the end, it goes on")
    failpoint.arm("")
    seen = [(r.key, r.value, r.timestamp) for r in dump(cluster.bootstrap, target)[0]]
    assert seen == [(k.encode(), v, began + n) for n, (k, v) in enumerate(orders)]


def test_a_restore_that_was_cut_off_continues_with_the_same_objects(
    cluster: Cluster, bucket: Bucket
) -> None:
    case = load_case("26")
    topic = next(iter(case.topics))
    archive = bucket.put("cut", case.objects)
    target = f"back-{uuid.uuid4().hex[:6]}"
    for place in ("restore.prepared", "restore.created", "restore.written"):
        failpoint.arm(f"{place}:raise")
        try:
            assert restore(cluster, archive, f"{topic}:{target}", BACK_AGAIN).code not in (0, 3)
        finally:
            failpoint.arm("")
        late = f"topics/{topic}/partition=0/{topic}+0+0000000040.json"
        bucket.put("cut", {late: b'{"orderId":"late","ts":1}\n'})
    restore(cluster, archive, f"{topic}:{target}", BACK_AGAIN).expect(0, 3)
    same_records(cluster, target, case)
    again = restore(cluster, archive, f"{topic}:{target}", BACK_AGAIN).expect(3).json
    assert (again["records"], again["newer"]) == (0, [target]), "an object came meanwhile"


def test_avro_rows_become_messages_of_the_registry(
    cluster: Cluster, bucket: Bucket, registry_url: str
) -> None:
    case = load_case("13")
    topic = next(iter(case.topics))
    archive = bucket.put("avro", case.objects)
    target = f"back-{uuid.uuid4().hex[:6]}"
    settings = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry_url,
    }
    restore(cluster, archive, f"{topic}:{target}", settings).expect(3)
    records = committed(case)
    for partition, seen in dump(cluster.bootstrap, target).items():
        assert len(seen) == len(records[partition])
        for one, record in zip(seen, records[partition], strict=True):
            assert one.value is not None and one.value[0] == 0
            schema = schema_of(registry_url, int.from_bytes(one.value[1:5]))
            found = fastavro.schemaless_reader(io.BytesIO(one.value[5:]), schema, None)
            wanted = json.loads(record.value or b"")["payload"]
            assert {k: v for k, v in found.items() if v is not None} == {
                k: v for k, v in wanted.items() if v is not None
            }
    assert f"{target}-value" in httpx.get(f"{registry_url}/subjects").json()


@cache
def schema_of(registry_url: str, number: int) -> Any:
    """Return a schema as the registry has it."""
    told = httpx.get(f"{registry_url}/schemas/ids/{number}").json()
    return fastavro.parse_schema(json.loads(told["schema"]))


def told_by(worker: Worker, config: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the source's offsets as Connect shows them."""
    found: list[dict[str, Any]] = read_offsets("source", config, worker.context)
    return found


def same_records(cluster: Cluster, target: str, case: GoldenCase) -> None:
    """Compare key, value and time with what was in Kafka before the backup."""
    records = committed(case)
    for partition, seen in dump(cluster.bootstrap, target).items():
        found = [(s.key, json.loads(s.value or b""), s.timestamp) for s in seen]
        assert found == [
            (r.key, json.loads(r.value or b""), r.timestamp) for r in records[partition]
        ]


def test_a_connectors_file_says_which_topics_come_back(
    cluster: Cluster, bucket: Bucket, tmp_path: Path
) -> None:
    case = load_case("20")
    topic = next(iter(case.topics))
    other = f"{topic}-other"
    twins = {
        key.replace(f"/{topic}/", f"/{other}/").replace(f"/{topic}+", f"/{other}+"): body
        for key, body in case.objects.items()
    }
    archive = bucket.put("two", {**case.objects, **twins})
    file = tmp_path / "sink.json"
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive, "--dry-run")

    def planned(config: Mapping[str, str], *flags: str) -> list[str]:
        file.write_text(json.dumps({"name": "two", "config": {**case.config, **config}}))
        told = ("--connector-config", file, "--output", "json", *flags)
        plan = kafkeep("restore", *where, *told).expect().json
        return [one["source"] for one in plan["topics"]]

    assert planned({"topics": other}) == [other]
    assert planned({"topics": other}, "--topics", topic) == [topic]
    assert planned({"topics": "", "topics.regex": f"{topic}.*"}) == [topic, other]
    file.write_text(json.dumps({**case.config, "topics": "elsewhere"}))
    refused = kafkeep("restore", *where, "--connector-config", file).expect(2)
    assert other in refused.stderr
