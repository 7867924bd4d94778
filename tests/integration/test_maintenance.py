"""A real archive, damaged behind kafkeep's back; and read by cat as a consumer reads Kafka."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import boto3
import pytest
from tests.support.cluster import ANY_TIME, Cluster
from tests.support.golden.cases import load_case
from tests.support.independent_client import dump
from tests.support.run_kafkeep import kafkeep

from kafkeep.archive.entry import Entry
from kafkeep.archive.view import load_view
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record
from kafkeep.options.unlogged import layout_of_sink
from kafkeep.store.open import open_store

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
COUNT = 30_000
ODD = [
    Record(0, -1, None, b"", ()),
    Record(1, 0, b"", None, [(b"h", None), (b"h", b"x")]),
    Record(2, 5, b"\xff\x00", b"\xfe", [(b"b", b"\xff")]),
    Record(3, 1_700_000_000_000, "schlüssel".encode(), b'{"a": "\\n"}', ()),
]


@dataclass(frozen=True)
class Archived:
    """An archive of two topics, and who may change its bytes."""

    cluster: Cluster
    address: str
    plain: str
    odd: str
    s3: Any
    bucket: str

    def entries(self) -> list[Entry]:
        """What the log says of the plain topic."""
        return load_view(open_store(self.address), "backup").entries(self.plain)

    def full_key(self, entry: Entry) -> str:
        """The object's key in its bucket."""
        prefix = self.address.removeprefix(f"s3://{self.bucket}/")
        return f"{prefix}/{entry.key}"

    def stored(self) -> dict[str, int]:
        """Every key of the bucket, and the size of what lies there."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return {row["Key"]: row["Size"] for page in pages for row in page.get("Contents", ())}

    def body(self, entry: Entry) -> bytes:
        """The object's bytes."""
        answer = self.s3.get_object(Bucket=self.bucket, Key=self.full_key(entry))
        return bytes(answer["Body"].read())

    def put(self, entry: Entry, body: bytes) -> None:
        """Replace the object's bytes."""
        self.s3.put_object(Bucket=self.bucket, Key=self.full_key(entry), Body=body)


@pytest.fixture(scope="module")
def archived(services: DevStatus, module_s3: None, spark: None) -> Iterator[Archived]:
    cluster, tag = Cluster(services.bootstrap_servers), uuid.uuid4().hex[:8]
    plain, odd = cluster.create(f"plain-{tag}", 2), cluster.create(f"odd-{tag}", 1, ANY_TIME)
    for partition in range(2):
        cluster.fill(plain, COUNT, partition, size=100)
    cluster.records(odd, ODD)
    cluster.transaction(odd, ["kept"], commit=True)
    cluster.transaction(odd, ["dropped"], commit=False)
    address = f"s3://{services.s3.bucket}/care-{tag}"
    args = ("--topics", f"{plain},{odd}", "--bootstrap-servers", cluster.bootstrap)
    kafkeep("backup", *args, "--archive", address, "--output", "json").expect(0)
    s3 = boto3.client("s3")
    yield Archived(cluster, address, plain, odd, s3, services.s3.bucket)


@pytest.fixture
def undamaged(archived: Archived) -> Iterator[Archived]:
    """The archive; whatever a test does to the plain topic's objects is undone."""
    before = {entry: archived.body(entry) for entry in archived.entries()}
    yield archived
    for entry, body in before.items():
        archived.put(entry, body)


def damage(archived: Archived, *flags: str) -> list[dict[str, Any]]:
    """Run verify, expect exit 13, and return what is damaged."""
    args = ("--archive", archived.address, "--output", "json", *flags)
    found = kafkeep("verify", *args).expect(13).json
    return [finding for finding in found["findings"] if finding["severity"] == "damage"]


@pytest.mark.parametrize("flags", [(), ("--deep",)])
def test_a_real_backup_is_intact(archived: Archived, flags: tuple[str, ...]) -> None:
    args = ("--archive", archived.address, "--output", "json", *flags)
    report = kafkeep("verify", *args).expect(0).json
    assert report["intact"]
    assert report["records"] == 2 * COUNT + len(ODD) + 1


def test_verify_names_the_offsets_of_a_deleted_object(undamaged: Archived) -> None:
    entry = undamaged.entries()[0]
    undamaged.s3.delete_object(Bucket=undamaged.bucket, Key=undamaged.full_key(entry))
    (found,) = damage(undamaged)
    assert (found["kind"], found["key"]) == ("missing", entry.key)
    assert (found["lost_start"], found["lost_end"]) == (entry.range.start, entry.range.end)


def test_verify_loses_one_frame_to_a_flipped_byte(undamaged: Archived) -> None:
    entry = undamaged.entries()[-1]
    assert len(entry.index) > 2
    lost, following = entry.index[1], entry.index[2]
    body = bytearray(undamaged.body(entry))
    body[(lost.position + following.position) // 2] ^= 0x10
    undamaged.put(entry, bytes(body))
    (found,) = damage(undamaged, "--topic", undamaged.plain)
    assert found["kind"] == "altered"
    assert (found["topic"], found["partition"]) == (undamaged.plain, entry.partition_id.partition)
    assert (found["lost_start"], found["lost_end"]) == (lost.offset, following.offset)


def test_verify_keeps_the_beginning_of_a_truncated_object(undamaged: Archived) -> None:
    entry = undamaged.entries()[0]
    undamaged.put(entry, undamaged.body(entry)[: entry.index[1].position + 100])
    (found,) = damage(undamaged)
    assert found["kind"] == "truncated"
    assert (found["lost_start"], found["lost_end"]) == (entry.index[1].offset, entry.range.end)


def cat(archived: Archived, *flags: str) -> bytes:
    """Run cat as a process of its own, and return its stdout byte for byte."""
    command = [sys.executable, "-m", "kafkeep", "cat", "--archive", archived.address, *flags]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=120).stdout


def test_cat_ends_quietly_when_its_reader_has_gone(archived: Archived) -> None:
    command = f"{sys.executable} -m kafkeep cat --archive {archived.address} | head -n 1"
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.count(b"\n") == 1


@pytest.mark.parametrize("which", ["plain", "odd"])
def test_cat_prints_what_a_consumer_sees(archived: Archived, which: str) -> None:
    topic = getattr(archived, which)
    seen = {
        (partition, record.offset): (record.key, record.value, record.headers)
        for partition, records in dump(archived.cluster.bootstrap, topic).items()
        for record in records
    }
    found = {}
    for printed in cat(archived, "--topic", topic).splitlines():
        line = json.loads(printed)
        content = _data(line, "key"), _data(line, "payload"), _headers(line)
        found[line["partition"], line["offset"]] = content
    assert found == seen
    assert list(found) == sorted(found)


def _data(line: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_b64" in line:
        return base64.b64decode(line[f"{name}_b64"])
    return None if line[name] is None else str(line[name]).encode()


def _headers(line: dict[str, Any]) -> tuple[tuple[str, bytes | None], ...]:
    if "headers_b64" in line:
        flat = [None if part is None else base64.b64decode(part) for part in line["headers_b64"]]
    else:
        flat = [None if part is None else part.encode() for part in line.get("headers", ())]
    return tuple((str(flat[i], "utf-8"), flat[i + 1]) for i in range(0, len(flat), 2))


def test_info_ls_and_du_agree_on_a_real_archive(archived: Archived) -> None:
    where = ("--archive", archived.address, "--output", "json")
    (log,) = kafkeep("info", *where).expect(0).json["logs"]
    listed = kafkeep("ls", *where).expect(0).json["objects"]
    usage = kafkeep("du", *where).expect(0).json
    assert sum(t["objects"] for t in log["topics"]) == len(listed) == usage["data_objects"]
    assert sum(t["stored_bytes"] for t in log["topics"]) == usage["data_bytes"]
    assert sum(o["records"] for o in listed) == sum(t["records"] for t in log["topics"])
    inside = archived.address.removeprefix(f"s3://{archived.bucket}/") + "/"
    sizes = archived.stored().items()
    assert usage["total_bytes"] == sum(size for key, size in sizes if key.startswith(inside))


def test_a_bucket_of_confluents_sink_is_inspected_without_a_log(archived: Archived) -> None:
    case, prefix = load_case("22"), f"foreign-{uuid.uuid4().hex[:8]}"
    for key, body in case.objects.items():
        archived.s3.put_object(Bucket=archived.bucket, Key=f"{prefix}/{key}", Body=body)
    foreign = replace(archived, address=f"s3://{archived.bucket}/{prefix}")
    where = ("--archive", foreign.address)
    told = [f"--set={key}={text}" for key, text in layout_of_sink(case.config).items()]
    report = kafkeep("verify", *where, *told, "--deep", "--output", "json").expect(0).json
    listed = kafkeep("ls", *where, *told, "--output", "json").expect(0).json["objects"]
    assert {o["key"] for o in listed} == case.objects.keys() and report["intact"]
    found = Counter(
        (line["partition"], line["key"], line["payload"] is None)
        for line in map(json.loads, cat(foreign, *told).splitlines())
    )
    (ends,) = case.committed.values()
    wanted = [r for r in case.records if r.offset < (ends[r.partition] or 0)]
    assert found == Counter((r.partition, (r.key or b"").decode(), r.value is None) for r in wanted)
    assert report["records"] == len(wanted)


def test_doctor_passes_the_services_and_leaves_the_bucket_as_it_was(archived: Archived) -> None:
    before = archived.stored()
    args = ("--archive", archived.address, "--bootstrap-servers", archived.cluster.bootstrap)
    found = kafkeep("doctor", *args, "--no-spark", "--output", "json").expect(0).json
    verdicts = {check["subject"]: check["verdict"] for check in found["checks"]}
    assert verdicts["kafka"] == verdicts["store races"] == verdicts["clock"] == "pass"
    assert "fail" not in verdicts.values()
    assert archived.stored() == before


def test_doctor_exits_12_with_wrong_credentials(
    archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    kafkeep("doctor", "--archive", archived.address, "--no-spark").expect(12)
