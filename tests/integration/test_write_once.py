"""A bucket that keeps every version, for a user who may not delete: nothing is written twice."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from cluster import Cluster
from faults.proxy import Answer, FaultProxy, Rule
from kafkeep.dev import DevStatus
from oracle import assert_same, dump
from runs import kafkeep

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
BUCKET = f"every-version-{uuid.uuid4().hex[:8]}"
TEXT = "value.converter=org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def versions(s3_env: DevStatus) -> Any:
    """Boto's own client on a bucket with versions."""
    client = boto3.client("s3", endpoint_url=s3_env.s3.endpoint)
    client.create_bucket(Bucket=BUCKET)
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    return client


@pytest.fixture
def without_delete(s3_env: DevStatus, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """The same server, where every DELETE is denied."""
    with FaultProxy(s3_env.s3.endpoint) as proxy:
        proxy.add(Rule(Answer(403, "AccessDenied"), method="DELETE", times=0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.mark.usefixtures("without_delete")
def test_an_archive_is_made_and_restored_without_deleting_or_replacing_an_object(
    cluster: Cluster, topic_name: str, versions: Any
) -> None:
    prefix = uuid.uuid4().hex
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", f"s3://{BUCKET}/{prefix}")
    sink = ("--name", "sink", "--format", "json", "--set", "flush.size=40", "--set", TEXT)
    cluster.create(topic_name, 2)
    for _ in range(3):
        cluster.fill(topic_name, 100)
        kafkeep("backup", *where, "--topics", topic_name).expect(0)
        kafkeep("backup", *where, "--topics", topic_name, *sink).expect(0)
    target = f"{topic_name}-back"
    renamed = ("--topics", f"{topic_name}:{target}", "--name", "backup")
    for _ in range(2):
        kafkeep("restore", *where, *renamed).expect(0)
    kafkeep("verify", "--archive", f"s3://{BUCKET}/{prefix}", "--deep").expect(0)
    assert_same(dump(cluster.bootstrap, topic_name), dump(cluster.bootstrap, target))

    told = versions.list_object_versions(Bucket=BUCKET, Prefix=f"{prefix}/")
    assert "DeleteMarkers" not in told
    seen = Counter(version["Key"] for version in told["Versions"])
    assert len(seen) > 15
    assert set(seen.values()) == {1}
