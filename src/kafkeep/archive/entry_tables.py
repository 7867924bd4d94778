"""Entry tables: the entries and gaps of a range of commits in one immutable object.

A table repeats the content of its commits, so that a reader of a long log need not read them all. A
lost or damaged table is rebuilt from its commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.document import (
    FIRST_VERSION,
    MAX_PARSED_BYTES,
    as_int,
    as_list,
    as_str,
    digest_of,
    dump_document,
    pack_plain,
    parse_document,
    parsed_bytes,
    read_intact,
    reading,
    unpack_plain,
)
from kafkeep.archive.keys import table_key
from kafkeep.archive.names import parse_folder
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.topic_bloom_filter import TopicBloomFilter
from kafkeep.errors import DamagedError, KeyExistsError, KeyMissingError, TransientError

FAN_IN = 8
"""This many tables of one level are merged into one table of the next level."""
MAX_TABLE_BYTES = 16 * 1024 * 1024
"""Tables are not merged beyond this size before compression, to bound the work of a merge."""
MAX_TABLE_MEMORY = MAX_PARSED_BYTES // 2
"""The memory that a table of many commits may take in a reader, far below the reader's limit."""
MAX_NAMED_TOPICS = 64
_ATTEMPTS = 16
_ENTRIES, _ENTRY, _TOPIC, _AFTER_ENTRIES = b'{"entries":[', b'{"', b'"topic":"', b'],"first":'


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """One table, as a checkpoint's root describes it."""

    key: str
    sha256: str
    level: int
    first: int
    """The first of its commits; ``last`` is included."""
    last: int
    entries: int
    gaps: int
    raw_bytes: int
    """Size before compression."""
    folders: tuple[str, ...]
    """Folders of its topics; empty when there are too many to list."""
    topic_filter: TopicBloomFilter | None = None
    """Its topics when there are too many to list; None in tables of an older kafkeep."""

    def may_hold(self, topics: Collection[str] | None) -> bool:
        """Return False if it certainly holds no entry of these topics; None means any topic."""
        if topics is None or not self.entries:
            return self.entries > 0
        if self.folders:
            return any(parse_folder(folder)[0] in topics for folder in self.folders)
        return self.topic_filter is None or any(map(self.topic_filter.may_hold, topics))


@dataclass(frozen=True, slots=True)
class TableRows:
    """Entries and gaps as JSON documents. Merging does not parse them further."""

    entries: Sequence[Mapping[str, Any]] = ()
    gaps: Sequence[Mapping[str, Any]] = ()

    def __bool__(self) -> bool:
        return bool(self.entries or self.gaps)

    def __add__(self, other: TableRows) -> TableRows:
        return TableRows([*self.entries, *other.entries], [*self.gaps, *other.gaps])

    def memory_bytes(self) -> int:
        """Estimate the memory that a table of these rows takes when it is read."""
        return parsed_bytes(dump_document({"entries": self.entries, "gaps": self.gaps}))


def sorted_rows(rows: TableRows) -> TableRows:
    """Return the rows in the order of a table: by topic, incarnation, partition, start."""
    return TableRows(sorted(rows.entries, key=_place), sorted(rows.gaps, key=_place))


def write_table(
    store: ObjectStore, name: str, rows: TableRows, *, first: int, last: int, level: int
) -> TableInfo:
    """Store the rows of commits ``first..last``, sorted by partition and offset.

    A key that holds other bytes (damaged, or compressed by another version) is left alone, and
    the next name is tried.
    """
    plain = dump_rows(name, rows, first, last)
    body = pack_plain(plain)
    topics = {(row["topic"], row["incarnation"]) for row in (*rows.entries, *rows.gaps)}
    is_listed = len(topics) <= MAX_NAMED_TOPICS
    return TableInfo(
        key=_store_once(store, name, first, last, body),
        sha256=digest_of(body),
        level=level,
        first=first,
        last=last,
        entries=len(rows.entries),
        gaps=len(rows.gaps),
        raw_bytes=len(plain),
        folders=_folders(topics) if is_listed else (),
        topic_filter=None if is_listed else TopicBloomFilter.of({topic for topic, _ in topics}),
    )


def dump_rows(name: str, rows: TableRows, first: int, last: int) -> bytes:
    """Return the JSON text of a table."""
    rows = sorted_rows(rows)
    return dump_document(
        {
            "version": FIRST_VERSION,
            "log": name,
            "first": first,
            "last": last,
            "entries": rows.entries,
            "gaps": rows.gaps,
        }
    )


def read_table(store: ObjectStore, table: TableInfo) -> bytes:
    """Return a table's JSON text; DamagedError if it is missing or does not match the root."""
    try:
        body = read_intact(store, table.key, lambda body: digest_of(body) == table.sha256)
    except KeyMissingError as error:
        raise DamagedError(f"{table.key} is missing") from error
    if digest_of(body) != table.sha256:
        raise DamagedError(f"{table.key} is damaged: its digest does not match the checkpoint")
    return unpack_plain(body, table.key)


def parse_table(plain: bytes, name: str, table: TableInfo, topic: str | None = None) -> TableRows:
    """Return the rows of a table, or all its gaps and the entries of one topic."""
    with reading(table.key):
        document = parse_document(plain if topic is None else cut_entries(plain, topic), table.key)
        if (document["log"], document["first"], document["last"]) != (
            name,
            table.first,
            table.last,
        ):
            raise ValueError("it is a table of other commits")
        return TableRows(as_list(document["entries"]), as_list(document["gaps"]))


def load_table(store: ObjectStore, name: str, table: TableInfo) -> TableRows:
    """Return the rows of a table; DamagedError as in ``read_table``."""
    return parse_table(read_table(store, table), name, table)


def cut_entries(plain: bytes, topic: str) -> bytes:
    """Leave out the entries of other topics in the JSON text of a table, without parsing it.

    Entries are sorted by topic, and no entry has an object inside. A quote inside a string is
    escaped, so these patterns are found between strings only.
    """
    end = plain.rfind(_AFTER_ENTRIES)
    if not plain.startswith(_ENTRIES + _ENTRY) or end < 0:
        return plain

    def first_from(wanted: bytes) -> int:
        """Return where the first entry begins whose topic is at or after ``wanted``."""
        low, high = len(_ENTRIES), end
        while low < high:
            middle = (low + high) // 2
            begins = plain.find(_ENTRY, middle, end)
            if begins < 0 or _topic_at(plain, begins) >= wanted:
                high = middle
            else:
                low = begins + 1
        begins = plain.find(_ENTRY, low, end)
        return end if begins < 0 else begins

    name = topic.encode()
    kept = plain[first_from(name) : first_from(name + b"\0")]
    return _ENTRIES + kept.rstrip(b",") + plain[end:]


def _topic_at(plain: bytes, begins: int) -> bytes:
    start = plain.index(_TOPIC, begins) + len(_TOPIC)
    return plain[start : plain.index(b'"', start)]


def plan_merge(tables: Sequence[TableInfo]) -> int:
    """Return how many of the last tables to merge into one; 0 when a merge is not due."""
    last = tables[-FAN_IN:]
    if len(last) < FAN_IN or any(table.level != last[-1].level for table in last):
        return 0
    return FAN_IN if sum(table.raw_bytes for table in last) <= MAX_TABLE_BYTES else 0


def table_to_json(table: TableInfo) -> dict[str, Any]:
    """Return the form in a checkpoint's root."""
    document = {
        "key": table.key,
        "sha256": table.sha256,
        "level": table.level,
        "first": table.first,
        "last": table.last,
        "entries": table.entries,
        "gaps": table.gaps,
        "raw_bytes": table.raw_bytes,
        "folders": list(table.folders),
    }
    if table.topic_filter is not None:
        document["topic_filter"] = table.topic_filter.to_json()
    return document


def table_from_json(document: Mapping[str, Any], name: str) -> TableInfo:
    """Parse the description of a table; KeyError, TypeError or ValueError when it is none."""
    topics = document.get("topic_filter")
    table = TableInfo(
        key=as_str(document["key"]),
        sha256=as_str(document["sha256"]),
        level=as_int(document["level"]),
        first=as_int(document["first"]),
        last=as_int(document["last"]),
        entries=as_int(document["entries"]),
        gaps=as_int(document["gaps"]),
        raw_bytes=as_int(document["raw_bytes"]),
        folders=tuple(map(as_str, as_list(document["folders"]))),
        topic_filter=None if topics is None else TopicBloomFilter.from_json(as_str(topics)),
    )
    if table.key not in {
        table_key(name, table.first, table.last, attempt) for attempt in range(_ATTEMPTS)
    }:
        raise ValueError(f"not a table of this log: {table.key!r}")
    for folder in table.folders:
        parse_folder(folder)
    return table


def _store_once(store: ObjectStore, name: str, first: int, last: int, body: bytes) -> str:
    for attempt in range(_ATTEMPTS):
        key = table_key(name, first, last, attempt)
        try:
            store.put_new(key, body)
        except KeyExistsError:
            if not _holds(store, key, body):
                continue
        return key
    raise TransientError(f"no free name for the table of commits {first}..{last}")


def _holds(store: ObjectStore, key: str, body: bytes) -> bool:
    try:
        return store.get(key) == body
    except KeyMissingError as error:
        # "Exists" and then "not found": the outcome is unknown, so the checkpoint is postponed.
        raise TransientError(f"{key} exists for a create but not for a read") from error


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["topic"], row["incarnation"], row["partition"], row["start"])


def _folders(topics: Collection[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(sorted(t if i == 1 else f"{t}~{i}" for t, i in topics))
