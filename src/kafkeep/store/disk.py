"""Files made durable, and the system's errors as ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EACCES, EDQUOT, ENAMETOOLONG, ENOSPC, EPERM, EROFS
from pathlib import Path

from kafkeep.errors import AccessDeniedError, EnvironmentFault, KafkeepError
from kafkeep.store.directory import SpecialFileError, create_file, open_file

NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError, SpecialFileError)
"""What the system raises when a name is not that of a regular file."""
NAME_A_FOLDER = "Name a folder that is there or can be made, or an address like s3://bucket/prefix."
_TAGS = "#tags"
"""No name of metadata: it has none of these characters."""
_LONGEST_SIDECAR = 1 << 20


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn the system's errors into ours; a missing file stays what it is."""
    try:
        yield
    except (*NOT_THERE, FileExistsError):
        raise
    except OSError as error:
        raise _translated(error, what) from error


def disk_fault(error: OSError) -> KafkeepError | None:
    """Return what to tell of a disk that takes no more bytes; None of any other error."""
    if error.errno not in (ENOSPC, EDQUOT, EROFS):
        return None
    return _translated(error, str(error.filename or "writing to disk"))


def _translated(error: OSError, what: str) -> KafkeepError:
    text = f"{what}: {error.strerror or error}"
    if error.errno in (EACCES, EPERM, EROFS):
        return AccessDeniedError(text, hint="Check who owns the folder, and how it is mounted.")
    if error.errno in (ENOSPC, EDQUOT):
        return EnvironmentFault(text, hint="Make room on the disk, then run the same again.")
    if error.errno == ENAMETOOLONG:
        return EnvironmentFault(text, hint="Use a store that takes names this long, such as S3.")
    # Not transient: after a failed fsync the system may have dropped the pages, and a second
    # one would report success for bytes that never reached the disk.
    return EnvironmentFault(text, hint="Check the disk and the system's log.")


def no_folder(path: str, error: OSError) -> str:
    """Say in one sentence why a folder cannot be made: what is in its way, or above it."""
    there = Path(path)
    while not os.path.lexists(there):
        there = there.parent
    if str(there) == path or not there.is_dir():
        return f"cannot make folder {path}: {there} is not a folder"
    if isinstance(error, FileNotFoundError):
        return f"cannot make folder {path}: {there} takes no new folders"
    return f"cannot make folder {path}: {error.strerror}"


def make_folders(path: Path, stop: Path) -> None:
    """Make ``path`` and what is missing above it, each durable in its parent."""
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
    """Write what is known of an object beside its bytes, durably; the file must be new."""
    document: dict[str, object] = {**metadata, _TAGS: tags} if tags else dict(metadata)
    with create_file(directory, name, mode) as file:
        file.write(json.dumps(document, sort_keys=True).encode())
        file.flush()
        os.fsync(file.fileno())
    os.fsync(directory)


def load_sidecar(directory: int, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return metadata and tags; none when there is no such file, or it is damaged."""
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
