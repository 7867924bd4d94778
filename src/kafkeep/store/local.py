"""Objects as files in a folder, created as carefully as a store would."""

from __future__ import annotations

import os
import secrets
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from kafkeep import clock
from kafkeep.archive.names import KeyLimits
from kafkeep.archive.store import ObjectInfo, Upload
from kafkeep.errors import (
    EnvironmentFault,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
)
from kafkeep.store.disk import faults, load_sidecar, make_folders, save_sidecar, sync_folder
from kafkeep.store.keys import check_key, check_metadata, check_tags

_HIDDEN = ".kafkeep-local"
_WRITING, _TAGGING = "writing-", "tagging-"


class LocalStore:
    """An ObjectStore in a folder: the file of an object is its key's path.

    A file is written aside, made durable, then linked to its name: it appears whole, or not at
    all, and never over another. Metadata lies in ``.kafkeep-local/``, durable before the object
    appears. A crash leaves at most a file in there that no listing shows.
    """

    key_limits = KeyLimits(folder_bytes=255)

    def __init__(self, folder: str | Path) -> None:
        self._folder = str(Path(folder).absolute())

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Store ``body`` whole or not at all; raise KeyExistsError if ``key`` is taken."""
        writer = self.create(key, metadata)
        try:
            writer.write(body)
            writer.finish(tags=tags)
        finally:
            writer.abort()

    def create(self, key: str, metadata: Mapping[str, str] | None = None) -> LocalWriter:
        """Begin an object; its bytes go to a hidden file."""
        return LocalWriter(self, check_key(key), check_metadata(metadata))

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""
        with self._reading(key):
            return self.path_of(key).read_bytes()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``, fewer where the object ends before."""
        with self._reading(key), self.path_of(key).open("rb") as file:
            file.seek(start)
            return file.read(max(0, end - start))

    def head(self, key: str) -> ObjectInfo:
        """Tell size, time and metadata, or raise KeyMissingError."""
        stat = self._stat(key)
        metadata, _tags = load_sidecar(self.metadata_path(key, stat))
        return ObjectInfo(key, stat.st_size, _modified_ms(stat), metadata)

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags."""
        return load_sidecar(self.metadata_path(key, self._stat(key)))[1]

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Give an object these tags instead of those it has."""
        checked, path = check_tags(tags), self.metadata_path(key, self._stat(key))
        metadata, _old = load_sidecar(path)
        with faults(key):
            aside = self.hidden_folder() / f"{_TAGGING}{uuid.uuid4().hex}"
            save_sidecar(aside, metadata, checked)
            aside.replace(path)
            sync_folder(path.parent)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order, reading one folder at a time."""
        parent = prefix.rpartition("/")[0]
        yield from self._walk(parent + "/" if parent else "", prefix, after.encode())

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the folders one level down that hold something."""
        return sorted(
            name.removesuffix("/")
            for name, is_folder in self._rows(prefix)
            if is_folder and next(self._walk(prefix + name, prefix + name, b""), None) is not None
        )

    def delete(self, key: str) -> None:
        """Remove an object; no error when there is none."""
        path = self.path_of(check_key(key))
        with faults(key), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            stat = path.stat()
            path.unlink()
            self.metadata_path(key, stat).unlink(missing_ok=True)
            sync_folder(path.parent)

    def uploads(self) -> Sequence[Upload]:
        """Return the files aside that have no name yet."""
        found = []
        with faults(_HIDDEN), suppress(FileNotFoundError):
            for path in Path(self._folder, _HIDDEN).iterdir():
                if path.name.startswith((_WRITING, _TAGGING)):
                    with suppress(FileNotFoundError):
                        found.append(Upload(path.name, "", _modified_ms(path.stat())))
        return found

    def end_upload(self, upload: Upload) -> None:
        """Remove a file aside; no error when there is none."""
        with faults(upload.id):
            Path(self._folder, _HIDDEN, upload.id).unlink(missing_ok=True)

    def now_ms(self) -> int:
        """Return this machine's time: files are stamped with it."""
        return clock.now_ms()

    def describe(self) -> str:
        """Return the folder."""
        return self._folder

    def path_of(self, key: str) -> Path:
        """Return where the object's file is, or will be."""
        return Path(self._folder, *key.split("/"))

    def hidden_folder(self) -> Path:
        """Return the folder of what is being written and of metadata, made if need be."""
        path = Path(self._folder, _HIDDEN)
        if not path.is_dir():
            make_folders(path, Path(self._folder).parent)
        return path

    def metadata_path(self, key: str, stat: os.stat_result) -> Path:
        """Return the metadata file of an object, named by its key, size and time.

        So it can be there before the object is, and outlives a copy that keeps times. Each writer
        gives its file a time of its own (``_stamp``), so racing writers do not share one.
        """
        digest = sha256(key.encode()).hexdigest()[:32]
        name = f"metadata-{digest}-{stat.st_size}-{stat.st_mtime_ns}.json"
        return Path(self._folder, _HIDDEN, name)

    def _stat(self, key: str) -> os.stat_result:
        with self._reading(key):
            path = self.path_of(key)
            if path.is_dir():
                raise IsADirectoryError
            return path.stat()

    def _walk(self, folder: str, prefix: str, after: bytes) -> Iterator[ObjectInfo]:
        for name, is_folder in self._rows(folder):
            key = folder + name
            if not key.startswith(prefix) and not (is_folder and prefix.startswith(key)):
                continue
            if is_folder:
                # All keys below lie past `after` or below it, unless `after` is in there.
                if key.encode() > after or after.startswith(key.encode()):
                    yield from self._walk(key, prefix, after)
            elif key.encode() > after:
                with suppress(FileNotFoundError):
                    stat = self.path_of(key).stat()
                    yield ObjectInfo(key, stat.st_size, _modified_ms(stat))

    def _rows(self, folder: str) -> Sequence[tuple[str, bool]]:
        try:
            with faults(folder or "the folder"), os.scandir(self._folder + "/" + folder) as rows:
                found = [(row.name, row.is_dir()) for row in rows]
        except (FileNotFoundError, NotADirectoryError):
            if not os.path.isdir(self._folder):
                raise NoSuchArchiveError(
                    f"there is no folder {self._folder}",
                    hint="Check the address; kafkeep backup makes the folder when it needs one.",
                ) from None
            return []
        # A folder sorts as its keys do: with the slash.
        named = [(name + "/" if is_dir else name, is_dir) for name, is_dir in found]
        return sorted(
            (row for row in named if folder or row[0] != _HIDDEN + "/"),
            key=lambda row: row[0].encode(errors="surrogateescape"),
        )

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            with faults(key):
                yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise KeyMissingError(f"there is no {key} in {self._folder}") from None


class LocalWriter:
    """An object of a LocalStore being written to a hidden file."""

    def __init__(self, store: LocalStore, key: str, metadata: dict[str, str]) -> None:
        self._store = store
        self._key = key
        self._metadata = metadata
        self._file: BinaryIO | None = None
        self._temporary: Path | None = None
        with faults(key):
            name = f"{_WRITING}{sha256(key.encode()).hexdigest()[:12]}-{uuid.uuid4().hex}"
            self._temporary = store.hidden_folder() / name
            self._file = self._temporary.open("xb")

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
        if self._file is None or self._temporary is None:
            raise ValueError(f"{self._key} is written already")
        sidecar: Path | None = None
        try:
            with faults(self._key):
                self._file.flush()
                _stamp(self._file.fileno())
                os.fsync(self._file.fileno())
                if joined or checked_tags:
                    path = self._store.metadata_path(self._key, os.fstat(self._file.fileno()))
                    save_sidecar(path, joined, checked_tags)
                    sidecar = path
                target = self._store.path_of(self._key)
                self._link(self._temporary, target)
                sidecar = None
                sync_folder(target.parent)
        finally:
            # Lost the name: what was written for it goes too.
            if sidecar is not None:
                sidecar.unlink(missing_ok=True)
            self.abort()

    def abort(self) -> None:
        """Forget what was written; safe at any time."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink()
            self._temporary = None

    def _link(self, source: Path, target: Path) -> None:
        try:
            make_folders(target.parent, Path(self._store.describe()).parent)
        except (FileExistsError, NotADirectoryError) as error:
            raise EnvironmentFault(
                f"{self._key}: an object has the name of its folder",
                hint="A folder on disk cannot hold both; use another prefix, or S3.",
            ) from error
        try:
            os.link(source, target)
        except FileExistsError:
            raise KeyExistsError(f"{self._key} is taken in {self._store.describe()}") from None
        except FileNotFoundError:
            raise EnvironmentFault(f"the upload of {self._key} was ended by somebody") from None


def _stamp(descriptor: int) -> None:
    """Give a file a time that no other file has: now, with chance below the millisecond."""
    now_ns = time.time_ns() // 1_000_000 * 1_000_000 + secrets.randbelow(1_000_000)
    os.utime(descriptor, ns=(now_ns, now_ns))


def _modified_ms(stat: os.stat_result) -> int:
    return stat.st_mtime_ns // 1_000_000
