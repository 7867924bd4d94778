"""Check a log commit by commit; problems are returned as values, not raised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkeep.archive.checkpoint import Checkpoint, CheckpointFit, load_root, rows_of
from kafkeep.archive.commit import Commit
from kafkeep.archive.document import digest_of
from kafkeep.archive.entry_tables import TableInfo, TableRows, load_table, sorted_rows
from kafkeep.archive.keys import (
    checkpoint_key,
    checkpoint_prefix,
    parse_checkpoint_key,
    schemas_key,
)
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import (
    StoredCommit,
    apply_stored,
    commits_of,
    format_lost,
    lost_offsets,
)
from kafkeep.archive.schemas import load_schemas
from kafkeep.archive.state import LogState
from kafkeep.errors import DamagedError, KeyMissingError


@dataclass(frozen=True, slots=True)
class LogFinding:
    """One problem of a log."""

    key: str
    problem: str
    fatal: bool
    """False for checkpoints and tables, which are rebuilt from the commits."""
    shows_loss: bool = False
    """True for an intact checkpoint whose commits are no longer in the log."""


@dataclass(frozen=True, slots=True)
class CheckedCommit:
    """One commit, its digest and its problem, if any."""

    number: int
    key: str
    digest: str
    size_bytes: int
    commit: Commit | None
    state: LogState | None
    """The state after it; None once the chain is broken."""
    finding: LogFinding | None = None


def iter_commits(store: ObjectStore, name: str) -> Iterator[CheckedCommit]:
    """Yield every commit in order and check the chain; stop after the first broken link.

    Commits after a missing or damaged one cannot be trusted, so they are not read.
    """
    state = LogState(name=name)
    for number in commits_of(store, name).iter_numbers():
        while state.commit + 1 <= number:
            found = _check_next(store, state)
            yield found
            if found.state is None:
                return
            state = found.state


def check_log(store: ObjectStore, name: str) -> list[LogFinding]:
    """Return the problems of a log and its checkpoints.

    Reads every commit and every table of the newest checkpoint.
    """
    findings: list[LogFinding] = []
    checkpoints, removed = _load_checkpoints(store, name, findings)
    commits: list[Commit] = []
    state = LogState(name=name)
    for checked in iter_commits(store, name):
        if checked.finding is not None:
            findings.append(checked.finding)
        if checked.commit is not None and checked.state is not None:
            commits.append(checked.commit)
            state = checked.state
            findings.extend(_check_state(checkpoints, checked.state))
    findings.extend(_removed(state, checkpoint) for checkpoint in removed)
    findings.extend(_check_schemas(store, name, commits))
    if checkpoints:
        newest = checkpoints[max(checkpoints)]
        findings.extend(_check_tables(store, newest, commits))
    return findings


def _check_schemas(
    store: ObjectStore, name: str, commits: Sequence[Commit]
) -> Iterator[LogFinding]:
    """Check every document of schemas that a commit names, each once."""
    for digest in dict.fromkeys(commit.changes.schemas for commit in commits):
        try:
            if digest:
                load_schemas(store, name, digest)
        except DamagedError as error:
            key = schemas_key(name, digest)
            yield LogFinding(key, _without(key, error.message), True)


def _without(key: str, message: str) -> str:
    """Return a message without its leading key, because a finding has a field for the key."""
    for prefix in (f"{key} is damaged: ", f"{key} is ", f"{key}: "):
        message = message.removeprefix(prefix)
    return message


def _check_next(store: ObjectStore, state: LogState) -> CheckedCommit:
    number = state.commit + 1
    commits = commits_of(store, state.name)
    key = commits.key(number)
    try:
        body = commits.read(number)
    except KeyMissingError:
        finding = LogFinding(key, "missing, but later commits exist", True)
        return CheckedCommit(number, key, "", 0, None, None, finding)
    except DamagedError as error:
        finding = LogFinding(key, _without(key, error.message), True)
        return CheckedCommit(number, key, "", 0, None, None, finding)
    digest = digest_of(body)
    try:
        after, commit = apply_stored(state, StoredCommit(number, key, body))
    except DamagedError as error:
        finding = LogFinding(key, _without(key, error.message), True)
        return CheckedCommit(number, key, digest, len(body), None, None, finding)
    return CheckedCommit(number, key, digest, len(body), commit, after)


def _load_checkpoints(
    store: ObjectStore, name: str, findings: list[LogFinding]
) -> tuple[dict[int, Checkpoint], list[Checkpoint]]:
    """Return the usable checkpoints, and those whose commits are not in the log."""
    found: dict[int, Checkpoint] = {}
    removed: list[Checkpoint] = []
    for listed in store.list(checkpoint_prefix(name)):
        number = parse_checkpoint_key(listed.key)
        if number is None:
            findings.append(LogFinding(listed.key, "not a checkpoint", False))
            continue
        try:
            checkpoint, fit = load_root(store, name, number)
        except DamagedError as error:
            findings.append(LogFinding(listed.key, _without(listed.key, error.message), False))
            continue
        if fit is CheckpointFit.USABLE:
            found[number] = checkpoint
        elif fit is CheckpointFit.REMOVED:
            removed.append(checkpoint)
        else:
            text = f"does not match commit {number} of the log: commits were replaced"
            findings.append(LogFinding(listed.key, text, False, shows_loss=True))
    return found, removed


def _removed(state: LogState, checkpoint: Checkpoint) -> LogFinding:
    gone = checkpoint.state
    lost = format_lost(lost_offsets(state.positions, gone.positions))
    text = f"belongs to commit {gone.commit}, which was removed from the log; {lost}"
    return LogFinding(checkpoint_key(gone.name, gone.commit), text, True)


def _check_state(checkpoints: dict[int, Checkpoint], state: LogState) -> Iterator[LogFinding]:
    checkpoint = checkpoints.get(state.commit)
    if checkpoint is not None and checkpoint.state != state:
        key = checkpoint_key(state.name, state.commit)
        yield LogFinding(key, "does not match the log", False)


def _check_tables(
    store: ObjectStore, checkpoint: Checkpoint, commits: Sequence[Commit]
) -> Iterator[LogFinding]:
    expected = 0
    for table in checkpoint.tables:
        if table.first != expected:
            yield LogFinding(table.key, f"begins at commit {table.first}, not {expected}", False)
        expected = table.last + 1
        yield from _check_table(store, checkpoint.state.name, table, commits)
    missed = rows_of(commits[expected : checkpoint.state.commit + 1])
    if missed:
        key = checkpoint_key(checkpoint.state.name, checkpoint.state.commit)
        yield LogFinding(key, f"has no table for commits from {expected} on", False)


def _check_table(
    store: ObjectStore, name: str, table: TableInfo, commits: Sequence[Commit]
) -> Iterator[LogFinding]:
    try:
        rows: TableRows = load_table(store, name, table)
    except DamagedError as error:
        yield LogFinding(table.key, error.message, False)
        return
    if rows != sorted_rows(rows_of(commits[table.first : table.last + 1])):
        yield LogFinding(table.key, "does not match the log", False)
