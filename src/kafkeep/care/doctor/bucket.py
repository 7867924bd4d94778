"""The store: can it be read and written, does it decide races, does its clock agree."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

from kafkeep.archive.store import ObjectStore
from kafkeep.care.doctor.check import failed, passed, warned
from kafkeep.check import Check
from kafkeep.config.storage import StorageOptions
from kafkeep.config.units import format_duration
from kafkeep.errors import AccessDeniedError, DamagedError, PreflightError
from kafkeep.store.open import open_store
from kafkeep.store.probe import probe_conditional_create, probe_parts
from kafkeep.store.retry import RetryingStore
from kafkeep.store.s3 import S3Store

FOLDER = "_kafkeep/doctor/"
RETRY_DEADLINE_MS = 5_000
SKEW_MS = 5_000
BODY = b"written by kafkeep doctor\n"


def check_store(
    address: str, options: StorageOptions, now_ms: Callable[[], int]
) -> Iterator[Check]:
    """Read, write, race and delete small objects of our own; all of them are removed."""
    store = open_store(address, replace(options, retry_deadline_ms=RETRY_DEADLINE_MS))
    found = next(iter(store.list("_kafkeep/")), None)
    kept = "holds an archive" if found else "holds no archive yet"
    yield passed("store", f"{store.describe()} can be listed; it {kept}")
    yield from _check_write(store, now_ms)
    yield from _check_races(store)


def _check_write(store: ObjectStore, now_ms: Callable[[], int]) -> Iterator[Check]:
    key = f"{FOLDER}{uuid.uuid4().hex}"
    before = now_ms()
    store.put_new(key, BODY)
    after = now_ms()
    try:
        checks = [_read_back(store, key), _skew(store.head(key).modified_ms, before, after)]
    finally:
        left = _remove(store, key)
    yield from (*checks, *left)


def _read_back(store: ObjectStore, key: str) -> Check:
    if store.get(key) != BODY:
        return failed("store write", DamagedError(f"{key} does not come back as it was written"))
    return passed("store write", "objects can be written and read back")


def _skew(stamped_ms: int, before_ms: int, after_ms: int) -> Check:
    """Compare the store's clock with ours; stores may tell whole seconds only."""
    ahead = max(0, stamped_ms - after_ms)
    behind = max(0, before_ms - stamped_ms - 1000)
    off = ahead or behind
    if off <= SKEW_MS:
        return passed("clock", "agrees with the store's")
    side = "behind" if ahead else "ahead of"
    what = f"this machine is {format_duration(off)} {side} the store"
    return warned("clock", what, "Set the clock (NTP): S3 refuses requests 15 minutes off.")


def _remove(store: ObjectStore, key: str) -> tuple[Check, ...]:
    try:
        store.delete(key)
    except AccessDeniedError:
        what = f"objects cannot be deleted, so {key} stays"
        return (warned("store delete", what, "Backups do not need it; retention would."),)
    return ()


def _check_races(store: ObjectStore) -> Iterator[Check]:
    if not probe_conditional_create(store):
        yield failed("store races", unsafe(store))
        return
    yield passed("store races", "of several writers of one object exactly one wins")
    bare = store.inner if isinstance(store, RetryingStore) else store
    if isinstance(bare, S3Store) and not bare.uses_parts:
        yield _parts(bare)


def _parts(store: S3Store) -> Check:
    """Race uploads in parts where they are not used for objects of ordinary size."""
    if probe_parts(store):
        return passed("store parts", "uploads in parts are decided for one writer too")
    return warned(
        "store parts",
        "several writers of one object in parts can win",
        "kafkeep sends objects up to 4 GiB in one request here; keep segments smaller than that.",
    )


def unsafe(store: ObjectStore) -> PreflightError:
    """Return the error for a store that does not honour conditional creates."""
    return PreflightError(
        f"{store.describe()} lets two writers create the same object",
        hint="kafkeep needs a store that honours If-None-Match on PUT.",
    )
