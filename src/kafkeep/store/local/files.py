"""Open, sync and write files of a local store without following links.

Each directory is opened relative to its parent (``openat``), so a link that appears in the meantime
is not followed either. The root itself may be a link, because the user chose it.

``LocalWriter`` writes an object to a hidden file, and links it to its name when it is complete.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EDQUOT, ELOOP, ENAMETOOLONG, ENOSPC, ENOTDIR, ENXIO, EPERM, EROFS
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kafkeep.errors import AccessDeniedError, EnvironmentFault, KafkeepError, KeyExistsError
from kafkeep.store.keys import check_metadata, check_tags

if TYPE_CHECKING:
    from kafkeep.store.local.store import LocalStore


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _DIRECTORY | os.O_NOFOLLOW
# Without O_NONBLOCK, opening a FIFO waits for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "is a symbolic link, which kafkeep does not follow",
    stat.S_IFIFO: "is a FIFO, not a regular file",
    stat.S_IFSOCK: "is a socket, not a regular file",
    stat.S_IFCHR: "is a device, not a regular file",
    stat.S_IFBLK: "is a device, not a regular file",
}


class SpecialFileError(OSError):
    """A link, FIFO, socket or device in place of a regular file or a directory."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path
        self.reason = reason


@contextmanager
def open_directory(root: str, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Yield the descriptor of the directory ``parts`` below ``root``. Raise as ``os.open`` does.

    Raise SpecialFileError when a part is a link. With ``create``, create missing directories below
    the root, and sync their parents.
    """
    descriptor = os.open(root, _DIRECTORY)
    try:
        for number, part in enumerate(parts):
            below = open_below(descriptor, part, "/".join(parts[: number + 1]), create=create)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def open_below(parent: int, name: str, path: str, *, create: bool = False) -> int:
    """Return the descriptor of a directory in ``parent``. ``path`` is for error messages."""
    if name in ("", ".", ".."):
        raise FileNotFoundError(path)
    try:
        try:
            return os.open(name, _BELOW, dir_fd=parent)
        except FileNotFoundError:
            if not create:
                raise
        try:
            os.mkdir(name, dir_fd=parent)
            os.fsync(parent)
        except FileExistsError:
            pass  # another writer was faster
        return os.open(name, _BELOW, dir_fd=parent)
    except OSError as error:
        if error.errno in (ELOOP, ENOTDIR):
            _refuse_special(parent, name, path)
        raise


def open_file(directory: int, name: str) -> BinaryIO:
    """Open a regular file for reading. Raise SpecialFileError or IsADirectoryError otherwise."""
    if name in ("", ".", ".."):
        raise FileNotFoundError(name)
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except OSError as error:
        if error.errno in (ELOOP, ENXIO):  # a link, a socket
            _refuse_special(directory, name, name)
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    _refuse_special(directory, name, name)
    raise IsADirectoryError(name)


def create_file(directory: int, name: str, mode: int = 0o666) -> BinaryIO:
    """Open a new file for writing. Raise FileExistsError when the name is taken."""
    return os.fdopen(os.open(name, _CREATE, mode, dir_fd=directory), "wb")


def stat_file(directory: int, name: str) -> os.stat_result:
    """Stat a regular file. Raise SpecialFileError or IsADirectoryError otherwise."""
    if name in ("", ".", ".."):
        raise FileNotFoundError(name)
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        _refuse_special(directory, name, name)
        raise IsADirectoryError(name)
    return found


def _refuse_special(directory: int, name: str, path: str) -> None:
    if reason := why_special(directory, name):
        raise SpecialFileError(path, reason)


def why_special(directory: int, name: str) -> str | None:
    """Return the kind of a link or special file, or None for regular files and directories."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    return _KINDS.get(stat.S_IFMT(found.st_mode))


def remove_file(directory: int, name: str) -> None:
    """Remove a file. Do nothing when it does not exist."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError, SpecialFileError)
"""The errors for a name that is not a regular file."""
NAME_A_FOLDER = "Name a folder that is there or can be made, or an address like s3://bucket/prefix."
_TAGS = "#tags"
"""The key of the tags. It is not a valid metadata name, so it cannot collide with one."""
_LONGEST_SIDECAR = 1 << 20


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn OSErrors into KafkeepErrors, except those for missing and taken names."""
    try:
        yield
    except (*NOT_THERE, FileExistsError):
        raise
    except OSError as error:
        raise _translated(error, what) from error


def disk_fault(error: OSError) -> KafkeepError | None:
    """Return our error for a disk that takes no more bytes; None for other errors."""
    if error.errno not in (ENOSPC, EDQUOT, EROFS):
        return None
    return _translated(error, str(error.filename or "writing to disk"))


def _translated(error: OSError, what: str) -> KafkeepError:
    text = f"{what}: {error.strerror or error}"
    if error.errno in (EACCES, EPERM, EROFS):
        return AccessDeniedError(text, hint="Check who owns the folder, and how it is mounted.")
    if error.errno in (ENOSPC, EDQUOT):
        return EnvironmentFault(
            text, hint="Free some space on the disk, then run the same command again."
        )
    if error.errno == ENAMETOOLONG:
        return EnvironmentFault(
            text, hint="Use a store that accepts names of this length, such as S3."
        )
    # Not transient: after a failed fsync the system may have dropped the pages, and a second
    # one would report success for bytes that never reached the disk.
    return EnvironmentFault(text, hint="Check the disk and the system's log.")


def no_folder(path: str, error: OSError) -> str:
    """Return a sentence that says why a folder cannot be made."""
    there = Path(path)
    while not os.path.lexists(there):
        there = there.parent
    if str(there) == path or not there.is_dir():
        return f"cannot make folder {path}: {there} is not a folder"
    if isinstance(error, FileNotFoundError):
        return f"cannot make folder {path}: {there} takes no new folders"
    return f"cannot make folder {path}: {error.strerror}"


def make_folders(path: Path, stop: Path) -> None:
    """Make ``path`` and the missing folders above it, and sync their parents."""
    missing = []
    while path != stop and not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(parents=True, exist_ok=True)
        _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_sidecar(
    directory: int, name: str, metadata: dict[str, str], tags: dict[str, str], mode: int
) -> None:
    """Write and sync a new file with an object's metadata and tags."""
    document: dict[str, object] = {**metadata, _TAGS: tags} if tags else dict(metadata)
    with create_file(directory, name, mode) as file:
        file.write(json.dumps(document, sort_keys=True).encode())
        file.flush()
        os.fsync(file.fileno())
    os.fsync(directory)


def load_sidecar(directory: int, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return metadata and tags; both empty when the file is missing or damaged."""
    try:
        with open_file(directory, name) as file:
            document = json.loads(file.read(_LONGEST_SIDECAR))
    except (*NOT_THERE, ValueError, RecursionError):
        return {}, {}
    tags = document.pop(_TAGS, {}) if isinstance(document, dict) else {}
    return _texts(document), _texts(tags)


def _texts(found: object) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        return {}
    return found


WRITING = "writing-"
NO_LINKS = (
    "Move what it points to into the archive, or mount it there (mount --bind). "
    "Only the archive's own folder may be a link."
)


class LocalWriter:
    """Writes an object of a LocalStore to a hidden file."""

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
        """Make the object visible. Raise KeyExistsError if the key is taken."""
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
                    # The object was not created, so its metadata is removed too.
                    if sidecar is not None:
                        remove_file(hidden, sidecar)
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard the written bytes. Safe to call at any time."""
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
    """Return the name of an object's metadata file, made of the object's key, size and time.

    So the file can exist before the object, and stays valid in a copy that keeps times. Each
    writer gives its object a unique time (``_stamp``), so racing writers do not share a file.
    """
    digest = sha256(key.encode()).hexdigest()[:32]
    return f"metadata-{digest}-{stat.st_size}-{stat.st_mtime_ns}.json"


def _stamp(descriptor: int) -> None:
    """Set a unique modification time: now, with random digits below the millisecond."""
    now_ns = time.time_ns() // 1_000_000 * 1_000_000 + secrets.randbelow(1_000_000)
    os.utime(descriptor, ns=(now_ns, now_ns))
