"""The stores the contract is run over."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.emulators import CONTAINER, azurite, fake_gcs

from kafkeep.archive.object_store import ObjectStore
from kafkeep.dev import DevStatus
from kafkeep.options.storage import StorageOptions
from kafkeep.store.azure.store import AzureStore
from kafkeep.store.google.store import GoogleStore
from kafkeep.store.local.store import LocalStore
from kafkeep.store.memory import MemoryStore
from kafkeep.store.retry import RetryingStore
from kafkeep.store.s3.store import S3Store


@pytest.fixture(scope="session")
def s3_place(request: pytest.FixtureRequest) -> tuple[str, StorageOptions]:
    """A bucket and how to reach it: KAFKEEP_TEST_S3_ENDPOINT (with AWS's keys), or services."""
    if endpoint := os.environ.get("KAFKEEP_TEST_S3_ENDPOINT"):
        return os.environ["KAFKEEP_TEST_S3_BUCKET"], StorageOptions.from_env(endpoint=endpoint)
    return _place(request.getfixturevalue("services"))


def _place(services: DevStatus) -> tuple[str, StorageOptions]:
    return services.s3.bucket, StorageOptions.from_env(services.s3.environment)


@pytest.fixture(scope="session")
def minio_place(minio_services: DevStatus) -> tuple[str, StorageOptions]:
    """A bucket of MinIO."""
    return _place(minio_services)


@pytest.fixture(scope="session")
def google_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, StorageOptions]]:
    """A bucket of fake-gcs-server."""
    with fake_gcs(tmp_path_factory.mktemp("gcs")) as options:
        yield CONTAINER, StorageOptions(google=options)


@pytest.fixture(scope="session")
def azure_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, StorageOptions]]:
    """A container of Azurite."""
    with azurite(tmp_path_factory.mktemp("azure")) as options:
        yield CONTAINER, StorageOptions(azure=options)


LATER = [pytest.mark.integration, pytest.mark.slow, pytest.mark.stores]
KINDS = [
    "memory",
    "local",
    pytest.param("s3", marks=pytest.mark.integration),
    *(pytest.param(kind, marks=LATER) for kind in ("minio", "gcs", "azure")),
]


@pytest.fixture(params=KINDS)
def bare_store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of each kind."""
    match request.param:
        case "memory":
            return MemoryStore.shared(uuid.uuid4().hex)
        case "local":
            return LocalStore(tmp_path / "store")
        case kind:
            place, store = {
                "s3": ("s3_place", S3Store),
                "minio": ("minio_place", S3Store),
                "gcs": ("google_place", GoogleStore),
                "azure": ("azure_place", AzureStore),
            }[kind]
            bucket, options = request.getfixturevalue(place)
            return store(bucket, f"contract/{uuid.uuid4().hex}", options)


@pytest.fixture(params=["bare", "retrying"])
def store(request: pytest.FixtureRequest, bare_store: ObjectStore) -> ObjectStore:
    """Each store as it is, and wrapped."""
    wrap: Callable[[ObjectStore], ObjectStore] = {"bare": lambda one: one}.get(
        request.param, RetryingStore
    )
    return wrap(bare_store)
