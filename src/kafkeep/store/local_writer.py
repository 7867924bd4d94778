"""An object of a folder on its way: a hidden file that is linked to its name when it is whole."""

from __future__ import annotations

import os
import secrets
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO

from kafkeep.errors import EnvironmentFault, KeyExistsError
from kafkeep.store.directory import create_file, remove_file, why_special
from kafkeep.store.disk import faults, save_sidecar
from kafkeep.store.keys import check_metadata, check_tags

if TYPE_CHECKING:
    from kafkeep.store.local import LocalStore

WRITING = "writing-"
NO_LINKS = (
    "Move what it points to into the archive, or mount it there (mount --bind). "
    "Only the archive's own folder may be a link."
)


class LocalWriter:
    """An object of a LocalStore being written to a hidden file."""

    def __init__(self, store: LocalStore, key: str, metadata: dict[str, str]) -> None:
        self._store = store
        self._key = key
        self._metadata = metadata
        self._file: BinaryIO | None = None
        self._temporary = f"{WRITING}{sha256(key.encode()).hexdigest()[:12]}-{uuid.uuid4().hex}"
        with faults(key), store.hidden_folder() as hidden:
            self._file = create_file(hidden, self._temporary, store.file_mode)

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        if self._file is None:
            raise ValueError(f"{self._key} is written already")
        with faults(self._key):
            self._file.write(data)

    def finish(
        self, metadata: Mapping[str, str] | None = None, *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Make the object visible whole, or raise KeyExistsError if the key is taken."""
        joined, checked_tags = {**self._metadata, **check_metadata(metadata)}, check_tags(tags)
        if self._file is None:
            raise ValueError(f"{self._key} is written already")
        sidecar: str | None = None
        try:
            with faults(self._key), self._store.hidden_folder() as hidden:
                self._file.flush()
                _stamp(self._file.fileno())
                os.fsync(self._file.fileno())
                try:
                    if joined or checked_tags:
                        name = sidecar_name(self._key, os.fstat(self._file.fileno()))
                        save_sidecar(hidden, name, joined, checked_tags, self._store.file_mode)
                        sidecar = name
                    self._link(hidden)
                    sidecar = None
                finally:
                    # Lost the name: what was written for it goes too.
                    if sidecar is not None:
                        remove_file(hidden, sidecar)
        finally:
            self.abort()

    def abort(self) -> None:
        """Forget what was written; safe at any time."""
        file, self._file = self._file, None
        if file is None:
            return
        with suppress(OSError):
            file.close()
        with suppress(OSError, EnvironmentFault), self._store.hidden_folder() as hidden:
            remove_file(hidden, self._temporary)

    def _link(self, hidden: int) -> None:
        with self._store.folder_to_write(self._key) as (folder, name):
            try:
                os.link(
                    self._temporary,
                    name,
                    src_dir_fd=hidden,
                    dst_dir_fd=folder,
                    follow_symlinks=False,
                )
            except FileExistsError:
                if reason := why_special(folder, name):
                    raise EnvironmentFault(f"{self._key} {reason}", hint=NO_LINKS) from None
                raise KeyExistsError(f"{self._key} is taken in {self._store.describe()}") from None
            except FileNotFoundError:
                raise EnvironmentFault(f"the upload of {self._key} was ended by somebody") from None
            os.fsync(folder)


def sidecar_name(key: str, stat: os.stat_result) -> str:
    """Return the name of an object's metadata file, made of its key, size and time.

    So it can be there before the object is, and outlives a copy that keeps times. Each writer
    gives its file a time of its own (``_stamp``), so racing writers do not share one.
    """
    digest = sha256(key.encode()).hexdigest()[:32]
    return f"metadata-{digest}-{stat.st_size}-{stat.st_mtime_ns}.json"


def _stamp(descriptor: int) -> None:
    """Give a file a time that no other file has: now, with chance below the millisecond."""
    now_ns = time.time_ns() // 1_000_000 * 1_000_000 + secrets.randbelow(1_000_000)
    os.utime(descriptor, ns=(now_ns, now_ns))
