"""Through a sink and back: Kafka, objects on S3, Kafka again, seen by an independent client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping

import pytest
from pyspark.sql import SparkSession
from tests.support.cluster import ANY_TIME, Cluster
from tests.support.independent_client import Seen, dump
from tests.support.releases import needs_data_sources
from tests.support.run_kafkeep import kafkeep

from kafkeep.dev import DevStatus
from kafkeep.maintenance.inspect.cat import CatOptions, iter_lines, json_line
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [
    pytest.mark.integration,
    pytest.mark.core(suite="sink"),
    pytest.mark.usefixtures("spark"),
]

COUNT = 400
FORMATS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "json": ("json", {}),
    "json by field": (
        "json",
        {
            "store.kafka.keys": "true",
            "store.kafka.headers": "true",
            "keys.format.class": "json",
            "headers.format.class": "json",
            "partitioner.class": "FieldPartitioner",
            "partition.field.name": "group",
            "s3.compression.type": "gzip",
            "flush.size": "150",
        },
    ),
    "avro": ("avro", {"avro.codec": "deflate"}),
    "avro texts": (
        "avro",
        {
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "store.kafka.keys": "true",
            "store.kafka.headers": "true",
        },
    ),
    "parquet": ("parquet", {}),
    "parquet columns": (
        "parquet",
        {
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "store.kafka.keys": "true",
            "keys.format.class": "parquet",
        },
    ),
    "bytes": ("bytes", {"store.kafka.keys": "true", "keys.format.class": "avro"}),
}
WHOLE = {"avro", "parquet"}
"""Without a converter these hold whole Kafka records."""


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[str]:
    topic = cluster.create(f"read-back-{uuid.uuid4().hex[:6]}", 2, ANY_TIME)
    cluster.produce(
        topic,
        (
            {
                "key": f"k{n}" if n % 3 else None,
                "value": json.dumps(
                    {"group": "abc"[n % 3], "n": n, "text": f"é {n}"},
                    ensure_ascii=False,
                    separators=(",", ":"),
                ),
                "headers": [("h", b"\xff"), ("h", None)] if n % 2 else None,
                "partition": n % 2,
                "timestamp": 1_700_000_000_000 + n,
            }
            for n in range(COUNT)
        ),
    )
    yield topic
    cluster.delete(topic)


def held(record: Seen, settings: Mapping[str, str], *, whole: bool) -> tuple[object, ...]:
    """What of a record a sink with these settings holds."""
    keys = whole or "store.kafka.keys" in settings
    headers = whole or "store.kafka.headers" in settings
    return (
        record.timestamp if whole else -1,
        record.key if keys else None,
        record.value,
        record.headers if headers else (),
    )


def content(record: Seen) -> tuple[object, ...]:
    time = record.timestamp if record.timestamp_type else -1
    return (time, record.key, record.value, record.headers)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_topic_comes_back_as_far_as_its_format_holds_it(
    name: str, cluster: Cluster, filled: str, archive_address: str
) -> None:
    kind, settings = FORMATS[name]
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive_address)
    told = [part for key, text in settings.items() for part in ("--set", f"{key}={text}")]
    kafkeep("backup", *where, "--topics", filled, "--format", kind, *told).expect(0)

    checked = kafkeep("verify", "--archive", archive_address, "--deep", "--output", "json")
    assert checked.expect(0).json["records"] == COUNT
    store = open_store(archive_address, StorageOptions.from_env())
    shown = b"".join(iter_lines(store, "backup", CatOptions(), json_line))
    lines = [json.loads(line) for line in shown.splitlines()]
    assert len({(line["partition"], line["offset"]) for line in lines}) == COUNT

    target = f"{filled}-{name.replace(' ', '-')}"
    done = kafkeep("restore", *where, "--topics", f"{filled}:{target}", "--output", "json").expect(
        0 if name in WHOLE else 3
    )
    assert (done.json["records"], bool(done.json["missing"])) == (COUNT, name not in WHOLE)
    before, after = dump(cluster.bootstrap, filled), dump(cluster.bootstrap, target)
    for partition, wanted in before.items():
        expected = [held(record, settings, whole=name in WHOLE) for record in wanted]
        assert [content(record) for record in after[partition]] == expected
    again = kafkeep("restore", *where, "--topics", f"{filled}:{target}", "--output", "json")
    assert again.json["records"] == 0
    cluster.delete(target)


@needs_data_sources
def test_spark_reads_what_a_sink_wrote(
    cluster: Cluster,
    filled: str,
    archive_address: str,
    services: DevStatus,
    session: SparkSession,
) -> None:
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive_address)
    settings = ("--set", "store.kafka.keys=true", "--set", "flush.size=50")
    kafkeep("backup", *where, "--topics", filled, "--format", "json", *settings).expect(0)
    s3 = services.s3
    frame = (
        session.read.format("kafkeep")
        .option("endpoint", s3.endpoint)
        .option("accessKey", s3.access_key)
        .option("secretKey", s3.secret_key)
        .option("region", s3.region)
        .load(archive_address)
    )
    assert frame.count() == COUNT
    some = frame.where("partition = 1 and offset >= 10 and offset < 13").orderBy("offset")
    wanted = dump(cluster.bootstrap, filled)[1][10:13]
    found = [(r.offset, r.key and bytes(r.key), bytes(r.value)) for r in some.collect()]
    assert found == [(r.offset, r.key, r.value) for r in wanted]
