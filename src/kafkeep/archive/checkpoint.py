"""Checkpoints, and how a log is loaded from the newest one and the commits after it.

A checkpoint is a root, which holds the state at one commit, and the entry tables up to it. So the
time to open a log does not grow with its length. A checkpoint only repeats the commits, so a
checkpoint that is lost, damaged or does not match its commit is skipped. But an intact root beyond
the end of the log proves that commits were removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kafkeep.archive.codec import (
    as_offset,
    as_time_ms,
    gap_to_json,
    generations_from_json,
    generations_to_json,
    groups_from_json,
    groups_to_json,
    intent_from_json,
    intent_to_json,
    partition_map_from_json,
    partition_map_to_json,
    retired_from_json,
    retired_to_json,
    spans_from_json,
    spans_to_json,
    topic_from_json,
    topic_to_json,
)
from kafkeep.archive.commit import Commit
from kafkeep.archive.document import (
    FIRST_VERSION,
    FORMAT_VERSION,
    MAX_DOCUMENT_BYTES,
    RepeatedReads,
    as_int,
    as_list,
    as_str,
    digest_of,
    dump_document,
    pack,
    reading,
    unpack,
)
from kafkeep.archive.entry_tables import (
    MAX_TABLE_MEMORY,
    TableInfo,
    TableRows,
    dump_rows,
    parse_table,
    plan_merge,
    read_table,
    table_from_json,
    table_to_json,
    write_table,
)
from kafkeep.archive.keys import (
    LAST_NUMBER,
    checkpoint_key,
    checkpoint_prefix,
    checkpoints_after,
    log_key,
    parse_checkpoint_key,
)
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import (
    apply_stored,
    commits_of,
    decode_stored,
    iter_stored_commits,
    lost_commits_error,
)
from kafkeep.archive.schemas import check_digest
from kafkeep.archive.state import LogState
from kafkeep.errors import DamagedError, KeyExistsError, KeyMissingError, TransientError
from kafkeep.failpoint import failpoint

DEFAULT_EVERY = 64


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state at a commit, and the tables that hold all entries and gaps up to it."""

    state: LogState
    tables: tuple[TableInfo, ...] = ()


def encode_root(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a root, which has a checksum of its own."""
    state = checkpoint.state
    document: dict[str, Any] = {
        "version": FORMAT_VERSION if state.retired else FIRST_VERSION,
        "log": state.name,
        "commit": state.commit,
        "digest": state.digest,
        "epoch": state.epoch,
        "writer": state.writer,
        "at_ms": state.at_ms,
        "positions": partition_map_to_json(state.positions),
        "topics": [topic_to_json(topic) for _, topic in sorted(state.topics.items())],
        "leader_epochs": partition_map_to_json(state.leader_epochs),
        "spans": spans_to_json(state.spans),
        "groups": groups_to_json(state.groups),
        "intent": intent_to_json(state.intent),
        "tables": [table_to_json(table) for table in checkpoint.tables],
    }
    if state.retired:
        document["retired"] = retired_to_json(state.retired)
        document["generations"] = generations_to_json(state.generations)
    if state.schemas:
        document["schemas"] = state.schemas
    return pack({**document, "checksum": digest_of(dump_document(document))})


def decode_root(body: bytes, key: str, *, log: str, commit: int) -> Checkpoint:
    """Parse a root; DamagedError when it is damaged or belongs under another key."""
    document = unpack(body, key)
    with reading(key):
        checksum = document.pop("checksum")
        if checksum != digest_of(dump_document(document)):
            raise ValueError("its checksum does not match")
        if (document["log"], document["commit"]) != (log, commit):
            raise ValueError("it belongs to another commit")
        tables = tuple(table_from_json(item, log) for item in as_list(document["tables"]))
        return Checkpoint(_state_from_json(document), tables)


class CheckpointFit(Enum):
    """How an intact checkpoint matches the log beside it."""

    USABLE = "usable"
    REMOVED = "removed"
    """The log no longer has its commit."""
    REPLACED = "replaced"
    """The log has a different commit under that number."""


def load_root(store: ObjectStore, name: str, commit: int) -> tuple[Checkpoint, CheckpointFit]:
    """Return a checkpoint and how it matches the log; DamagedError when it is not intact."""
    checkpoint = _read_root(store, name, commit)
    try:
        body = commits_of(store, name).read(commit)
    except KeyMissingError:
        return checkpoint, CheckpointFit.REMOVED
    same = digest_of(body) == checkpoint.state.digest
    return checkpoint, CheckpointFit.USABLE if same else CheckpointFit.REPLACED


@dataclass(frozen=True, slots=True)
class NewestCheckpoint:
    """Where reading a log begins, and the proof that it was once longer."""

    usable: Checkpoint
    removed: Checkpoint | None = None
    """The newest intact checkpoint whose commit is not in the log."""


def find_newest(store: ObjectStore, name: str, commit: int = LAST_NUMBER) -> NewestCheckpoint:
    """Find the newest usable checkpoint at or before ``commit``; an empty one if there is none.

    Unusable checkpoints are skipped: the commits hold the same state and take longer to read.
    """
    removed = None
    listed = store.list(checkpoint_prefix(name), after=checkpoints_after(name, commit))
    for found in listed:
        number = parse_checkpoint_key(found.key)
        if number is None or found.size_bytes > MAX_DOCUMENT_BYTES:
            continue
        try:
            checkpoint, fit = load_root(store, name, number)
        except (DamagedError, KeyMissingError):
            continue
        if fit is CheckpointFit.USABLE:
            return NewestCheckpoint(checkpoint, removed)
        if fit is CheckpointFit.REMOVED and removed is None:
            removed = checkpoint
    return NewestCheckpoint(Checkpoint(LogState(name=name)), removed)


def load_newest(store: ObjectStore, name: str, commit: int = LAST_NUMBER) -> Checkpoint:
    """Return the newest usable checkpoint at or before ``commit``, or an empty one."""
    return find_newest(store, name, commit).usable


def load_text(store: ObjectStore, name: str, table: TableInfo) -> bytes:
    """Return the text of a table; build it from the commits when the table is damaged."""
    try:
        return read_table(store, table)
    except DamagedError:
        stored = iter_stored_commits(store, name, table.first, table.last)
        rows = rows_of([decode_stored(name, item) for item in stored])
        return dump_rows(name, rows, table.first, table.last)


def load_rows(store: ObjectStore, name: str, table: TableInfo) -> TableRows:
    """Return the rows of a table; read them from the commits when the table is damaged."""
    return parse_table(load_text(store, name, table), name, table)


def rows_of(commits: Sequence[Commit]) -> TableRows:
    return TableRows(
        [entry.to_json() for commit in commits for entry in commit.changes.entries],
        [gap_to_json(gap) for commit in commits for gap in commit.changes.gaps],
    )


class Checkpointer:
    """Write a checkpoint every few commits, and merge tables as their number grows.

    It keeps the commits since the last checkpoint in memory.
    """

    def __init__(
        self, store: ObjectStore, base: Checkpoint, tail: Sequence[Commit], every: int
    ) -> None:
        self._store = store
        self._name = base.state.name
        self._tables = base.tables
        self._done = base.state.commit
        self._waiting = list(tail)
        self._every = every

    def parts(self, state: LogState) -> tuple[Checkpoint, tuple[Commit, ...]]:
        """Return the tables as of the last checkpoint, and the commits since, up to ``state``."""
        return Checkpoint(state, self._tables), tuple(self._waiting)

    def add(self, commit: Commit) -> None:
        self._waiting.append(commit)

    def write_if_due(self, state: LogState) -> bool:
        """Write a checkpoint if enough commits follow the last one; return whether it did."""
        return state.commit - self._done >= self._every and self.write(state)

    def write(self, state: LogState) -> bool:
        """Write a checkpoint at ``state`` now; return False after a transient failure of the store.

        A failure is harmless: the commits hold the same state, and the next commit tries again.
        """
        if state.commit == self._done:
            return False
        try:
            failpoint("checkpoint.before")
            tables = self._next_tables(state.commit)
            failpoint("checkpoint.tables")
            self._create_root(Checkpoint(state, tables))
            failpoint("checkpoint.after")
        except TransientError:
            return False
        self._tables, self._done = tables, state.commit
        self._waiting.clear()
        return True

    def _next_tables(self, last: int) -> tuple[TableInfo, ...]:
        tables = list(self._tables)
        parts = [part for part in _split(self._waiting) if rows_of(part)]
        for number, part in enumerate(parts, 1):
            first = tables[-1].last + 1 if tables else 0
            end = last if number == len(parts) else part[-1].number
            tables.append(self._write(rows_of(part), first, end, 0))
        while count := plan_merge(tables):
            tables[-count:] = [self._merge(tables[-count:])]
        return tuple(tables)

    def _merge(self, tables: Sequence[TableInfo]) -> TableInfo:
        rows = TableRows()
        for table in tables:
            rows += load_rows(self._store, self._name, table)
        return self._write(rows, tables[0].first, tables[-1].last, tables[0].level + 1)

    def _write(self, rows: TableRows, first: int, last: int, level: int) -> TableInfo:
        return write_table(self._store, self._name, rows, first=first, last=last, level=level)

    def _create_root(self, checkpoint: Checkpoint) -> None:
        key = checkpoint_key(self._name, checkpoint.state.commit)
        try:
            self._store.put_new(key, encode_root(checkpoint))
        except KeyExistsError:
            # Another writer stored the same checkpoint, or an answer was lost.
            return


def _split(commits: Sequence[Commit]) -> Iterator[list[Commit]]:
    """Split the commits into parts whose tables a reader accepts: almost always one part."""
    part, size = list[Commit](), 0
    for commit in commits:
        added = rows_of([commit]).memory_bytes()
        if part and size + added > MAX_TABLE_MEMORY:
            yield part
            part, size = [], 0
        part.append(commit)
        size += added
    if part:
        yield part


def _read_root(store: ObjectStore, name: str, commit: int) -> Checkpoint:
    key = checkpoint_key(name, commit)
    readings = RepeatedReads(key)
    while True:
        body = store.get(key)
        try:
            return decode_root(body, key, log=name, commit=commit)
        except DamagedError:
            # Read again: the network may damage bytes, and the root may be the only proof of loss.
            if readings.is_conclusive(body):
                raise


def _state_from_json(document: Mapping[str, Any]) -> LogState:
    topics = [topic_from_json(topic) for topic in as_list(document["topics"])]
    return LogState(
        name=as_str(document["log"]),
        commit=as_int(document["commit"]),
        digest=as_str(document["digest"]),
        epoch=as_int(document["epoch"]),
        writer=as_str(document["writer"]),
        at_ms=as_time_ms(document["at_ms"]),
        positions=partition_map_from_json(document["positions"], as_offset),
        topics={(topic.topic, topic.incarnation): topic for topic in topics},
        leader_epochs=partition_map_from_json(document.get("leader_epochs", {}), as_int),
        spans=spans_from_json(document["spans"]),
        groups=groups_from_json(document["groups"]),
        schemas=check_digest(as_str(document.get("schemas", ""))),
        intent=intent_from_json(document["intent"]),
        retired=retired_from_json(document.get("retired", {})),
        generations=generations_from_json(document.get("generations", {})),
    )


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """A log as it was read, up to one of its commits."""

    state: LogState
    base: Checkpoint
    tail: tuple[Commit, ...]
    """The commits after ``base``."""
    removed: Checkpoint | None = None
    """An intact checkpoint beyond the end of the log: the commits up to it were removed."""

    def check_end(self) -> None:
        """Raise DamagedError when commits were removed from the end of the log."""
        if self.removed is not None:
            raise lost_commits_error(self.state, self.removed.state)


def load_log(store: ObjectStore, name: str, commit: int = LAST_NUMBER) -> LoadedLog:
    """Load a log up to ``commit``, or to its end when it is shorter.

    ``state.commit`` is -1 when there is no log. DamagedError when a commit is damaged, does not
    continue the one before, or is missing before a later commit or an intact checkpoint.
    """
    log = load_remaining(store, name, commit)
    log.check_end()
    return log


def load_remaining(store: ObjectStore, name: str, commit: int = LAST_NUMBER) -> LoadedLog:
    """Load a log as ``load_log`` does; report commits removed from its end in ``removed``."""
    newest = find_newest(store, name, commit)
    state, tail = newest.usable.state, []
    for stored in iter_stored_commits(store, name, state.commit + 1, commit):
        state, step = apply_stored(state, stored)
        tail.append(step)
    removed = newest.removed
    if removed is None and state.commit < commit < LAST_NUMBER:
        removed = find_newest(store, name).removed  # checkpoints after ``commit`` count too
    if removed is not None and not _is_removed(store, state, removed.state):
        removed = None
    return LoadedLog(state, newest.usable, tuple(tail), removed)


def _is_removed(store: ObjectStore, state: LogState, removed: LogState) -> bool:
    """Return whether a commit that has a checkpoint is missing; check the store once more."""
    if removed.commit <= state.commit:
        return False
    try:
        store.head(log_key(removed.name, removed.commit))
    except KeyMissingError:
        return True
    return False
