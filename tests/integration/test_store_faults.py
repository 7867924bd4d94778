"""S3 on bad days: every create ends in the right result or a clean error, never in between."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkeep.errors import (
    AccessDeniedError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.options.storage import StorageOptions
from kafkeep.retry import RetryPolicy
from kafkeep.store.open import probe_parts
from kafkeep.store.retry import RetryingStore
from kafkeep.store.s3.store import S3Store


def _load_proxy() -> Any:
    path = Path(__file__).parents[1] / "support" / "faults" / "s3_proxy.py"
    spec = importlib.util.spec_from_file_location("kafkeep_test_fault_proxy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fp = _load_proxy()
pytestmark = pytest.mark.integration
MIB = 1024 * 1024
ANSWERS = [(503, "SlowDown"), (500, "InternalError"), (429, "TooManyRequests"), (507, "DiskFull")]
FAULTS = [
    *(pytest.param(fp.Answer(*answer), id=f"answers-{answer[0]}") for answer in ANSWERS),
    pytest.param(fp.Reset(), id="reset"),
    pytest.param(fp.Lose(), id="answer-lost"),
    pytest.param(fp.Replace(500), id="done-but-500"),
    pytest.param(fp.Delay(0.2), id="slow"),
]
QUICK = RetryPolicy(deadline_s=60, first_wait_s=0.01, longest_wait_s=0.05)
SHORT = RetryPolicy(deadline_s=0.3, first_wait_s=0.05, longest_wait_s=0.1)


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> tuple[str, StorageOptions]:
    if endpoint := os.environ.get("KAFKEEP_TEST_S3_ENDPOINT"):
        return os.environ["KAFKEEP_TEST_S3_BUCKET"], StorageOptions.from_env(endpoint=endpoint)
    s3 = request.getfixturevalue("services").s3
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key}
    return s3.bucket, StorageOptions(endpoint=s3.endpoint, region=s3.region, **keys)


@pytest.fixture
def proxy(place: tuple[str, StorageOptions]) -> Iterator[Any]:
    with fp.FaultProxy(place[1].endpoint) as running:
        yield running


@pytest.fixture
def bare(place: tuple[str, StorageOptions], proxy: Any) -> S3Store:
    """A store behind the proxy; objects from 1 MiB on go up in parts."""
    options = dataclasses.replace(
        place[1], endpoint=proxy.url, multipart_bytes=MIB, retry_deadline_ms=60_000
    )
    store = S3Store(place[0], f"faults/{uuid.uuid4().hex}", options)
    store.require_bucket()
    return store


@pytest.fixture
def store(bare: S3Store) -> RetryingStore:
    return RetryingStore(bare, QUICK)


@pytest.mark.parametrize("fault", FAULTS)
def test_put_new_succeeds_once_whatever_happened_to_the_first_try(
    store: RetryingStore, proxy: Any, fault: Any
) -> None:
    proxy.add(fp.Rule(fault, method="PUT", times=1))
    store.put_new("a/1", b"mine", {"m": "1"})
    assert store.get("a/1") == b"mine"
    with pytest.raises(KeyExistsError):
        store.put_new("a/1", b"mine")


@pytest.mark.parametrize("fault", FAULTS)
def test_put_new_of_anothers_key_is_refused_after_a_fault_too(
    store: RetryingStore, proxy: Any, fault: Any
) -> None:
    store.put_new("a/1", b"theirs")
    proxy.add(fp.Rule(fault, method="PUT", times=1))
    with pytest.raises(KeyExistsError):
        store.put_new("a/1", b"mine")
    assert store.get("a/1") == b"theirs"


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", r"\?uploads"), ("PUT", "partNumber=2"), ("POST", "uploadId=")],
    ids=["begin", "part", "complete"],
)
def test_an_upload_in_parts_survives_a_fault_in_each_step(
    store: RetryingStore, proxy: Any, fault: Any, method: str, path: str
) -> None:
    proxy.add(fp.Rule(fault, method=method, path=path, times=1))
    body = os.urandom(17 * MIB)
    writer = store.create("a/large", {"m": "1"})
    writer.write(body)
    writer.finish()
    assert proxy.rules[0].applied == 1
    assert store.get("a/large") == body
    assert store.head("a/large").metadata == {"m": "1"}


@pytest.mark.parametrize("fault", FAULTS)
def test_finish_in_one_request_survives_a_fault(
    store: RetryingStore, proxy: Any, fault: Any
) -> None:
    proxy.add(fp.Rule(fault, method="PUT", times=1))
    writer = store.create("a/small")
    writer.write(b"mine")
    writer.finish({"m": "1"})
    assert store.get("a/small") == b"mine"
    assert store.head("a/small").metadata == {"m": "1"}


def test_a_success_with_an_error_inside_is_a_failure(store: RetryingStore, proxy: Any) -> None:
    proxy.add(fp.Rule(fp.Answer(200), method="POST", path="uploadId=", times=2))
    writer = store.create("a/large")
    writer.write(b"x" * 2 * MIB)
    writer.finish()
    assert proxy.rules[0].applied == 2
    assert store.head("a/large").size_bytes == 2 * MIB


@pytest.mark.parametrize("fault", FAULTS)
def test_the_probe_of_completions_survives_a_fault(bare: S3Store, proxy: Any, fault: Any) -> None:
    proxy.add(fp.Rule(fault, method="POST", path="uploadId=", times=1))
    assert probe_parts(bare, racers=1, rounds=1)
    assert proxy.rules[0].applied == 1


def test_a_lost_completion_of_anothers_key_is_refused(store: RetryingStore, proxy: Any) -> None:
    writer = store.create("a/large")
    writer.write(b"x" * 2 * MIB)
    store.put_new("a/large", b"theirs")
    proxy.add(fp.Rule(fp.Lose(), method="POST", path="uploadId=", times=1))
    with pytest.raises(KeyExistsError):
        writer.finish()
    assert store.get("a/large") == b"theirs"


@pytest.mark.parametrize("fault", FAULTS)
def test_reads_survive_a_fault(store: RetryingStore, proxy: Any, fault: Any) -> None:
    store.put_new("a/1", b"0123456789")
    for method in ("GET", "HEAD"):
        proxy.add(fp.Rule(fault, method=method, times=1))
    assert store.get("a/1") == b"0123456789"
    assert store.head("a/1").size_bytes == 10
    proxy.clear()
    proxy.add(fp.Rule(fault, path="a/1", times=1))
    assert store.get_range("a/1", 2, 4) == b"23"
    proxy.clear()
    proxy.add(fp.Rule(fault, path="list-type", times=1))
    assert [row.key for row in store.list("a/")] == ["a/1"]
    proxy.clear()
    proxy.add(fp.Rule(fault, times=1))
    with pytest.raises(KeyMissingError):
        store.get("a/2")
    proxy.clear()
    proxy.add(fp.Rule(fault, method="DELETE", times=1))
    store.delete("a/1")
    assert list(store.list("")) == []


def test_a_truncated_answer_is_read_again(store: RetryingStore, proxy: Any) -> None:
    body = os.urandom(300_000)
    store.put_new("a/1", body)
    proxy.add(fp.Rule(fp.Truncate(100_000), method="GET", path="a/1", times=2))
    assert store.get("a/1") == body
    assert proxy.rules[0].applied == 2
    proxy.clear()
    proxy.add(fp.Rule(fp.Truncate(10), method="GET", path="a/1", times=2))
    assert store.get_range("a/1", 5, 5000) == body[5:5000]


def test_a_truncated_answer_alone_is_transient(bare: S3Store, proxy: Any) -> None:
    bare.put_new("a/1", b"x" * 1000)
    proxy.add(fp.Rule(fp.Truncate(10), method="GET", path="a/1"))
    with pytest.raises(TransientError, match="a/1"):
        bare.get("a/1")


def test_a_flipped_byte_comes_through_and_is_for_the_digest_to_find(
    bare: S3Store, proxy: Any
) -> None:
    bare.put_new("a/1", b"0000")
    proxy.add(fp.Rule(fp.Flip(2), method="GET", path="a/1", times=1))
    assert bare.get("a/1") == b"0010"
    assert bare.get("a/1") == b"0000"


def test_a_lost_answer_is_distinguished_from_a_refused_request(bare: S3Store, proxy: Any) -> None:
    proxy.add(fp.Rule(fp.Lose(), method="PUT", times=1))
    with pytest.raises(UnknownOutcomeError):
        bare.put_new("a/1", b"x")
    assert bare.get("a/1") == b"x"
    proxy.clear()
    proxy.add(fp.Rule(fp.Answer(503, "SlowDown"), method="PUT", times=1))
    with pytest.raises(TransientError) as caught:
        bare.put_new("a/2", b"x")
    assert not isinstance(caught.value, UnknownOutcomeError)


def test_a_store_that_stays_down_is_named_with_the_attempts(bare: S3Store, proxy: Any) -> None:
    proxy.add(fp.Rule(fp.Answer(503, "SlowDown")))
    store = RetryingStore(bare, SHORT)
    with pytest.raises(TransientError, match=r"creating a/1 failed after \d+ attempts.*SlowDown"):
        store.put_new("a/1", b"x")
    with pytest.raises(TransientError, match="listing"):
        list(store.list("a/"))


def test_a_conflict_is_tried_again(store: RetryingStore, proxy: Any) -> None:
    conflict = fp.Answer(409, "ConditionalRequestConflict")
    proxy.add(fp.Rule(conflict, method="PUT", times=2))
    store.put_new("a/1", b"x")
    assert store.get("a/1") == b"x"


def test_nobody_listening_is_transient_with_a_hint(place: tuple[str, StorageOptions]) -> None:
    options = dataclasses.replace(place[1], endpoint="http://127.0.0.1:1")
    with pytest.raises(TransientError) as caught:
        S3Store(place[0], "x", options).get("a")
    assert "endpoint" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("change", "cause"),
    [({"secret_key": "not-the-secret"}, "secret key"), ({"access_key": "nobody"}, "access key")],
)
def test_wrong_keys_are_refused_with_the_cause(
    place: tuple[str, StorageOptions], change: dict[str, str], cause: str
) -> None:
    options = dataclasses.replace(place[1], **change)  # type: ignore[arg-type]
    store = RetryingStore(S3Store(place[0], "x", options), SHORT)
    for call in (
        lambda: store.get("a"),
        lambda: store.head("a"),
        lambda: list(store.list("")),
        lambda: store.put_new("a", b""),
    ):
        with pytest.raises(AccessDeniedError, match=cause):
            call()


@pytest.mark.parametrize(
    ("code", "cause"), [("RequestTimeTooSkewed", "clock"), ("ExpiredToken", "expired")]
)
def test_clock_skew_and_expired_tokens_are_named(
    bare: S3Store, proxy: Any, code: str, cause: str
) -> None:
    proxy.add(fp.Rule(fp.Answer(403, code)))
    with pytest.raises(AccessDeniedError, match=cause):
        bare.get("a/1")


def test_a_missing_bucket_is_no_archive_and_is_not_made(
    place: tuple[str, StorageOptions],
) -> None:
    bucket = f"missing-{uuid.uuid4().hex[:12]}"
    store = RetryingStore(S3Store(bucket, "x", place[1]), SHORT)
    for call in (
        lambda: store.put_new("a", b""),
        lambda: store.get("a"),
        lambda: store.head("a"),
        lambda: list(store.list("")),
    ):
        with pytest.raises(NoSuchArchiveError, match=bucket):
            call()
    writer = store.create("a")
    writer.write(b"x")
    with pytest.raises(NoSuchArchiveError, match=bucket):
        writer.finish()
