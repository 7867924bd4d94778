"""The doctor with Spark, which takes its time, and before an S3 server that is not safe."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from tests.support.cluster import Cluster
from tests.support.faults.s3_recorder import Recorder
from tests.support.run_kafkeep import Driver, kafkeep

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration


def test_doctor_starts_spark_and_runs_a_job(tmp_path: Path) -> None:
    doctor = Driver(tmp_path, "doctor", "--output", "json", "--spark-conf", "spark.master=local[3]")
    found = doctor.wait().expect(0).json
    doctor.wait_for_group()
    (spark,) = [check for check in found["checks"] if check["subject"] == "spark"]
    assert spark["verdict"] == "pass", spark
    assert re.search(r"ran its first job after [\d.]+ s; 3 tasks at a time", spark["what"])


def test_doctor_fails_when_spark_does_not_start(tmp_path: Path) -> None:
    wrong = ("--spark-conf", "spark.driver.memory=none")
    ended = Driver(tmp_path, "doctor", "--output", "json", *wrong).wait().expect(1)
    (spark,) = [check for check in ended.json["checks"] if check["subject"] == "spark"]
    assert spark["verdict"] == "fail" and "Spark's JVM did not start" in spark["what"], spark


class ForgetfulS3(Recorder):
    """Removes what a conditional create would find: so does a server that ignores conditions."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self._lock = threading.Lock()
        self._client = boto3.client("s3", endpoint_url=upstream)

    def forward(self, asked: BaseHTTPRequestHandler, host: str) -> None:
        with self._lock:
            if "If-None-Match" in asked.headers:
                _, bucket, key = urlsplit(asked.path).path.split("/", 2)
                self._client.delete_object(Bucket=bucket, Key=key)
            super().forward(asked, host)


def test_an_s3_server_that_ignores_the_condition_is_refused_with_the_reason(
    s3_env: DevStatus, cluster: Cluster, archive_address: str, topic_name: str
) -> None:
    cluster.create(topic_name)
    with ForgetfulS3(s3_env.s3.endpoint) as proxy:
        where = ("--archive", archive_address, "--s3-endpoint", proxy.url)
        found = kafkeep("doctor", "--no-spark", *where).expect(14).stdout
        topics = ("--bootstrap-servers", s3_env.bootstrap_servers, "--topics", topic_name)
        refused = kafkeep("backup", *where, *topics).expect(14).stderr
    for said in (found, refused):
        assert "lets two writers create the same object" in said
        assert "kafkeep needs a store that honours If-None-Match on PUT" in said
