"""The stores the contract is run over."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkeep.archive.object_store import ObjectStore
from kafkeep.options.storage import StorageOptions
from kafkeep.store.local import LocalStore
from kafkeep.store.memory import MemoryStore
from kafkeep.store.retry import RetryingStore
from kafkeep.store.s3 import S3Store


@pytest.fixture(scope="session")
def s3_place(request: pytest.FixtureRequest) -> tuple[str, StorageOptions]:
    """A bucket and how to reach it: KAFKEEP_TEST_S3_ENDPOINT (with AWS's keys), or services."""
    if endpoint := os.environ.get("KAFKEEP_TEST_S3_ENDPOINT"):
        return os.environ["KAFKEEP_TEST_S3_BUCKET"], StorageOptions.from_env(endpoint=endpoint)
    s3 = request.getfixturevalue("services").s3
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key}
    return s3.bucket, StorageOptions(endpoint=s3.endpoint, region=s3.region, **keys)


KINDS = ["memory", "local", pytest.param("s3", marks=pytest.mark.integration)]


@pytest.fixture(params=KINDS)
def bare_store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of each kind."""
    match request.param:
        case "memory":
            return MemoryStore.shared(uuid.uuid4().hex)
        case "local":
            return LocalStore(tmp_path / "store")
        case _:
            bucket, options = request.getfixturevalue("s3_place")
            return S3Store(bucket, f"contract/{uuid.uuid4().hex}", options)


@pytest.fixture(params=["bare", "retrying"])
def store(request: pytest.FixtureRequest, bare_store: ObjectStore) -> ObjectStore:
    """Each store as it is, and wrapped."""
    wrap: Callable[[ObjectStore], ObjectStore] = {"bare": lambda one: one}.get(
        request.param, RetryingStore
    )
    return wrap(bare_store)
