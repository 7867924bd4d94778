"""Connectors that keep a registry's schemas and bring them back: real Kafka, S3 and Apicurio.

Tasks run in the test's process: it is the connectors' work on the driver that is looked at.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pytest
import zstandard
from tests.support.cluster import Cluster, until
from tests.support.confluent_registry import ConfluentRegistry, serving
from tests.support.connect.jobs import Worker, read_values
from tests.support.sink_runs import Bucket

from kafkeep.dev import DevStatus
from kafkeep.spark.tasks import TaskRow

pytestmark = pytest.mark.integration

SINK = "keeps-schemas"
STRANGE = struct.pack(">bI", 0, 2**30) + b"?"
"""A value that begins like one with a schema, of an id that there is not."""


class Here:
    """Runs the tasks of jobs in this process."""

    cores = 1

    def slots(self) -> int:
        return 1

    def run_tasks(
        self, bundles: Sequence[Any], task: Callable[[Any], Any], **_: Any
    ) -> list[TaskRow]:
        return [TaskRow(n, kind, body) for n, one in enumerate(bundles) for kind, body in task(one)]


def schema(*fields: str) -> dict[str, Any]:
    told = [{"name": name, "type": "int", "default": 0} for name in fields]
    return {"type": "record", "name": "Box", "fields": told}


@dataclass
class Story:
    """A topic whose values have schemas, and what was done to it."""

    worker: Worker
    cluster: Cluster
    bucket: Bucket
    registry: httpx.Client
    topic: str
    ids: list[int] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    def produce(self, *fields: str) -> None:
        """Register the next version, and send one record that has it."""
        text = json.dumps(schema(*fields))
        answer = self.registry.post(f"/subjects/{self.subject}/versions", json={"schema": text})
        self.ids.append(int(answer.raise_for_status().json()["id"]))
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema(*fields), dict.fromkeys(fields, len(self.sent)))
        self.send(struct.pack(">bI", 0, self.ids[-1]) + out.getvalue())

    def send(self, value: bytes) -> None:
        self.sent.append(value)
        self.cluster.produce(self.topic, [{"value": value, "partition": 0}])

    def archive(self) -> None:
        """Let the sink archive what there is."""
        config = self.worker.config(
            "kafkeep.Backup",
            topics=self.topic,
            schema_registry=str(self.registry.base_url),
            segment_age="1s",
        )
        with self.worker.running(SINK, config) as job:
            done = len(self.sent)
            until(lambda: job.progress.positions == {(self.topic, 0): done}, f"{done} are archived")

    def commits(self) -> list[dict[str, Any]]:
        listed = self.bucket.client.list_objects_v2(
            Bucket=self.bucket.name, Prefix=f"_kafkeep/{SINK}/log/"
        )
        return [json.loads(self.bucket.read(entry["Key"])) for entry in listed["Contents"]]

    def document(self, digest: str) -> dict[str, Any]:
        """Return a document of schemas, as docs/format.md describes it."""
        packed = self.bucket.read(f"_kafkeep/{SINK}/schemas/{digest}.json.zst")
        found: dict[str, Any] = json.loads(zstandard.decompress(packed))
        return found

    def told(self) -> list[dict[str, Any]]:
        """Return what the registry tells of the subject's versions."""
        path = f"/subjects/{self.subject}/versions"
        numbers = self.registry.get(path).raise_for_status().json()
        return [self.registry.get(f"{path}/{n}").raise_for_status().json() for n in numbers]

    def forget(self) -> None:
        """Delete the subject for good."""
        path = f"/subjects/{self.subject}"
        self.registry.delete(path).raise_for_status()
        self.registry.delete(path, params={"permanent": "true"}).raise_for_status()


@pytest.fixture
def story(
    services: DevStatus, registry_url: str, cluster: Cluster, topic_name: str, tmp_path: Path
) -> Iterator[Story]:
    bucket = Bucket(services)
    worker = Worker(services, Here(), str(tmp_path / "state"), bucket.name)  # type: ignore[arg-type]
    with httpx.Client(base_url=registry_url, timeout=30) as registry:
        yield Story(worker, cluster, bucket, registry, cluster.create(topic_name))
    bucket.remove()


def test_a_backup_connector_keeps_schemas_with_its_commits_and_a_restore_brings_their_ids_back(
    story: Story, tmp_path: Path
) -> None:
    story.produce("a")
    story.archive()
    story.produce("a", "b")
    story.archive()
    digests = [commit["schemas"] for commit in story.commits() if commit.get("schemas")]
    assert len(digests) == 2, "one for each change of the registry"
    versions = [story.document(digest)["subjects"][story.subject] for digest in digests]
    assert [one["id"] for one in versions[0]["versions"]] == story.ids[:1]
    assert [one["id"] for one in versions[1]["versions"]] == story.ids
    texts = story.document(digests[1])["schemas"]
    assert [json.loads(texts[str(id)]["schema"]) for id in story.ids] == [
        schema("a"),
        schema("a", "b"),
    ]

    before = story.told()
    story.forget()
    assert story.registry.get(f"/subjects/{story.subject}/versions").status_code == 404
    login = tmp_path / "registry.properties"
    login.write_text(f"schema.registry.url={story.registry.base_url}\n")
    back = f"{story.topic}-back"
    config = story.worker.config(
        "kafkeep.Restore",
        topics=f"{story.topic}:{back}",
        restore_schemas="ids",
        restore_schema_registry_config=login,
        poll_interval_ms=-1,
    )
    with story.worker.running("back", config) as job:
        until(lambda: job.progress.records == 2, "the records are back")
    assert story.told() == before
    assert read_values(story.cluster, back, 2) == story.sent


def test_a_source_connector_that_follows_puts_the_ids_of_another_registry_into_records(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    other = ConfluentRegistry(first_id=5000)
    story.produce("a")
    story.send(STRANGE)
    story.archive()
    with serving(other) as url:
        target = f"{story.topic}-mapped"
        config = story.worker.config(
            "io.confluent.connect.s3.source.S3SourceConnector",
            topics=f"{story.topic}:{target}",
            s3_poll_interval_ms=100,
            restore_schemas="map",
            restore_schema_registry=url,
            restore_schema_ids_in="values",
        )
        with story.worker.running("maps", config) as job:
            until(lambda: job.progress.records == 2, "what there is comes back")
            story.produce("a", "c")
            story.archive()
            until(lambda: job.progress.records == 3, "what is new comes too")
    values = read_values(story.cluster, target, 3)
    assert values[1] == STRANGE
    assert "1 values start like a schema id that is not in the archive" in caplog.text
    for number, fields in ((0, ("a",)), (2, ("a", "c"))):
        zero, id = struct.unpack(">bI", values[number][:5])
        assert zero == 0 and id >= 5000 and id not in story.ids
        assert json.loads(other.schemas[id]["schema"]) == schema(*fields)
        assert values[number][5:] == story.sent[number][5:]
    mapped = [one["id"] for one in other.subjects[story.subject].values()]
    assert len(mapped) == 2
