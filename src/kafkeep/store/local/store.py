"""An object store in a local folder. Each object is a file, created whole or not at all."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kafkeep import clock
from kafkeep.archive.names import MAX_KEY_BYTES, KeyLimits
from kafkeep.archive.object_store import ObjectInfo, StrayFile, Upload
from kafkeep.errors import EnvironmentFault, KeyMissingError, NoSuchArchiveError
from kafkeep.store.keys import check_key, check_metadata, check_tags
from kafkeep.store.local.files import (
    NAME_A_FOLDER,
    NO_LINKS,
    NOT_THERE,
    WRITING,
    LocalWriter,
    SpecialFileError,
    faults,
    load_sidecar,
    make_folders,
    no_folder,
    open_below,
    open_directory,
    open_file,
    remove_file,
    save_sidecar,
    sidecar_name,
    stat_file,
    why_special,
)

_HIDDEN = ".kafkeep-local"
_TAGGING = "tagging-"
_TEMPORARY = re.compile(f"({WRITING}|{_TAGGING})[0-9a-f-]+")


class LocalStore:
    """An ObjectStore in a folder: the key of an object is the path of its file.

    A file is written under a temporary name, synced to disk, and then linked to its name. It
    therefore appears whole or not at all, and never replaces another file. Metadata is stored in
    ``.kafkeep-local/`` and synced before the object appears. A crash leaves at most a temporary
    file there, which no listing shows.

    Only regular files are objects. Readers and writers follow no symbolic link below the folder.
    Otherwise anyone with write access to an archive could make a reader open arbitrary files.
    """

    key_limits = KeyLimits(folder_bytes=255)
    file_mode = 0o666
    """The mode of new files, before the process's umask."""

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
        """Begin an object. Its bytes go to a hidden file."""
        return LocalWriter(self, check_key(key), check_metadata(metadata))

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""
        with self._reading(key), self._open(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``, or fewer if the object ends earlier."""
        with self._reading(key), self._open(key) as file:
            file.seek(start)
            return file.read(max(0, end - start))

    def head(self, key: str) -> ObjectInfo:
        """Return size, time and metadata, or raise KeyMissingError."""
        stat = self._stat(key)
        metadata, _tags = self._sidecar(key, stat)
        return ObjectInfo(key, stat.st_size, _modified_ms(stat), metadata)

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags."""
        return self._sidecar(key, self._stat(key))[1]

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Replace an object's tags."""
        checked, stat = check_tags(tags), self._stat(key)
        metadata, _old = self._sidecar(key, stat)
        with faults(key), self.hidden_folder() as hidden:
            temporary = f"{_TAGGING}{uuid.uuid4().hex}"
            save_sidecar(hidden, temporary, metadata, checked, self.file_mode)
            os.replace(temporary, sidecar_name(key, stat), src_dir_fd=hidden, dst_dir_fd=hidden)
            os.fsync(hidden)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order, reading one folder at a time."""
        for found in self._walk(prefix, after.encode()):
            if isinstance(found, ObjectInfo):
                yield found
            else:
                self._refuse_linked_folder(prefix, found.path)

    def strays(self, prefix: str) -> Iterator[StrayFile]:
        """Yield links, FIFOs, sockets, devices, and names that cannot be keys."""
        for found in self._walk(prefix, b""):
            if isinstance(found, StrayFile):
                yield found

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the folders one level down that are not empty."""
        with self._listing(prefix) as folder:
            rows = [] if folder is None else _rows(folder)
        for name, kind in rows:
            if not kind and _is_key(prefix + name):
                self._refuse_linked_folder(prefix, prefix + name)
        names = [name for name, kind in rows if kind == "d"]
        keys = [name for name in names if prefix + name != _HIDDEN and _is_key(prefix + name)]
        return sorted(name for name in keys if next(self.list(f"{prefix}{name}/"), None))

    def delete(self, key: str) -> None:
        """Remove an object. Do nothing when it does not exist."""
        *above, name = check_key(key).split("/")
        with (
            faults(key),
            suppress(*NOT_THERE),
            open_directory(self._folder, above) as folder,
        ):
            stat = stat_file(folder, name)
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
            with open_directory(self._folder, [_HIDDEN]) as hidden:
                remove_file(hidden, sidecar_name(key, stat))

    def uploads(self) -> Sequence[Upload]:
        """Return the temporary files."""
        found = []
        with (
            faults(_HIDDEN),
            suppress(*NOT_THERE),
            open_directory(self._folder, [_HIDDEN]) as hidden,
        ):
            for name, kind in _rows(hidden):
                if kind == "f" and _TEMPORARY.fullmatch(name):
                    with suppress(*NOT_THERE):
                        stat = stat_file(hidden, name)
                        found.append(Upload(name, "", _modified_ms(stat)))
        return found

    def end_upload(self, upload: Upload) -> None:
        """Remove a temporary file. Do nothing when it does not exist."""
        with (
            faults(upload.id),
            suppress(*NOT_THERE),
            open_directory(self._folder, [_HIDDEN]) as hidden,
        ):
            remove_file(hidden, upload.id)

    def now_ms(self) -> int:
        """Return the time of this machine, which also sets modification times."""
        return clock.now_ms()

    def describe(self) -> str:
        """Return the folder for messages."""
        return _escaped(self._folder)

    @contextmanager
    def hidden_folder(self) -> Iterator[int]:
        """Open the folder of temporary files and metadata, and create it if necessary."""
        with self._writing(_HIDDEN), open_directory(self._folder, [_HIDDEN], create=True) as hidden:
            yield hidden

    @contextmanager
    def folder_to_write(self, key: str) -> Iterator[tuple[int, str]]:
        """Open or create the folder of a new object. Yield its descriptor and the file's name."""
        *above, name = key.split("/")
        with self._writing(key), open_directory(self._folder, above, create=True) as folder:
            yield folder, name

    @contextmanager
    def _writing(self, key: str) -> Iterator[None]:
        root = Path(self._folder)
        if not root.is_dir():
            _make_root(root)
        try:
            yield
        except SpecialFileError as error:
            raise _link_fault(error) from error
        except NotADirectoryError as error:
            raise EnvironmentFault(
                f"{key}: an object has the name of its folder",
                hint="A folder on disk cannot hold both; use another prefix, or S3.",
            ) from error

    @contextmanager
    def _folder_of(self, key: str) -> Iterator[tuple[int, str]]:
        """Open the folder of an object for reading. Refuse a link in the path.

        The object does not count as missing then, because it may exist behind the link.
        """
        *above, name = key.split("/")
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(open_directory(self._folder, above))
            except SpecialFileError as error:
                raise _link_fault(error) from error
            yield folder, name

    def _open(self, key: str) -> BinaryIO:
        with self._folder_of(key) as (folder, name):
            return open_file(folder, name)

    def _stat(self, key: str) -> os.stat_result:
        with self._reading(key), self._folder_of(key) as (folder, name):
            return stat_file(folder, name)

    def _sidecar(self, key: str, stat: os.stat_result) -> tuple[dict[str, str], dict[str, str]]:
        with (
            faults(key),
            suppress(*NOT_THERE),
            open_directory(self._folder, [_HIDDEN]) as hidden,
        ):
            return load_sidecar(hidden, sidecar_name(key, stat))
        return {}, {}

    def _walk(self, prefix: str, after: bytes) -> Iterator[ObjectInfo | StrayFile]:
        parent, slash, _ = prefix.rpartition("/")
        with self._listing(parent + slash) as folder:
            if folder is not None:
                yield from self._walk_folder(folder, parent + slash, prefix, after)

    def _walk_folder(
        self, folder: int, path: str, prefix: str, after: bytes
    ) -> Iterator[ObjectInfo | StrayFile]:
        """Yield the contents of a folder, recursively. ``path`` is empty or ends with a slash."""
        for name, kind in _sorted_rows(folder):
            key = path + name
            raw = os.fsencode(key) + (b"/" if kind == "d" else b"")
            if not raw.startswith(prefix.encode()) or key == _HIDDEN:
                continue
            if not _is_key(key):
                yield StrayFile(
                    _escaped(key), "has a name that is not UTF-8, or too long for a key"
                )
            elif kind == "d":
                # Skip the folder if all of its keys sort before `after`.
                if raw > after or after.startswith(raw):
                    with faults(key), suppress(*NOT_THERE):
                        below = open_below(folder, name, key)
                        try:
                            yield from self._walk_folder(below, key + "/", prefix, after)
                        finally:
                            os.close(below)
            elif kind != "f":
                yield StrayFile(key, why_special(folder, name) or "is not a regular file")
            elif raw > after:
                with suppress(*NOT_THERE):
                    stat = stat_file(folder, name)
                    yield ObjectInfo(key, stat.st_size, _modified_ms(stat))

    def _refuse_linked_folder(self, prefix: str, path: str) -> None:
        """Refuse a broken link, or a link to a folder, in place of a topic or log folder.

        If the listing skipped it, all of its objects would seem lost. The top folder may hold
        other links.
        """
        folder, _, name = path.rpartition("/")
        whole = os.path.join(self._folder, path)
        if not folder or folder != prefix.rpartition("/")[0] or os.path.isfile(whole):
            return
        with suppress(*NOT_THERE), open_directory(self._folder, folder.split("/")) as parent:
            if os.path.islink(whole) and (reason := why_special(parent, name)):
                raise _link_fault(SpecialFileError(path, reason))

    @contextmanager
    def _listing(self, path: str) -> Iterator[int | None]:
        """Open a folder to list it; yield None if it does not exist. Refuse a link in the path."""
        parts = path.rstrip("/").split("/") if path else []
        opened = open_directory(self._folder, parts)
        try:
            with faults(path or "the folder"):
                folder = opened.__enter__()
        except SpecialFileError as error:
            raise _link_fault(error) from error
        except (FileNotFoundError, NotADirectoryError):
            if not os.path.isdir(self._folder):
                raise NoSuchArchiveError(
                    f"there is no folder {self.describe()}",
                    hint="Check the address; kafkeep backup makes the folder when it needs one.",
                ) from None
            yield None
            return
        try:
            yield folder
        finally:
            opened.__exit__(None, None, None)

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            with faults(key):
                yield
        except (*NOT_THERE, UnicodeError) as error:
            why = f": {error.path} {error.reason}" if isinstance(error, SpecialFileError) else ""
            raise KeyMissingError(f"there is no {key} in {self.describe()}{why}") from None


def _make_root(root: Path) -> None:
    try:
        make_folders(root, root.parent)
    except (FileNotFoundError, FileExistsError, NotADirectoryError) as error:
        raise EnvironmentFault(no_folder(str(root), error), hint=NAME_A_FOLDER) from error


def _rows(folder: int) -> list[tuple[str, str]]:
    """Return the names in a folder, each with ``d`` (folder), ``f`` (regular file) or nothing."""
    with faults("the folder"), os.scandir(folder) as rows:
        return [(row.name, _kind(row)) for row in rows]


def _sorted_rows(folder: int) -> list[tuple[str, str]]:
    # A folder sorts with a trailing slash, as its keys do.
    return sorted(_rows(folder), key=lambda row: os.fsencode(row[0] + "/" * (row[1] == "d")))


def _kind(row: os.DirEntry[str]) -> str:
    if row.is_dir(follow_symlinks=False):
        return "d"
    return "f" if row.is_file(follow_symlinks=False) else ""


def _is_key(path: str) -> bool:
    """Return whether a path can be a key: UTF-8, and not too long."""
    try:
        return len(path.encode()) <= MAX_KEY_BYTES
    except UnicodeEncodeError:
        return False


def _escaped(path: str) -> str:
    r"""Return a path for messages, with bytes that are not UTF-8 escaped as ``\xe9``."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _link_fault(error: SpecialFileError) -> EnvironmentFault:
    return EnvironmentFault(f"{error.path} {error.reason}", hint=NO_LINKS)


def _modified_ms(stat: os.stat_result) -> int:
    return stat.st_mtime_ns // 1_000_000
