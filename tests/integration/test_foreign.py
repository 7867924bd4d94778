"""A bucket that Confluent's sink wrote, restored without a log: seen by an independent client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping

import boto3
import pytest

from cluster import Cluster
from golden_cases import GoldenCase, load_case
from kafkeep.config.foreign import layout_of_sink
from kafkeep.dev import DevStatus
from oracle import dump
from runs import Outcome, kafkeep

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]


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


def inputs(case: GoldenCase, partition: int) -> list[tuple[bytes | None, object]]:
    """Return keys and documents that were in Kafka and committed by the real sink."""
    topic = next(iter(case.topics))
    end = case.committed[topic][partition] or 0
    return [
        (r.key, r.value and json.loads(r.value))
        for r in case.records
        if r.partition == partition and r.offset < end
    ]


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
    records = {r.partition: [] for r in case.records}
    for record in case.records:
        if record.offset < (case.committed[topic][record.partition] or 0):
            records[record.partition].append((record.key, record.value, record.headers))
    for partition, seen in dump(cluster.bootstrap, target).items():
        found = [(s.key, json.loads(s.value or b""), s.headers) for s in seen]
        assert found == [(k, json.loads(v), h) for k, v, h in records[partition]]
