"""S3 options against a real server; what a server cannot show is looked up in the requests."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

import boto3
import pytest
from botocore.config import Config
from tests.support.faults.s3_recorder import Recorder

from kafkeep.errors import AccessDeniedError, KafkeepError
from kafkeep.options.storage import MIB, StorageOptions
from kafkeep.retry import RetryPolicy
from kafkeep.store.retry import RetryingStore
from kafkeep.store.s3.store import S3Store

pytestmark = pytest.mark.integration
CUSTOMER_KEY = bytes(range(32))
TAGS = {"startOffset": "0", "endOffset": "9", "recordCount": "10", "team": "shop", "env": "lab"}


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> tuple[str, StorageOptions]:
    if endpoint := os.environ.get("KAFKEEP_TEST_S3_ENDPOINT"):
        return os.environ["KAFKEEP_TEST_S3_BUCKET"], StorageOptions.from_env(endpoint=endpoint)
    s3 = request.getfixturevalue("services").s3
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key}
    return s3.bucket, StorageOptions(endpoint=s3.endpoint, region=s3.region, **keys)


@pytest.fixture
def recorder(place: tuple[str, StorageOptions]) -> Iterator[Recorder]:
    assert place[1].endpoint is not None
    with Recorder(place[1].endpoint) as running:
        yield running


class Scene:
    """One prefix of the bucket, opened with this or that option, through the recorder."""

    def __init__(self, place: tuple[str, StorageOptions], recorder: Recorder) -> None:
        self.bucket, self.options = place
        self.prefix = f"s3-options/{uuid.uuid4().hex}"
        self.recorder = recorder

    def open(self, *, direct: bool = False, **options: Any) -> RetryingStore:
        where = {} if direct else {"endpoint": self.recorder.url}
        chosen = dataclasses.replace(self.options, **{**where, **options})
        policy = RetryPolicy(deadline_s=2, first_wait_s=0.01, longest_wait_s=0.05)
        return RetryingStore(S3Store(self.bucket, self.prefix, chosen), policy)

    def client(self) -> Any:
        """A client that kafkeep did not make."""
        return boto3.client(
            "s3",
            endpoint_url=self.options.endpoint,
            aws_access_key_id=self.options.access_key,
            aws_secret_access_key=self.options.secret_key,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    def tags(self, key: str) -> dict[str, str]:
        client = self.client()
        rows = client.get_object_tagging(Bucket=self.bucket, Key=f"{self.prefix}/{key}")["TagSet"]
        client.close()
        return {row["Key"]: row["Value"] for row in rows}


@pytest.fixture
def scene(place: tuple[str, StorageOptions], recorder: Recorder) -> Scene:
    return Scene(place, recorder)


def write(store: RetryingStore, key: str, size: int, tags: dict[str, str] | None = None) -> bytes:
    body = os.urandom(size)
    writer = store.create(key)
    for start in range(0, size, 1_000_000):
        writer.write(body[start : start + 1_000_000])
    writer.finish(tags=tags)
    return body


def test_tags_are_those_the_sink_sets_and_come_with_the_put(scene: Scene) -> None:
    write(scene.open(), "one", 100, TAGS)
    assert scene.tags("one") == TAGS
    (put,) = scene.recorder.puts()
    assert dict(parse_qsl(put.headers["x-amz-tagging"])) == TAGS


def test_an_object_in_parts_is_tagged_when_it_is_there(scene: Scene) -> None:
    store = scene.open(multipart_bytes=MIB, part_bytes=5 * MIB)
    body = write(store, "parts", 12 * MIB, TAGS)
    assert store.get("parts") == body
    assert scene.tags("parts") == TAGS


@pytest.mark.parametrize("way", ["put", "parts"])
def test_refused_tags_are_left_out_unless_that_is_to_fail(
    scene: Scene, way: str, caplog: Any
) -> None:
    """The recorder refuses to tag afterwards; of the PUT it lets the header through no further."""
    parts = {"multipart_bytes": MIB} if way == "parts" else {}
    scene.recorder.refuse["tagging"] = 403
    store = scene.open(**parts)
    if way == "put":
        _refuse_tagged_puts(scene.recorder)
    with caplog.at_level("WARNING"):
        body = write(store, "a", 2 * MIB, TAGS)
    assert "has no tags" in caplog.text
    assert store.get("a") == body
    assert scene.tags("a") == {}
    with pytest.raises(AccessDeniedError):
        write(scene.open(**parts, fail_on_tagging_error=True), "b", 2 * MIB, TAGS)


def _refuse_tagged_puts(recorder: Recorder) -> None:
    forward = recorder.forward

    def picky(asked: BaseHTTPRequestHandler, host: str) -> None:
        if asked.headers.get("x-amz-tagging"):
            asked.rfile.read(int(asked.headers["Content-Length"]))
            asked.send_response(403)
            asked.send_header("Content-Length", "0")
            asked.end_headers()
        else:
            forward(asked, host)

    recorder.forward = picky  # type: ignore[method-assign]


@pytest.mark.parametrize("size", [100, 12 * MIB])
def test_a_customers_key_is_needed_to_read(scene: Scene, size: int) -> None:
    options = {"customer_key": CUSTOMER_KEY, "encryption": "AES256", "multipart_bytes": 6 * MIB}
    store = scene.open(**options)
    body = write(store, "secret", size)
    assert store.get("secret") == body
    assert store.get_range("secret", 10, 20) == body[10:20]
    assert store.head("secret").size_bytes == size
    for other in (None, CUSTOMER_KEY[::-1]):
        with pytest.raises(KafkeepError):
            scene.open(customer_key=other).get("secret")
    with pytest.raises(AccessDeniedError) as refused:
        scene.open().get("secret")
    assert "KAFKEEP_S3_SSE_CUSTOMER_KEY" in (refused.value.hint or "")
    digest = base64.b64encode(hashlib.md5(CUSTOMER_KEY).digest()).decode()
    asked = [
        one
        for one in scene.recorder.seen
        if "/secret" in one.target and "uploads" not in one.target
    ]
    ours = [
        one
        for one in asked
        if one.headers.get("x-amz-server-side-encryption-customer-key-md5") == digest
    ]
    assert {one.method for one in ours} >= {"PUT", "GET", "HEAD"}


def test_a_customers_key_does_for_a_whole_archive(scene: Scene) -> None:
    store = scene.open(customer_key=CUSTOMER_KEY)
    store.put_new("log/0", b"commit", {"by": "test"}, tags={"a": "b"})
    assert [row.key for row in store.list("log/")] == ["log/0"]
    assert store.head("log/0").metadata == {"by": "test"}
    assert store.tags("log/0") == {"a": "b"}
    writer = store.create("log/0")
    writer.write(b"late")
    with pytest.raises(KafkeepError, match="taken"):
        writer.finish()


@pytest.mark.parametrize("size", [100, 12 * MIB])
def test_the_canned_acl_is_sent(scene: Scene, size: int) -> None:
    body = write(scene.open(acl="bucket-owner-full-control", multipart_bytes=6 * MIB), "a", size)
    assert scene.open().get("a") == body
    taken = [one for one in scene.recorder.seen if one.answer == HTTPStatus.OK]
    said = [one.method for one in taken if one.headers.get("x-amz-acl")]
    assert said == ["PUT" if size == 100 else "POST"]


@pytest.mark.parametrize("part", [5 * MIB, 6 * MIB])
def test_no_part_is_larger_than_set(scene: Scene, part: int) -> None:
    body = write(scene.open(multipart_bytes=part, part_bytes=part), "a", 17 * MIB)
    assert scene.open().get("a") == body
    sizes = [one.size for one in scene.recorder.puts()]
    assert sizes == [part] * (17 * MIB // part) + [17 * MIB % part]


def test_digests_are_sent_when_asked_for(scene: Scene) -> None:
    store = scene.open(send_digest=True, multipart_bytes=6 * MIB, part_bytes=5 * MIB)
    body = write(store, "a", 100)
    store.put_new("b", body)
    write(store, "c", 7 * MIB)
    expected = base64.b64encode(hashlib.md5(body).digest()).decode()
    given = [one.headers.get("content-md5") for one in scene.recorder.puts()]
    assert given[:2] == [expected] * 2
    assert len(given) == 4
    assert all(given)
    write(scene.open(), "d", 100)
    assert "content-md5" not in scene.recorder.puts()[-1].headers


@pytest.mark.parametrize("wanted", [True, False])
def test_bodies_are_announced_as_set(scene: Scene, wanted: bool) -> None:
    store = scene.open(expect_continue=wanted)
    write(store, "small", 100)
    body = write(store, "large", 33 * MIB)
    assert store.head("large").size_bytes == len(body)
    assert ["expect" in one.headers for one in scene.recorder.puts()] == [False, wanted]


def test_requests_go_through_the_proxy_with_its_credentials(scene: Scene) -> None:
    store = scene.open(
        direct=True, proxy_url=scene.recorder.url, proxy_user="me@home", proxy_password="a:b/c"
    )
    body = write(store, "a", 100)
    assert store.get("a") == body
    assert scene.recorder.seen
    login = base64.b64encode(b"me@home:a:b/c").decode()
    for one in scene.recorder.seen:
        assert one.target.startswith(f"{scene.options.endpoint}/{scene.bucket}")
        assert one.headers["proxy-authorization"] == f"Basic {login}"


def test_an_unset_proxy_sends_nothing_there(scene: Scene) -> None:
    write(scene.open(direct=True), "a", 100)
    assert scene.recorder.seen == []
