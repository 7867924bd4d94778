"""Check that a store honours conditional creates, on which every guarantee depends."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import KafkeepError, KeyExistsError
from kafkeep.retry import STORE
from kafkeep.store.retry import RetryingStore, RetryingWriter
from kafkeep.store.s3 import S3Store

_FOLDER = "_kafkeep/probe"


def probe_conditional_create(store: ObjectStore, *, racers: int = 8, rounds: int = 3) -> bool:
    """Race creates on new keys and return whether exactly one won each time.

    Multipart uploads are raced too if the store uses them for ordinary objects. The created
    objects are deleted again, if the credentials allow that.
    """
    bare = store.inner if isinstance(store, RetryingStore) else store
    honoured = all(_race(store, racers, _put(store)) for _ in range(rounds))
    if isinstance(bare, S3Store) and bare.uses_parts:
        honoured = honoured and probe_parts(bare, racers=racers, rounds=rounds)
    return honoured


def probe_parts(store: S3Store, *, racers: int = 8, rounds: int = 3) -> bool:
    """Return whether exactly one of several racing multipart uploads wins."""
    return all(_race(store, racers, _complete(store)) for _ in range(rounds))


def _put(store: ObjectStore) -> Callable[[str, bytes], Callable[[], None]]:
    return lambda key, body: lambda: store.put_new(key, body)


def _complete(store: S3Store) -> Callable[[str, bytes], Callable[[], None]]:
    def prepare(key: str, body: bytes) -> Callable[[], None]:
        writer = store.create_in_parts(key)
        writer.write(body)
        return RetryingWriter(writer, key, STORE).finish

    return prepare


def _race(
    store: ObjectStore, racers: int, prepare: Callable[[str, bytes], Callable[[], None]]
) -> bool:
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
