"""SINETStream's two connectors, run from files as its script posts them, into one bucket."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.support.cluster import ANY_TIME, Cluster
from tests.support.run_kafkeep import Outcome, kafkeep
from tests.support.sinetstream_cases import DATA, HOUR, TIMES, envelope
from tests.support.sink_runs import Bucket, probed_once

from kafkeep.dev import DevStatus

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]

SENT_US = (HOUR - 250) * 1000 + 999
PICTURE = b"\xff\xd8\xff\x00 picture\r\n\n"
MESSAGES = {
    0: [
        (HOUR, envelope(PICTURE, SENT_US)),
        (HOUR + 3_599_999, b"\xdf\x03\0\0\0\0" + envelope(b'{"t": 21.50}', SENT_US + 1)),
        (HOUR + 3_600_000, b"in no envelope"),
    ],
    1: [(HOUR - 1, envelope(b"", SENT_US))],
}


class Connectors:
    """Files for both connectors over one topic."""

    def __init__(self, services: DevStatus, folder: Path, topic: str) -> None:
        self.bucket = Bucket(services)
        self.topic = topic
        self._folder = folder
        self._services = services

    def run(self, name: str, config: Mapping[str, object]) -> Outcome:
        posted = {
            **config,
            "topics": self.topic,
            "s3.bucket.name": self.bucket.name,
            "store.url": self._services.s3.endpoint,
        }
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps({"name": name, "config": posted}))
        where = ("--bootstrap-servers", self._services.bootstrap_servers, "--output", "json")
        return kafkeep("backup", *where, "--connector-config", path)


@pytest.fixture(scope="module")
def connectors(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connectors]:
    topic = cluster.create(f"sinetstream.{uuid.uuid4().hex[:8]}", 2, ANY_TIME)
    for partition, messages in MESSAGES.items():
        cluster.produce(
            topic,
            (
                {"value": value, "timestamp": time_ms, "partition": partition}
                for time_ms, value in messages
            ),
        )
    with probed_once():
        yield Connectors(services, tmp_path_factory.mktemp("connectors"), topic)
    cluster.delete(topic)


def test_payloads_and_times_lie_beside_each_other(connectors: Connectors) -> None:
    connectors.run("s3-sink-data", DATA).expect()
    connectors.run("s3-sink-timestamp", TIMES).expect()

    bucket, topic = connectors.bucket, connectors.topic
    day = f"topics/{topic}/year=2022/month=04/day=18"
    stems = {
        f"{day}/hour=10/{topic}+0+0000000000": (PICTURE, b"2022-04-18T00:59:59.750"),
        f"{day}/hour=10/{topic}+0+0000000001": (b'{"t": 21.50}', b"2022-04-18T00:59:59.751"),
        f"{day}/hour=11/{topic}+0+0000000002": (b"in no envelope", b"2022-04-18T02:00:00.000"),
        f"{day}/hour=09/{topic}+1+0000000000": (b"", b"2022-04-18T00:59:59.750"),
    }
    expected = {
        stem + end: content
        for stem, contents in stems.items()
        for end, content in zip((".bin", "-timestamp.txt"), contents, strict=True)
    }
    assert {key: bucket.read(key) for key in bucket.list_keys()} == expected

    again = connectors.run("s3-sink-data", DATA).expect()
    assert again.json["records"] == 0
    assert bucket.list_keys() == set(expected)
    kafkeep("verify", "--archive", f"s3://{bucket.name}", "--deep", "--output", "json").expect()


def test_a_key_nobody_knows_is_refused_by_name_with_the_nearest(connectors: Connectors) -> None:
    refused = connectors.run("typo", {**DATA, "format.bytearray.extensoin": ".jpeg"}).expect(2)
    assert "format.bytearray.extensoin" in refused.stderr
    assert "format.bytearray.extension" in refused.stderr.replace("extensoin", "")
