"""Paths that options name: what can be one, and the text of the file there."""

from __future__ import annotations

import os
from pathlib import Path

from kafkeep.errors import UsageError


def check_path(path: str | Path) -> Path:
    """Return a path; UsageError where no file can be called so: a NUL, half of a character."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise UsageError(f"{str(path)!r} is not a path")
    return Path(path)


def load_text(path: str | Path) -> str:
    """Return the text of a file; UsageError says why it cannot be read, and names it."""
    try:
        return check_path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error
