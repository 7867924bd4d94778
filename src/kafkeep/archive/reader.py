"""The archive for readers: which logs there are, and what each says at a commit or a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from kafkeep.archive.chain import decode, read_commit
from kafkeep.archive.check import CheckedCommit, Finding, check_log, iter_commits
from kafkeep.archive.checkpoint import find_newest
from kafkeep.archive.head import Head, load_head, load_remaining
from kafkeep.archive.keys import LAST_NUMBER, ROOT, check_log_name, log_prefix
from kafkeep.archive.store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.errors import NoSuchArchiveError

__all__ = [
    "ArchiveView",
    "CheckedCommit",
    "Finding",
    "check_log",
    "iter_commits",
    "list_logs",
    "load_view",
    "load_views",
]


def list_logs(store: ObjectStore) -> list[str]:
    """Return the names of the archive's logs, sorted; one small listing for each.

    Also of those whose commits were removed, if a checkpoint proves that there were any.
    """
    return [name for name in store.folders(ROOT) if _is_log(store, name)]


def load_view(
    store: ObjectStore, name: str, *, commit: int | None = None, at_ms: int | None = None
) -> ArchiveView:
    """Load a log as it stands now, at a commit, or at a time (the last commit made by then).

    NoSuchArchiveError when there is no such log or commit; DamagedError when what is asked for may
    be in commits that were removed. Reads only.
    """
    head = load_remaining(store, name, LAST_NUMBER if commit is None else commit)
    if at_ms is None or at_ms >= head.state.at_ms:
        head.check_end()
    if head.state.commit < 0:
        raise NoSuchArchiveError(
            f"{store.describe()} has no log named {name!r}",
            hint="See which there are with: kafkeep info --archive …",
        )
    if commit is not None and head.state.commit != commit:
        raise NoSuchArchiveError(f"{name} has no commit {commit}: the last is {head.state.commit}")
    if at_ms is not None and head.state.at_ms > at_ms:
        head = load_head(store, name, _find_commit(store, head, at_ms))
    return ArchiveView(store, head)


def load_views(
    store: ObjectStore, names: Iterable[str], at_ms: int | None = None
) -> list[ArchiveView]:
    """Load several logs as they stand now, or stood at a time: without those that begin later.

    NoSuchArchiveError when all of them do.
    """
    found, later = [], None
    for name in names:
        try:
            found.append(load_view(store, name, at_ms=at_ms))
        except NoSuchArchiveError as error:
            later = error
    if later is not None and (not found or at_ms is None):
        raise later
    return found


def _find_commit(store: ObjectStore, head: Head, at_ms: int) -> int:
    """Return the last commit made at or before ``at_ms``: times in a log never move back."""
    name = head.state.name
    low, high = -1, head.state.commit
    while high - low > 1:
        middle = (low + high) // 2
        if decode(name, read_commit(store, name, middle)).at_ms <= at_ms:
            low = middle
        else:
            high = middle
    if low < 0:
        first = decode(name, read_commit(store, name, 0)).at_ms
        when = datetime.fromtimestamp(first / 1000, UTC).isoformat(timespec="milliseconds")
        raise NoSuchArchiveError(f"{name} begins later, at {when}")
    return low


def _is_log(store: ObjectStore, name: str) -> bool:
    try:
        check_log_name(name)
    except ValueError:
        return False
    if next(iter(store.list(log_prefix(name))), None) is not None:
        return True
    # A log whose commits were all removed is damaged, which is not the same as never begun.
    return find_newest(store, name).removed is not None
