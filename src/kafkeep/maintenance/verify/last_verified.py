"""Traces of successful verifications, beside the log: when it was verified, and up to which commit.

A later verify detects when that commit is gone. Traces are numbered by their time and stored as
``_kafkeep/<log>/verified/<10^20-1-ms>-<ms>.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson

from kafkeep.archive.codec import as_offset, partition_map_from_json, partition_map_to_json
from kafkeep.archive.document import as_dict, as_str, reading
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.names import ROOT, check_log_name
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence, SequenceNaming
from kafkeep.archive.state import LogState
from kafkeep.clock import tool_name
from kafkeep.errors import AccessDeniedError, DamagedError, KeyMissingError

VERSION = 1
MOST_POSITIONS = 10_000
"""A trace of a log with more partitions holds no positions."""
MOST_READ = 10
"""The number of newest traces to read: one may name an older commit, or none."""
MOST_BYTES = 4 << 20


def verified_prefix(log: str) -> str:
    """Return the folder of a log's traces."""
    return f"{ROOT}{check_log_name(log)}/verified/"


def save_verified(store: ObjectStore, log: str, at_ms: int, document: dict[str, Any]) -> bool:
    """Store a trace; return False when the archive is read-only."""
    body = {"version": VERSION, "tool": tool_name(), "at_ms": at_ms, **document}
    try:
        # The number is taken if another verify ended in the same millisecond: one trace is enough.
        _traces(store, log).try_create(at_ms, orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
    except AccessDeniedError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class VerifyTrace:
    """A trace that names a commit."""

    key: str
    commit: int
    digest: str = ""
    """SHA-256 of that commit's bytes; empty in older traces."""
    positions: Mapping[PartitionId, int] = field(default_factory=dict)


def trace_of(state: LogState) -> dict[str, Any]:
    """Return the fields of a trace of a log at ``state``."""
    document: dict[str, Any] = {"commit": state.commit, "digest": state.digest}
    if len(state.positions) <= MOST_POSITIONS:
        document["positions"] = partition_map_to_json(state.positions)
    return document


def load_verified(store: ObjectStore, log: str) -> VerifyTrace | None:
    """Return the trace with the highest commit among the newest ones; None when there is none.

    A trace that cannot be read proves nothing and is skipped.
    """
    traces = _traces(store, log)
    newest = islice(traces.iter_numbers(), MOST_READ)
    found = [one for number in newest if (one := _load(traces, number)) is not None]
    return max(found, key=lambda one: one.commit, default=None)


def _load(traces: DocumentSequence, number: int) -> VerifyTrace | None:
    key = traces.key(number)
    try:
        with reading(key):
            document = as_dict(orjson.loads(traces.read(number)))
            return VerifyTrace(
                key,
                as_offset(document["commit"]),
                as_str(document.get("digest", "")),
                partition_map_from_json(document.get("positions", {}), as_offset),
            )
    except (DamagedError, KeyMissingError):
        return None


def last_verified_ms(store: ObjectStore, log: str) -> int | None:
    """Return when the log was last found intact, or None; costs one small listing."""
    newest = _traces(store, log).newest()
    return None if newest < 0 else newest


def _traces(store: ObjectStore, log: str) -> DocumentSequence:
    return DocumentSequence(
        store=store,
        folder=verified_prefix(log),
        naming=SequenceNaming.NEWEST_FIRST_WITH_NUMBER,
        max_bytes=MOST_BYTES,
        is_intact=lambda _body: True,
    )
