"""The story a real Connect worker answered, told to `kafkeep serve` on real services."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import httpx
import pytest
from confluent_kafka import Producer
from tests.support.cluster import Cluster
from tests.support.connect.rest_story import run_story
from tests.support.waiting import PATIENCE_S

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration


@pytest.fixture
def service(services: DevStatus, tmp_path: Path) -> Iterator[httpx.Client]:
    """Yield a client of a service whose state is empty."""
    command = [sys.executable, "-m", "kafkeep", "serve", "--output", "json", "--port", "0"]
    command += ["--bootstrap-servers", services.bootstrap_servers, "--state", str(tmp_path)]
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        with httpx.Client(base_url=json.loads(line)["url"], timeout=60) as client:
            yield client
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
        process.stdout.close()


@pytest.fixture
def topics(services: DevStatus) -> tuple[str, str]:
    """Make the story's topics: two partitions and one, three records in each."""
    names = f"rg-a-{uuid.uuid4().hex[:8]}", f"rg-b-{uuid.uuid4().hex[:8]}"
    cluster = Cluster(services.bootstrap_servers)
    producer = Producer({"bootstrap.servers": services.bootstrap_servers})
    for name, partitions in zip(names, (2, 1), strict=True):
        cluster.create(name, partitions)
        for partition in range(partitions):
            for number in range(3):
                producer.produce(name, f'{{"n":{number}}}'.encode(), partition=partition)
    assert producer.flush(30) == 0
    return names


@pytest.fixture
def bucket(services: DevStatus) -> str:
    """Make a bucket of the story's own: its connectors have names that others use as well."""
    s3, name = services.s3, f"rg-{uuid.uuid4().hex[:8]}"
    client = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name=s3.region,
        aws_access_key_id=s3.access_key,
        aws_secret_access_key=s3.secret_key,
    )
    client.create_bucket(Bucket=name)
    return name


def test_the_service_answers_the_story_as_a_real_worker_did(
    services: DevStatus, service: httpx.Client, topics: tuple[str, str], bucket: str
) -> None:
    values = {
        "BUCKET": bucket,
        "ENDPOINT": services.s3.endpoint,
        "ACCESS_KEY": services.s3.access_key,
        "SECRET_KEY": services.s3.secret_key,
    }
    found = run_story(service, values, topics=topics, patience_s=PATIENCE_S)
    assert not found, "\n".join(str(one) for one in found)
