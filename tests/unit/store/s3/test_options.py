"""S3's keys in Connect's words, and the requests they lead to; nothing goes over a network."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.awsrequest import AWSResponse

from kafkeep.connect.connectors.s3_keys import DEFAULT_CHAINS, S3Options
from kafkeep.errors import AccessDeniedError, UsageError
from kafkeep.options.option import ConfigErrors, parse_group
from kafkeep.options.sink.naming import TagOptions
from kafkeep.options.storage import MIB, StorageOptions
from kafkeep.store.retry import store_policy
from kafkeep.store.s3.client import client_of, proxy_address
from kafkeep.store.s3.store import S3Store
from kafkeep.store.s3.upload import part_size

KEYS = {"aws.access.key.id": "id", "aws.secret.access.key": "hush-secret"}
KEY = base64.b64encode(bytes(range(32))).decode()
REGION = "eu-1"


def storage(given: Mapping[str, str], environ: Mapping[str, str] | None = None) -> StorageOptions:
    return parse_group(S3Options, given).to_storage(environ or {}, default_region=REGION)


def wrong(given: Mapping[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigErrors) as caught:
        storage(given)
    return caught.value.by_key


class Wire:
    """Answers every request of a store's client, and keeps what was asked."""

    def __init__(self, options: StorageOptions, *, fail: Mapping[str, int] | None = None) -> None:
        self.requests: list[Any] = []
        self._fail = dict(fail or {})
        self._client = client_of(options)
        self._client.meta.events.register_first("before-send.s3", self._answer)
        self.store = S3Store("bucket", "p", options)

    def close(self) -> None:
        self._client.meta.events.unregister("before-send.s3", self._answer)

    def _answer(self, request: Any, **_rest: Any) -> AWSResponse:
        self.requests.append(request)
        query = urlsplit(request.url).query
        status = 200
        if "tagging" in query or "x-amz-tagging" in request.headers:
            status = self._fail.get("tagging", 200)
        body = b""
        if "uploads" in query and request.method == "POST":
            body = b"<R><UploadId>u</UploadId></R>"
        elif "uploadId" in query and request.method == "POST":
            body = b"<R><ETag>x</ETag></R>"
        elif "list-type" in query or ("uploads" in query and request.method == "GET"):
            body = b"<R><IsTruncated>false</IsTruncated></R>"
        headers = {"etag": '"x"', "content-length": str(len(body))}
        return AWSResponse(request.url, status, headers, _Raw(body))

    def named(self, method: str, word: str = "/p/a") -> list[Any]:
        """The requests about the object ``a``."""
        return [one for one in self.requests if one.method == method and word in one.url]


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_how: Any) -> Iterator[bytes]:
        yield self._body


@pytest.fixture
def wires() -> Iterator[Any]:
    made: list[Wire] = []

    def make(options: StorageOptions, **how: Any) -> Wire:
        made.append(Wire(options, **how))
        return made[-1]

    yield make
    for wire in made:
        wire.close()


def put(wire: Wire, size: int = 10, tags: Mapping[str, str] | None = None) -> None:
    writer = wire.store.create("a")
    writer.write(bytes(size))
    writer.finish(tags=tags)


def header(request: Any, name: str) -> str | None:
    value = request.headers.get(name)
    return value.decode() if isinstance(value, bytes) else value


def test_what_is_not_set_comes_from_the_environment() -> None:
    env = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ENDPOINT_URL": "http://e"}
    found = storage({}, {**env, "AWS_REGION": "r"})
    assert (found.access_key, found.endpoint, found.region) == ("e", "http://e", "r")
    found = storage({**KEYS, "store.url": "http://f", "s3.region": "x"}, env)
    assert (found.access_key, found.secret_key) == ("id", "hush-secret")
    assert (found.endpoint, found.region) == ("http://f", "x")
    assert storage({}).region == REGION
    assert storage({"s3.profile.name": "p"}).region is None


def test_empty_texts_are_not_set() -> None:
    empty = dict.fromkeys(
        ["aws.access.key.id", "s3.ssea.name", "s3.proxy.url", "s3.acl.canned", "store.url"], ""
    )
    assert storage(empty) == storage({})


def test_a_scheme_is_added_where_none_is_written() -> None:
    assert storage({"store.url": "minio:9000"}).endpoint == "https://minio:9000"
    assert storage({"store.url": "http://minio:9000/"}).endpoint == "http://minio:9000"
    assert storage({"s3.proxy.url": "TBD"}).proxy_url == "http://TBD"
    assert "store.url" in wrong({"store.url": "ftp://x"})


def test_wan_mode_and_path_style_exclude_each_other_only_when_both_are_asked_for() -> None:
    found = storage({"s3.wan.mode": "true"}, {"AWS_ENDPOINT_URL": "http://e"})
    assert found.accelerate
    assert not found.uses_path_style
    both = {"s3.wan.mode": "true", "s3.path.style.access.enabled": "true"}
    assert "s3.path.style.access.enabled" in wrong(both)
    beside = {"s3.wan.mode": "true", "store.url": "http://minio:9000"}
    assert not storage(beside).accelerate
    assert storage(beside).uses_path_style
    (note,) = parse_group(S3Options, beside).notes()
    assert "s3.wan.mode" in note


def test_accelerated_requests_go_to_amazons_accelerated_endpoint(
    wires: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://e")  # boto3 looks there by itself
    wire = wires(storage({**KEYS, "s3.wan.mode": "true"}))
    put(wire)
    hosts = {urlsplit(one.url).netloc for one in wire.requests}
    assert hosts == {"bucket.s3-accelerate.amazonaws.com"}


@pytest.mark.parametrize(
    ("style", "place"),
    [("true", ("h.example", "/bucket/p/a")), ("false", ("bucket.h.example", "/p/a"))],
)
def test_the_bucket_stands_where_it_is_set(wires: Any, style: str, place: tuple[str, str]) -> None:
    given = {**KEYS, "store.url": "http://h.example", "s3.path.style.access.enabled": style}
    wire = wires(storage(given))
    put(wire)
    (request,) = wire.named("PUT")
    url = urlsplit(request.url)
    assert (url.netloc, url.path) == place


@pytest.mark.parametrize("name", DEFAULT_CHAINS)
def test_the_default_chains_are_what_is_used_anyway(name: str) -> None:
    assert storage({"s3.credentials.provider.class": name}) == storage({})


def test_other_credential_classes_are_refused_by_name() -> None:
    name = "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider"
    assert name in wrong({"s3.credentials.provider.class": name})["s3.credentials.provider.class"]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"aws.access.key.id": "id"}, "aws.secret.access.key"),
        ({"aws.secret.access.key": "x"}, "aws.access.key.id"),
        ({"s3.part.size": "5242879"}, "s3.part.size"),
        ({"s3.part.size": "2147483648"}, "s3.part.size"),
        ({"s3.part.size": "5MB"}, "s3.part.size"),
        ({"s3.part.retries": "-1"}, "s3.part.retries"),
        ({"s3.acl.canned": "everyone"}, "s3.acl.canned"),
        ({"s3.ssea.name": "AES128"}, "s3.ssea.name"),
        ({"s3.sse.customer.key": "dG9vIHNob3J0"}, "s3.sse.customer.key"),
        ({"s3.sse.customer.key": KEY, "s3.ssea.name": "aws:kms"}, "s3.sse.customer.key"),
        ({"s3.sse.kms.key.id": "k"}, "s3.sse.kms.key.id"),
        ({"s3.proxy.user": "me"}, "s3.proxy.url"),
        ({"s3.object.behavior.on.tagging.error": "shrug"}, "s3.object.behavior.on.tagging.error"),
        ({"s3.bucket.name": "s3://bucket"}, "s3.bucket.name"),
        ({"s3.send.digest": "yes"}, "s3.send.digest"),
    ],
)
def test_values_that_cannot_be_are_refused_by_key(given: dict[str, str], key: str) -> None:
    assert list(wrong(given)) == [key]


def test_no_secret_is_shown() -> None:
    given = {**KEYS, "s3.sse.customer.key": KEY, "s3.proxy.url": "http://u:hush-proxy@h:1"}
    given |= {"s3.proxy.user": "me", "s3.proxy.password": "hush-word"}
    options = parse_group(S3Options, given)
    for shown in (repr(options), repr(options.to_storage({}))):
        assert "hush" not in shown
        assert KEY not in shown
        assert str(bytes(range(32))) not in shown
    bad = wrong({"s3.sse.customer.key": "hush", "s3.proxy.url": "ftp://u:hush@h"})
    assert "hush" not in str(bad)


def test_options_travel_and_find_their_client_again() -> None:
    options = storage({**KEYS, "s3.sse.customer.key": KEY, "store.url": "http://h"})
    again = pickle.loads(pickle.dumps(options))
    assert again == options
    assert client_of(again) is client_of(options)


def test_proxy_credentials_are_written_so_that_no_sign_is_lost() -> None:
    given = {
        "s3.proxy.url": "http://proxy:3128",
        "s3.proxy.user": "me@x",
        "s3.proxy.password": "a:/@",
    }
    assert proxy_address(storage(given)) == "http://me%40x:a%3A%2F%40@proxy:3128"
    assert proxy_address(storage({"s3.proxy.url": "http://p:1"})) == "http://p:1"
    assert proxy_address(storage({})) is None


ENCRYPTIONS: list[tuple[dict[str, str], dict[str, str | None]]] = [
    ({"s3.ssea.name": "AES256"}, {"": "AES256"}),
    ({"s3.ssea.name": "aws:kms"}, {"": "aws:kms"}),
    (
        {"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "key-1"},
        {"": "aws:kms", "-aws-kms-key-id": "key-1"},
    ),
    ({"s3.ssea.name": "aws:kms:dsse", "s3.sse.kms.key.id": "k"}, {"": "aws:kms:dsse"}),
    (
        {"s3.ssea.name": "AES256", "s3.sse.customer.key": KEY},
        {"": None, "-customer-algorithm": "AES256", "-customer-key": KEY},
    ),
]


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(("given", "said"), ENCRYPTIONS)
def test_encryption_is_asked_for_when_an_object_begins(
    wires: Any, given: dict[str, str], said: dict[str, str | None], parts: bool
) -> None:
    given = {**KEYS, "s3.part.size": str(5 * MIB), "s3.acl.canned": "bucket-owner-read", **given}
    wire = wires(storage(given))
    put(wire, 6 * MIB if parts else 10)
    begun = wire.named("POST", "?uploads") if parts else wire.named("PUT")
    assert len(begun) == 1
    for name, value in said.items():
        assert header(begun[0], "x-amz-server-side-encryption" + name) == value
    assert header(begun[0], "x-amz-acl") == "bucket-owner-read"


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("in_pieces", [True, False])
def test_the_store_is_asked_before_large_bodies_alone(
    wires: Any, asks: bool, in_pieces: bool
) -> None:
    wire = wires(storage({**KEYS, "s3.http.send.expect.continue": str(asks).lower()}))
    for size in (10, MIB - 1, MIB, 6 * MIB):
        writer = wire.store.create("a")
        for piece in (size // 2, size - size // 2) if in_pieces else (size,):
            writer.write(bytes(piece))
        writer.finish()
    asked = [header(one, "expect") for one in wire.named("PUT")]
    assert asked == [None, None, *(["100-continue" if asks else None] * 2)]


def test_a_customers_key_goes_with_every_part(wires: Any) -> None:
    wire = wires(storage({**KEYS, "s3.part.size": str(5 * MIB), "s3.sse.customer.key": KEY}))
    put(wire, 6 * MIB)
    assert [
        header(one, "x-amz-server-side-encryption-customer-key") for one in wire.named("PUT")
    ] == [
        KEY,
        KEY,
    ]


def test_on_amazon_objects_beyond_a_part_go_up_in_parts_of_that_size(wires: Any) -> None:
    wire = wires(storage({**KEYS, "s3.part.size": str(5 * MIB)}))
    put(wire, 12 * MIB)
    sizes = [len(one.body.read()) for one in wire.named("PUT", "partNumber")]
    assert sizes == [5 * MIB, 5 * MIB, 2 * MIB]


def test_amazon_by_its_own_address_is_amazon() -> None:
    for url in ("https://s3.eu-1.amazonaws.com", "s3.cn-north-1.amazonaws.com.cn"):
        assert storage({"store.url": url}).is_amazon
    for url in ("http://minio:9000", "https://amazonaws.com.evil.example"):
        assert not storage({"store.url": url}).is_amazon


@pytest.mark.parametrize("bound", [5 * MIB, 26_214_400, None])
def test_ten_thousand_parts_hold_more_than_a_terabyte(bound: int | None) -> None:
    sizes = [part_size(done, bound) for done in range(10_000)]
    assert sum(sizes) > 1024**4
    assert max(sizes) <= 5 * 1024**3
    if bound is not None:
        assert set(sizes[:9000]) == {bound}


def test_refused_tags_are_left_out_with_a_warning(wires: Any, caplog: Any) -> None:
    wire = wires(storage({**KEYS, "store.url": "http://h"}), fail={"tagging": 501})
    put(wire, tags={"team": "shop + co"})
    tagged = [header(one, "x-amz-tagging") for one in wire.named("PUT")]
    assert dict(parse_qsl(tagged[0] or "")) == {"team": "shop + co"}
    assert tagged[1:] == [None]
    assert "has no tags" in caplog.text


@pytest.mark.parametrize("size", [10, 6 * MIB])
def test_refused_tags_fail_when_that_is_set(wires: Any, size: int) -> None:
    given = {"s3.object.behavior.on.tagging.error": "fail", "s3.part.size": str(5 * MIB)}
    wire = wires(storage({**KEYS, **given}), fail={"tagging": 403})
    with pytest.raises(AccessDeniedError, match="403"):
        put(wire, size, tags={"a": "b"})


def test_tags_are_those_of_the_sink() -> None:
    given = {"s3.object.tagging": "true", "s3.object.tagging.key.value.pairs": "team:shop,env:lab"}
    options = parse_group(TagOptions, given)
    assert options.object_tags(start=10, end=20, records=10) == {
        "team": "shop",
        "env": "lab",
        "startOffset": "10",
        "endOffset": "19",
        "recordCount": "10",
    }
    assert parse_group(TagOptions, {}).object_tags(start=0, end=1, records=1) is None


@pytest.mark.parametrize(
    "pairs", ["team", "a:b,:c", "startOffset:1", ",".join(f"k{n}:v" for n in range(8))]
)
def test_tags_that_cannot_be_are_refused(pairs: str) -> None:
    with pytest.raises(ConfigErrors):
        parse_group(TagOptions, {"s3.object.tagging.key.value.pairs": pairs})


def test_waits_are_those_that_were_set() -> None:
    given = {"s3.part.retries": "3", "s3.retry.backoff.ms": "150", "retry.backoff.ms": "7000"}
    policy = store_policy(storage(given))
    assert (policy.round_retries, policy.first_wait_s, policy.round_wait_s) == (3, 0.15, 7.0)
    assert policy.deadline_s == 60


def test_the_key_of_sse_c_can_stand_in_the_environment() -> None:
    assert StorageOptions.from_env({"KAFKEEP_S3_SSE_CUSTOMER_KEY": KEY}).customer_key == bytes(
        range(32)
    )
    with pytest.raises(UsageError, match="32 bytes"):
        StorageOptions.from_env({"KAFKEEP_S3_SSE_CUSTOMER_KEY": "AAAA"})


def test_half_an_address_is_named_with_its_key() -> None:
    with pytest.raises(ConfigErrors, match=r"store\.url: not an http:// or https:// address"):
        parse_group(S3Options, {"store.url": "http://["})
