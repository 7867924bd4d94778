"""Open the store at an address, and check that it supports conditional creates."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import (
    AccessDeniedError,
    KafkeepError,
    KeyExistsError,
    PreflightError,
    UsageError,
)
from kafkeep.options.clouds import require_client
from kafkeep.options.storage import ArchiveAddress, StorageOptions
from kafkeep.retry import STORE
from kafkeep.store.bucket_writer import UploadsInParts
from kafkeep.store.local.files import NAME_A_FOLDER, disk_fault, no_folder
from kafkeep.store.local.store import LocalStore
from kafkeep.store.memory import MemoryStore
from kafkeep.store.retry import RetryingStore, RetryingWriter, store_policy
from kafkeep.store.s3.store import S3Store


def open_store(
    address: str,
    options: StorageOptions | None = None,
    *,
    create: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> ObjectStore:
    """Return the store at an address, wrapped with retries. Send no request yet.

    An address is ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``,
    ``file:///folder``, a plain folder, or ``memory:name`` (for tests, in this process). Without
    ``options``, they come from the environment.

    With ``create``, create a missing folder, but never a bucket. ``sleep`` is called between two
    attempts. An error that it raises ends the retries.
    """
    where = ArchiveAddress.parse(address)
    chosen = options if options is not None else StorageOptions.from_env()
    if create and where.kind == "file":
        _make_folder(where.path)
    return RetryingStore(_bare(where, chosen), replace(store_policy(chosen), sleep=sleep))


def _make_folder(path: str) -> None:
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except PermissionError as error:
        raise AccessDeniedError(
            f"cannot make folder {path}: {error.strerror}",
            hint="Check who owns the folder above it, and how it is mounted.",
        ) from error
    except OSError as error:
        fault = disk_fault(error)
        raise fault or UsageError(no_folder(path, error), hint=NAME_A_FOLDER) from error


def _bare(where: ArchiveAddress, options: StorageOptions) -> ObjectStore:
    match where.kind:
        case "s3":
            return S3Store(where.bucket, where.path, options)
        case "gs" | "az":
            return _cloud_store(where, options)
        case "file":
            return LocalStore(where.path)
        case "memory":
            return MemoryStore.shared(where.path)


_CLOUDS = {
    "gs": ("kafkeep.store.google.store", "GoogleStore"),
    "az": ("kafkeep.store.azure.store", "AzureStore"),
}


def _cloud_store(where: ArchiveAddress, options: StorageOptions) -> ObjectStore:
    """Open a store whose client belongs to an extra of the package."""
    require_client(where.kind)
    module, name = _CLOUDS[where.kind]
    store: ObjectStore = getattr(import_module(module), name)(where.bucket, where.path, options)
    return store


_FOLDER = "_kafkeep/probe"


_RACERS = 2
"""A third one waits in SeaweedFS, which locks an object for each conditional create: whoever finds
it locked tries again after a second."""
_ROUNDS = 12
_ROUNDS_AT_ONCE = 3


def probe_conditional_create(
    store: ObjectStore, *, racers: int = _RACERS, rounds: int = _ROUNDS
) -> bool:
    """Race concurrent creates of new keys. Return whether exactly one succeeds each time.

    Multipart uploads are raced too if the store uses them for ordinary objects. The created objects
    are deleted again if the credentials allow it.
    """
    bare = store.inner if isinstance(store, RetryingStore) else store
    honoured = _races(store, racers, rounds, _put(store))
    if isinstance(bare, UploadsInParts) and bare.uses_parts:
        honoured = honoured and probe_parts(bare, racers=racers, rounds=rounds)
    return honoured


def unsafe_store_error(store: ObjectStore) -> PreflightError:
    """Return the error for a store that does not honour conditional creates."""
    address = store.describe()
    needed = _CONDITIONS.get(address.partition(":")[0], "If-None-Match on PUT")
    return PreflightError(
        f"{address} lets two writers create the same object",
        hint=f"kafkeep needs a store that honours {needed}.",
    )


_CONDITIONS = {
    "gs": "ifGenerationMatch=0 on uploads",
    "az": "If-None-Match on Put Blob and Put Block List",
}


def probe_parts(store: UploadsInParts, *, racers: int = _RACERS, rounds: int = _ROUNDS) -> bool:
    """Return whether exactly one of several concurrent multipart uploads succeeds."""
    return _races(store, racers, rounds, _complete(store))


def _put(store: ObjectStore) -> Callable[[str, bytes], Callable[[], None]]:
    return lambda key, body: lambda: store.put_new(key, body)


def _complete(store: UploadsInParts) -> Callable[[str, bytes], Callable[[], None]]:
    def prepare(key: str, body: bytes) -> Callable[[], None]:
        writer = store.create_in_parts(key)
        writer.write(body)
        return RetryingWriter(writer, key, STORE).finish

    return prepare


_Prepare = Callable[[str, bytes], Callable[[], None]]


def _races(store: ObjectStore, racers: int, rounds: int, prepare: _Prepare) -> bool:
    with ThreadPoolExecutor(_ROUNDS_AT_ONCE) as pool:
        return all(pool.map(lambda _round: _race(store, racers, prepare), range(rounds)))


def _race(store: ObjectStore, racers: int, prepare: _Prepare) -> bool:
    key = f"{_FOLDER}/{uuid.uuid4().hex}"
    start = threading.Barrier(racers)
    attempts = [prepare(key, f"racer {number}".encode()) for number in range(racers)]

    def run(attempt: Callable[[], None]) -> bool:
        start.wait()
        try:
            attempt()
        except KeyExistsError:
            return False
        return True

    try:
        with ThreadPoolExecutor(racers) as pool:
            won = list(pool.map(run, attempts))
        return won.count(True) == 1 and store.get(key) == f"racer {won.index(True)}".encode()
    finally:
        with suppress(KafkeepError):
            store.delete(key)
