"""Directories and files below a root, opened without following symbolic links.

Every step is taken from the directory before it (``openat``), so a link that somebody puts there
meanwhile is not followed either. The root itself may be a link: that is where the user points.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ELOOP, ENOTDIR, ENXIO
from typing import BinaryIO

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _DIRECTORY | os.O_NOFOLLOW
# Without O_NONBLOCK the opening of a FIFO waits for somebody who writes into it.
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
    """A link, FIFO, socket or device where a regular file or a directory is wanted."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path
        self.reason = reason


@contextmanager
def open_directory(root: str, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Give the descriptor of the directory ``parts`` below ``root``; raise as ``os.open`` does.

    SpecialFileError when a part is a link. With ``create`` directories below the root that are
    missing are made, each durable in its parent.
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
    """Return the descriptor of one directory below another; ``path`` is for what is raised."""
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
    """Open a regular file for reading; SpecialFileError or IsADirectoryError for others."""
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
    """Open a new file for writing; FileExistsError where anything has the name."""
    return os.fdopen(os.open(name, _CREATE, mode, dir_fd=directory), "wb")


def stat_file(directory: int, name: str) -> os.stat_result:
    """Return the state of a regular file; SpecialFileError or IsADirectoryError for others."""
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
    """Say what has the name when it is neither a regular file nor a directory; else None."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    return _KINDS.get(stat.S_IFMT(found.st_mode))


def remove_file(directory: int, name: str) -> None:
    """Remove a file; no error when there is none."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
