"""Buckets that keep every version or lock it, and a user who may not delete: all is kept."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from tests.support.cluster import Cluster
from tests.support.faults.s3_proxy import Answer, FaultProxy, Rule
from tests.support.independent_client import assert_same, dump
from tests.support.run_kafkeep import kafkeep
from tests.support.versioned_bucket import VersionedBucket

from kafkeep.dev import DevStatus
from kafkeep.options.maintenance import DAY_MS
from kafkeep.store.s3.store import S3Store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
LOCKED = f"locked-{uuid.uuid4().hex[:8]}"
TEXT = "value.converter=org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def without_delete(s3_env: DevStatus, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """The same server, where every DELETE is denied."""
    with FaultProxy(s3_env.s3.endpoint) as proxy:
        proxy.add(Rule(Answer(403, "AccessDenied"), method="DELETE", times=0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.mark.usefixtures("without_delete")
def test_an_archive_is_made_and_restored_without_deleting_or_replacing_an_object(
    cluster: Cluster, topic_name: str, versioned: VersionedBucket
) -> None:
    archive = f"s3://{versioned.name}/archive"
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive)
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
    kafkeep("verify", "--archive", archive, "--deep").expect(0)
    assert_same(dump(cluster.bootstrap, topic_name), dump(cluster.bootstrap, target))

    assert versioned.deleted_keys() == set()
    seen = versioned.count_versions()
    assert len(seen) > 15
    assert set(seen.values()) == {1}


@pytest.fixture
def locked(s3_env: DevStatus) -> Any:
    """Boto's own client on a bucket that locks each object for a day."""
    client = boto3.client("s3", endpoint_url=s3_env.s3.endpoint)
    client.create_bucket(Bucket=LOCKED, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    client.put_object_lock_configuration(
        Bucket=LOCKED,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule},
    )
    return client


def test_a_locked_bucket_takes_an_archive_and_gc_hides_orphans_without_losing_a_version(
    cluster: Cluster, topic_name: str, locked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = f"s3://{LOCKED}/archive"
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive)
    cluster.create(topic_name)
    for _ in range(2):
        cluster.fill(topic_name, 100)
        kafkeep("backup", *where, "--topics", topic_name).expect(0)
    kafkeep("verify", "--archive", archive, "--deep").expect(0)
    data = f"archive/topics/{topic_name}/partition=0/"
    first, _second = locked.list_objects_v2(Bucket=LOCKED, Prefix=data)["Contents"]
    source = {"Bucket": LOCKED, "Key": first["Key"]}
    left = data + "left-over.log.zst"
    locked.copy_object(Bucket=LOCKED, Key=left, CopySource=source)

    def versions() -> set[tuple[str, str]]:
        told = locked.list_object_versions(Bucket=LOCKED, Prefix=data)
        return {(one["Key"], one["VersionId"]) for one in told["Versions"]}

    before, told_ms = versions(), S3Store.now_ms
    monkeypatch.setattr(S3Store, "now_ms", lambda store: told_ms(store) + DAY_MS + 1000)
    gc = kafkeep("gc", "--archive", archive, "--output", "json").expect(0)
    [told] = gc.json["left_overs"]
    assert (f"archive/{told['key']}", told["fate"]) == (left, "removed")
    assert versions() == before
    for key, version in before:
        with pytest.raises(ClientError, match="AccessDenied"):
            locked.delete_object(Bucket=LOCKED, Key=key, VersionId=version)
    target = f"{topic_name}-back"
    kafkeep("restore", *where, "--topics", f"{topic_name}:{target}").expect(0)
    assert_same(dump(cluster.bootstrap, topic_name), dump(cluster.bootstrap, target))
