"""Files made durable, and the system's errors as ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EACCES, EDQUOT, ENAMETOOLONG, ENOSPC, EPERM, EROFS
from pathlib import Path

from kafkeep.errors import AccessDeniedError, EnvironmentFault, KafkeepError

_TAGS = "#tags"
"""No name of metadata: it has none of these characters."""


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn the system's errors into ours; a missing file stays what it is."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError):
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


def make_folders(path: Path, stop: Path) -> None:
    """Make ``path`` and what is missing above it, each durable in its parent."""
    missing = []
    while path != stop and not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_sidecar(path: Path, metadata: dict[str, str], tags: dict[str, str]) -> None:
    """Write what is known of an object beside its bytes, durably; the file must be new."""
    document: dict[str, object] = {**metadata, _TAGS: tags} if tags else dict(metadata)
    with path.open("xb") as file:
        file.write(json.dumps(document, sort_keys=True).encode())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def load_sidecar(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return metadata and tags; none when there is no such file."""
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}, {}
    tags: dict[str, str] = document.pop(_TAGS, {})
    return document, tags
