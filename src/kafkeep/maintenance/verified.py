"""The trace that a clean verify leaves beside the log: when it was, and what it looked at.

``_kafkeep/<log>/verified/<10^20-1-ms>-<ms>.json``, created once; the newest comes first. It names
the commit that was seen, so that a later verify notices when that is gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson

from kafkeep.archive.codec import as_offset, partition_map_from_json, partition_map_to_json
from kafkeep.archive.document import as_dict, as_str, reading
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.keys import LAST_NUMBER, ROOT, check_log_name
from kafkeep.archive.object_store import ObjectInfo, ObjectStore
from kafkeep.archive.state import State
from kafkeep.clock import TOOL
from kafkeep.errors import AccessDeniedError, DamagedError, KeyExistsError, KeyMissingError

VERSION = 1
MOST_POSITIONS = 10_000
"""A trace of a log with more partitions names the commit alone."""
MOST_READ = 10
"""So many of the newest traces are looked at: one may be of an older commit, or of no commit."""
MOST_BYTES = 4 << 20
_NAME = re.compile(r"[0-9]{20}-([0-9]+)\.json")


def verified_prefix(log: str) -> str:
    """Return where a log's traces lie."""
    return f"{ROOT}{check_log_name(log)}/verified/"


def save_verified(store: ObjectStore, log: str, at_ms: int, document: dict[str, Any]) -> bool:
    """Leave a trace; False when the archive may not be written to."""
    body = {"version": VERSION, "tool": TOOL, "at_ms": at_ms, **document}
    key = f"{verified_prefix(log)}{LAST_NUMBER - at_ms:020d}-{at_ms}.json"
    try:
        store.put_new(key, orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
    except KeyExistsError:
        return True  # another one ended in the same millisecond
    except AccessDeniedError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Verified:
    """What a trace says of the log."""

    key: str
    commit: int
    digest: str = ""
    """SHA-256 of that commit's bytes; empty when the trace does not tell."""
    positions: Mapping[PartitionId, int] = field(default_factory=dict)


def trace_of(state: State) -> dict[str, Any]:
    """Return what a trace says of a log that stands at ``state``."""
    document: dict[str, Any] = {"commit": state.commit, "digest": state.digest}
    if len(state.positions) <= MOST_POSITIONS:
        document["positions"] = partition_map_to_json(state.positions)
    return document


def load_verified(store: ObjectStore, log: str) -> Verified | None:
    """Return the trace of the highest commit among the newest ones; None when none names one.

    A trace that cannot be read is no evidence, and is passed over.
    """
    newest = islice(store.list(verified_prefix(log)), MOST_READ)
    found = [one for info in newest if (one := _load(store, info)) is not None]
    return max(found, key=lambda one: one.commit, default=None)


def _load(store: ObjectStore, info: ObjectInfo) -> Verified | None:
    if info.size_bytes > MOST_BYTES:
        return None
    try:
        with reading(info.key):
            document = as_dict(orjson.loads(store.get(info.key)))
            return Verified(
                info.key,
                as_offset(document["commit"]),
                as_str(document.get("digest", "")),
                partition_map_from_json(document.get("positions", {}), as_offset),
            )
    except (DamagedError, KeyMissingError):
        return None


def last_verified_ms(store: ObjectStore, log: str) -> int | None:
    """Return when the log was last found sound, or None; costs one small listing."""
    prefix = verified_prefix(log)
    for info in store.list(prefix):
        if match := _NAME.fullmatch(info.key.removeprefix(prefix)):
            return int(match[1])
    return None
