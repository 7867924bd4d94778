"""Open the store of an address."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import AccessDeniedError, UsageError
from kafkeep.options.storage import ArchiveAddress, StorageOptions
from kafkeep.store.local import LocalStore
from kafkeep.store.local_files import NAME_A_FOLDER, disk_fault, no_folder
from kafkeep.store.memory import MemoryStore
from kafkeep.store.retry import RetryingStore, store_policy
from kafkeep.store.s3 import S3Store


def open_store(
    address: str,
    options: StorageOptions | None = None,
    *,
    create: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> ObjectStore:
    """Return the store at an address, with retries; no request is made yet.

    An address is ``s3://bucket/prefix``, ``file:///folder``, a plain folder, or ``memory:name``
    (for tests, in this process). Without ``options`` they come from the environment.

    With ``create``, a missing folder is made, but never a bucket. ``sleep`` is called between two
    attempts; an error that it raises ends them.
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
        case "file":
            return LocalStore(where.path)
        case "memory":
            return MemoryStore.shared(where.path)
