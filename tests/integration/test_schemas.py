"""Schemas of a registry in a backup, and brought back: two real registries (Apicurio).

Subjects are registered and compared over plain HTTP, records are made and read by fastavro and
confluent-kafka: nothing that judges is kafkeep's.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import httpx
import pytest
from tests.support.cluster import Cluster, until
from tests.support.independent_client import Seen, dump
from tests.support.run_kafkeep import Driver, kafkeep

from kafkeep.dev import DevStatus
from kafkeep.dev.process import Ports
from kafkeep.dev.services import launch_registry, registry_answers, registry_url

pytestmark = pytest.mark.integration

ITEM = {"type": "record", "name": "Item", "namespace": "shop", "fields": []}
ITEM["fields"] = [{"name": "n", "type": "int"}]
BOX_1 = {"type": "record", "name": "Box", "namespace": "shop"}
BOX_1["fields"] = [{"name": "items", "type": {"type": "array", "items": "shop.Item"}}]
NOTE = {"name": "note", "type": "string", "default": ""}
BOX_2 = BOX_1 | {"fields": [*BOX_1["fields"], NOTE]}
KEY_1 = {"type": "record", "name": "Key", "fields": [{"name": "k", "type": "int"}]}
KEY_2 = {"type": "record", "name": "Key", "fields": [{"name": "k", "type": "long"}]}
LATE = {"type": "record", "name": "Late", "fields": [{"name": "one", "type": "shop.Item"}]}
PRICE = 'syntax = "proto3";\npackage shop;\nmessage Price { double value = 1; }\n'
ORDER = (
    'syntax = "proto3";\npackage shop;\nimport "price.proto";\n'
    "message Order { string id = 1; Price price = 2; }\n"
)


class Http:
    """One registry, asked directly."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=30)

    def register(self, subject: str, schema: Any, kind: str = "AVRO", **references: str) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        told = [
            {"name": name.replace("__", "."), "subject": where, "version": 1}
            for name, where in references.items()
        ]
        body = {"schema": text, "schemaType": kind, "references": told}
        answer = self.client.post(f"/subjects/{subject}/versions", json=body)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def answers(self) -> bool:
        return registry_answers(self.client.base_url.port)

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def everything(self, subjects: list[str]) -> dict[str, Any]:
        """What the registry tells of some subjects, word for word."""
        found: dict[str, Any] = {}
        for name in subjects:
            every = self.get(f"/subjects/{name}/versions?deleted=true")
            found[name] = {
                "active": self.get(f"/subjects/{name}/versions"),
                "config": self.get(f"/config/{name}"),
                "versions": [
                    self.get(f"/subjects/{name}/versions/{n}?deleted=true") for n in every
                ],
            }
        return found

    def parsed(self, id: int) -> Any:
        """The schema of an id as fastavro takes it, with what it refers to."""
        told = self.get(f"/schemas/ids/{id}")
        named: dict[str, Any] = {}
        for one in told["references"]:
            version = self.get(f"/subjects/{one['subject']}/versions/{one['version']}")
            fastavro.parse_schema(json.loads(version["schema"]), named_schemas=named)
        return fastavro.parse_schema(json.loads(told["schema"]), named_schemas=named)

    def decode(self, message: bytes) -> Any:
        zero, id = struct.unpack(">bI", message[:5])
        assert zero == 0
        return fastavro.schemaless_reader(io.BytesIO(message[5:]), self.parsed(id), None)

    def encode(self, id: int, value: Any) -> bytes:
        out = io.BytesIO(struct.pack(">bI", 0, id))
        out.seek(5)
        fastavro.schemaless_writer(out, self.parsed(id), value)
        return out.getvalue()


@dataclass
class Story:
    """What was registered, produced and archived."""

    cluster: Cluster
    source: Http
    target: Http
    archive: str
    topic: str
    subjects: list[str] = field(default_factory=list)
    sent: list[tuple[bytes | None, bytes]] = field(default_factory=list)

    def backup(self) -> dict[str, Any]:
        return kafkeep(
            "backup", "--bootstrap-servers", self.cluster.bootstrap, "--archive", self.archive,
            "--topics", self.topic, "--schema-registry", self.source.url, "--output", "json",
        ).expect(0).json  # fmt: skip

    def restore(self, into: str, how: str, *more: str) -> list[str]:
        return [
            "restore", "--bootstrap-servers", self.cluster.bootstrap, "--archive", self.archive,
            "--topics", f"{self.topic}:{into}", "--schema-registry", self.target.url,
            "--schemas", how, "--output", "json", *more,
        ]  # fmt: skip

    def produce(self, *records: tuple[bytes | None, bytes]) -> None:
        self.sent += records
        messages = [
            {"key": key, "value": value, "headers": [("h", value), ("h", None)]}
            for key, value in records
        ]
        self.cluster.produce(self.topic, messages, compression_type="zstd")

    def records(self, topic: str) -> list[Seen]:
        found = dump(self.cluster.bootstrap, topic)
        return [record for _, records in sorted(found.items()) for record in records]

    def listed(self) -> dict[str, Any]:
        return kafkeep("schemas", "list", "--archive", self.archive, "--output", "json").json


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    folder = tmp_path_factory.mktemp("second-registry")
    with Ports() as ports:
        port = ports.take()
    server = launch_registry(folder, SimpleNamespace(ports={"registry": port}))  # type: ignore[arg-type]
    try:
        http = Http(registry_url(port))
        yield http  # it starts while others do
        http.client.close()
    finally:
        server.stop(timeout_s=5)


@pytest.fixture(scope="module")
def story(  # noqa: PLR0917
    second: Http, services: DevStatus, registry_url: str, cluster: Cluster, module_s3: None,
    spark: None,
) -> Iterator[Story]:  # fmt: skip
    topic, source = f"t-{uuid.uuid4().hex[:8]}", Http(registry_url)
    archive = f"s3://{services.s3.bucket}/{topic}"
    told = Story(cluster, source, second, archive, cluster.create(topic))
    item, place = f"{topic}-item", f"{topic}-a-place"
    source.register(item, ITEM)
    boxes = [source.register(f"{topic}-value", box, shop__Item=item) for box in (BOX_1, BOX_2)]
    keys = [source.register(f"{topic}-key", key) for key in (KEY_1, KEY_2)]
    city = {"city": {"type": "string"}}
    source.register(place, {"type": "object", "title": "Place", "properties": city}, "JSON")
    home = {"type": "object", "title": "Home", "properties": {"at": {"$ref": "place.json"}}}
    source.register(f"{topic}-a-home", home, "JSON", place__json=place)
    source.register(f"{topic}-price", PRICE, "PROTOBUF")
    source.register(f"{topic}-a-order", ORDER, "PROTOBUF", price__proto=f"{topic}-price")
    source.client.delete(f"/subjects/{topic}-key/versions/1").raise_for_status()
    level = {"compatibility": "BACKWARD"}
    source.client.put(f"/config/{topic}-value", json=level).raise_for_status()
    told.subjects = sorted(
        f"{topic}-{end}"
        for end in ("item", "value", "key", "a-place", "a-home", "price", "a-order")
    )
    values = [{"items": [{"n": number}], "note": "new"} for number in range(6)]
    told.produce(
        *(
            (source.encode(keys[n % 2], {"k": n}), source.encode(boxes[n % 2], value))
            for n, value in enumerate(values)
        )
    )
    told.backup()
    until(second.answers, "the second registry answers")
    yield told
    source.client.close()


def test_schemas_come_back_under_their_ids_in_an_empty_registry(story: Story) -> None:
    commit = story.listed()["commit"]
    assert story.backup()["commit"] - commit == 1, "taking the log is all there is to commit"
    listed = [v for v in story.listed()["versions"] if v["subject"] in story.subjects]
    assert [(v["subject"], v["version"], v["id"]) for v in listed] == [
        (one["subject"], one["version"], one["id"])
        for told in story.source.everything(story.subjects).values()
        for one in told["versions"]
    ]
    kafkeep(*story.restore("never", "ids", "--dry-run")).expect(0)
    assert story.target.get("/subjects?deleted=true") == []

    into = f"{story.topic}-ids"
    summary = kafkeep(*story.restore(into, "ids")).expect(0).json

    everything = story.source.everything(story.subjects)
    assert story.target.everything(story.subjects) == everything
    assert everything[f"{story.topic}-key"]["active"] == [2]
    assert summary["schemas"]["registered"] == len(story.listed()["versions"])
    again = [(r.key, r.value) for r in story.records(into)]
    assert again == story.sent
    decoded = [story.target.decode(value) for _, value in again]
    assert [value["items"] for value in decoded] == [[{"n": n}] for n in range(6)]
    # What is registered once more has its id, and what is new has one of its own.
    for told in everything.values():
        for one in told["versions"]:
            if one["version"] in told["active"]:
                answer = story.target.client.post(
                    f"/subjects/{one['subject']}/versions",
                    json={k: one[k] for k in ("schema", "schemaType", "references") if k in one},
                )
                assert answer.json() == {"id": one["id"]}
    highest = max(v["id"] for v in story.listed()["versions"])
    assert story.target.register("newcomer", '"string"') > highest
    shown = kafkeep("schemas", "show", "--archive", story.archive, f"{story.topic}-price").expect(0)
    assert shown.stdout == PRICE
    info = kafkeep("info", "--archive", story.archive, "--output", "json").json["logs"][0]
    assert info["schemas"]["versions"] == len(story.listed()["versions"])
    kafkeep("verify", "--archive", story.archive).expect(0)


def test_schemas_that_get_other_ids_are_mapped_in_the_records(story: Story, tmp_path: Path) -> None:
    source, target, topic = story.source, story.target, story.topic
    before = story.listed()
    for number in range(4):
        target.register(f"taken-{number}", {"type": "fixed", "name": "F", "size": number + 1})
    late = source.register(f"{topic}-late", LATE, shop__Item=f"{topic}-item")
    story.produce(
        (None, source.encode(late, {"one": {"n": 6}})),
        (b"plain", struct.pack(">bI", 0, 2**30) + b"?"),
    )
    story.backup()
    there = target.get("/subjects")
    refused = kafkeep(*story.restore(f"{topic}-never", "ids")).expect(14)
    assert f"id {late} is another schema there, of " in refused.stderr
    assert target.get("/subjects") == there

    into = f"{topic}-mapped"
    env = {"KAFKEEP_FAILPOINT": "restore.schemas:exit"}
    Driver(tmp_path, *story.restore(into, "map"), env=env).wait().expect(137)
    new = int(target.get(f"/subjects/{topic}-late/versions/1")["id"])
    assert new != late
    assert story.cluster.end(into) == 0
    told = kafkeep(*story.restore(into, "map")).expect(3)

    assert int(target.get(f"/subjects/{topic}-late/versions/latest")["version"]) == 1
    assert "1 values start like a schema id that is not in the archive" in told.stderr
    counts = told.json["schemas"]
    assert counts["registered"] == 0, "the run that was killed had done it"
    assert [counts[n] for n in ("rewritten", "unknown_values", "plain")] == [13, 1, 1]
    records = story.records(into)
    for (key, value), seen, old in zip(story.sent, records, story.records(topic), strict=True):
        assert (seen.timestamp, seen.headers) == (old.timestamp, old.headers)
        assert (seen.key, len(seen.value or b"")) == (key, len(value))
    assert [(r.key, r.value) for r in records[:6]] == story.sent[:6], "these had their ids"
    assert records[6].value == struct.pack(">bI", 0, new) + story.sent[6][1][5:]
    assert target.decode(records[6].value) == {"one": {"n": 6}}
    assert records[7].value == story.sent[7][1]
    kafkeep(*story.restore(into, "map")).expect(0)
    assert len(story.records(into)) == 8
    against = ("verify", "--archive", story.archive, "--against", story.cluster.bootstrap)
    kafkeep(*against, "--topics", f"{topic}:{into}").expect(0)
    story.cluster.delete(into)
    kafkeep(*story.restore(into, "map")).expect(3)
    assert [r.value for r in story.records(into)] == [r.value for r in records], "mapped again"
    for way in (("--partition-count", "2"), ("--exact-offsets",)):
        other = f"{into}{way[0]}"
        counted = kafkeep(*story.restore(other, "map", *way)).expect(3).json["schemas"]
        assert counted == counts | {"registered": 0}
        assert {r.content for r in story.records(other)} == {r.content for r in records}
    # The schemas of an earlier commit are those of its time.
    earlier = ("schemas", "list", "--archive", story.archive, "--commit", before["commit"])
    assert kafkeep(*earlier, "--output", "json").json == before
    assert before["document"] != story.listed()["document"]


def test_a_registry_that_is_away_ends_a_backup_before_anything_is_written(
    story: Story, local_archive: Path
) -> None:
    outcome = kafkeep(
        "backup", "--bootstrap-servers", story.cluster.bootstrap, "--archive", local_archive,
        "--topics", story.topic, "--schema-registry", "http://127.0.0.1:1",
    ).expect(1)  # fmt: skip
    assert "the schema registry at http://127.0.0.1:1 fails" in outcome.stderr
    assert [path for path in local_archive.rglob("*") if path.is_file()] == []
