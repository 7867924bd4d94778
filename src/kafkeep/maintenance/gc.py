"""Remove what crashed backups left behind: orphans, which no log names, and unfinished uploads.

Safe beside a running backup. Objects are listed before the logs are read. An object that its log
does not name, and whose start offset is before the log's position, can therefore never be named. An
orphan is removed when no commit can ever name it and other objects of its log hold all of its
offsets. Objects of other writers, young objects, and the only copy of an offset are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from kafkeep.archive.adoption import END, PARTITION, START, TOPIC_ID, WRITER
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.keys import DATA_FOLDER
from kafkeep.archive.object_store import ObjectInfo, ObjectStore, Upload
from kafkeep.archive.state import LogState
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.errors import AccessDeniedError, KeyMissingError
from kafkeep.maintenance.inspect.inventory import (
    find_left_overs,
    find_strays,
    list_data,
    topic_folders,
    unnumbered,
)
from kafkeep.objects.choose_log import choose_logs
from kafkeep.options.maintenance import DAY_MS
from kafkeep.options.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectClaim:
    """The log, partition and offsets in the metadata of an object."""

    log: str
    topic_id: str
    partition: int
    start: int
    end: int | None
    """None for a multipart upload, whose metadata was sent before its end was known."""


def is_ours(metadata: Mapping[str, str]) -> bool:
    """Return whether kafkeep wrote an object."""
    return WRITER in {name.lower() for name in metadata}


def parse_claim(metadata: Mapping[str, str]) -> ObjectClaim | None:
    """Return the claim of a data object; None if its metadata is incomplete.

    Brokers before 2.8 have no topic ids, so the object cannot be attributed.
    """
    found = {name.lower(): value for name, value in metadata.items()}
    partition, start, end = (found.get(name, "") for name in (PARTITION, START, END))
    if not found.get(WRITER) or not found.get(TOPIC_ID):
        return None
    if not partition.isdecimal() or not start.isdecimal():
        return None
    return ObjectClaim(
        log=found[WRITER],
        topic_id=found[TOPIC_ID],
        partition=int(partition),
        start=int(start),
        end=int(end) if end.isdecimal() else None,
    )


def why_kept(claim: ObjectClaim, state: LogState, kept: Sequence[OffsetRange]) -> str | None:
    """Return why an object that the log does not name must be kept; None if it may be removed.

    ``kept`` are the offsets of its partition in objects that the log names. Once the position has
    passed the start of an object, no commit uses that name again: after a move back, the log
    continues in another folder.
    """
    place = claim.topic_id, claim.partition
    for planned in state.intent.ranges if state.intent else ():
        mine = (planned.topic_id, planned.partition_id.partition) == place
        if mine and planned.range.start <= claim.start < planned.range.end:
            return "an open intent plans these offsets: the next run may use it"
    positions = [
        position
        for pid, position in state.positions.items()
        if pid.partition == claim.partition
        and (info := state.topics.get(pid[:2])) is not None
        and info.topic_id == claim.topic_id
    ]
    if not positions or min(positions) <= claim.start:
        return f"the log has not passed offset {claim.start}"
    end = min(positions) if claim.end is None else claim.end
    missing = _first_missing(OffsetRange(claim.start, max(claim.start, end)), kept)
    return None if missing is None else f"no object of the log holds offset {missing}"


def kept_ranges(
    entries: Iterable[Entry], there: Mapping[str, int], claims: Iterable[ObjectClaim]
) -> dict[ObjectClaim, list[OffsetRange]]:
    """Return the offsets of each claim's partition that the store has, by the entries of its log.

    If several objects share a range, all of them must exist.
    """
    wanted: dict[tuple[str, int], list[ObjectClaim]] = {}
    for claim in claims:
        wanted.setdefault((claim.topic_id, claim.partition), []).append(claim)
    held: dict[tuple[str, int], set[OffsetRange]] = {place: set() for place in wanted}
    lost: dict[tuple[str, int], set[OffsetRange]] = {place: set() for place in wanted}
    for entry in entries:
        place = entry.topic_id, entry.partition_id.partition
        if place in wanted:
            (held if entry.key in there else lost)[place].add(entry.range)
    return {
        claim: sorted(held[place] - lost[place]) for place, mine in wanted.items() for claim in mine
    }


def _first_missing(wanted: OffsetRange, kept: Sequence[OffsetRange]) -> int | None:
    """Return the first offset that is in none of the sorted ranges, or None."""
    reached = wanted.start
    for offsets in kept:
        if offsets.start > reached:
            break
        reached = max(reached, offsets.end)
    return reached if reached < wanted.end else None


_AT_ONCE = 8
OnProgress = Callable[[int, int], None]


class OrphanAction(StrEnum):
    """What gc does with an orphan."""

    REMOVE = "remove"
    REMOVED = "removed"
    KEEP = "keep"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """One orphan or unfinished upload, its fate, and the reason."""

    what: ObjectInfo | Upload
    fate: OrphanAction
    reason: str
    log: str = ""
    """The topic it belongs to; empty if unknown."""

    @property
    def kind(self) -> str:
        """``object`` or ``upload``."""
        return "object" if isinstance(self.what, ObjectInfo) else "upload"

    @property
    def name(self) -> str:
        """Its key, or the store's id of an upload without a key."""
        return self.what.key or (self.what.id if isinstance(self.what, Upload) else "")

    @property
    def size_bytes(self) -> int | None:
        """None if the store does not report it."""
        return self.what.size_bytes if isinstance(self.what, ObjectInfo) else None

    @property
    def since_ms(self) -> int:
        """When it was written, by the store's clock."""
        return self.what.modified_ms if isinstance(self.what, ObjectInfo) else self.what.touched_ms

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``gc --output json``; scripts may rely on it."""
        return {
            "kind": self.kind,
            "key": self.what.key,
            "upload_id": self.what.id if isinstance(self.what, Upload) else None,
            "log": self.log or None,
            "size_bytes": self.size_bytes,
            "since_ms": self.since_ms,
            "fate": self.fate.value,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GcPlan:
    """All orphans and unfinished uploads; ``foreign`` counts objects that kafkeep did not write.

    Links, special files and names that are not UTF-8 count as foreign: they are never removed.
    """

    archive: str
    older_than_ms: int
    left_overs: tuple[Orphan, ...]
    foreign: int

    def count(self, fate: OrphanAction) -> int:
        """Return the number of orphans and uploads with this fate."""
        return sum(one.fate is fate for one in self.left_overs)

    def size_bytes(self, fate: OrphanAction) -> int:
        """Return the bytes of the objects with this fate."""
        return sum(one.size_bytes or 0 for one in self.left_overs if one.fate is fate)

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``gc --output json``; scripts may rely on it."""
        return {
            "archive": self.archive,
            "older_than_ms": self.older_than_ms,
            **{fate.value: self.count(fate) for fate in OrphanAction},
            "removed_bytes": self.size_bytes(OrphanAction.REMOVED),
            "foreign": self.foreign,
            "left_overs": [one.to_json() for one in self.left_overs],
        }


def plan_gc(
    store: ObjectStore,
    *,
    older_than_ms: int = DAY_MS,
    now_ms: int | None = None,
    on_progress: OnProgress | None = None,
) -> GcPlan:
    """Find orphans and unfinished uploads, and decide what may be removed; changes nothing.

    ``now_ms`` is the store's own time unless given. Raise NoSuchArchiveError without a log, and
    DamagedError for a damaged log, because the objects it names are unknown.
    """
    now_ms = store.now_ms() if now_ms is None else now_ms
    views, listed, infos = _look(store, on_progress)
    ours = [info for info in infos if is_ours(info.metadata)]
    claims = {info.key: parse_claim(info.metadata) for info in ours}
    entries = {name: view.entries() for name, view in views.items()}
    reasons = dict(_iter_reasons(claims, views, entries, listed))
    all_entries = [entry for mine in entries.values() for entry in mine]
    folders = topic_folders(all_entries)
    folders |= {f"{DATA_FOLDER}/{topic}/" for view in views.values() for topic, _ in view.topics}
    uploads = [one for one in store.uploads() if _is_in(one.key, folders)]
    found = [
        Orphan(
            what=info,
            log=claim.log if (claim := claims[info.key]) else "",
            fate=OrphanAction.KEEP if info.key in reasons else OrphanAction.REMOVE,
            reason=reasons.get(info.key, "other objects hold all of its offsets"),
        )
        for info in ours
    ] + [
        Orphan(what=one, fate=OrphanAction.REMOVE, reason="the upload was never finished")
        for one in uploads
    ]
    return GcPlan(
        archive=store.describe(),
        older_than_ms=older_than_ms,
        left_overs=tuple(_unless_young(one, now_ms, older_than_ms) for one in found),
        foreign=len(infos) - len(ours) + len(find_strays(store, all_entries)),
    )


def remove(store: ObjectStore, plan: GcPlan, on_progress: OnProgress | None = None) -> GcPlan:
    """Remove what the plan lists, and return the plan with the outcome of each; safe to repeat."""
    done = []
    for number, one in enumerate(plan.left_overs, 1):
        done.append(_remove(store, one) if one.fate is OrphanAction.REMOVE else one)
        if on_progress is not None:
            on_progress(number, len(plan.left_overs))
    return replace(plan, left_overs=tuple(done))


def _look(
    store: ObjectStore, on_progress: OnProgress | None
) -> tuple[Mapping[str, ArchiveView], Mapping[str, int], list[ObjectInfo]]:
    """Return the logs loaded after the listing, the listing, and the objects that no log names."""
    views = _load_all(store)
    entries = [e for view in views.values() for e in (*view.entries(), *view.retired())]
    listed = list_data(store, entries)
    later: dict[str, ArchiveView] = {}

    def reload() -> Iterable[ArchiveView]:
        later.update(_load_all(store))
        return later.values()

    keys = [*find_left_overs(store, listed, {entry.key for entry in entries}, reload)]
    infos: list[ObjectInfo] = []
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="gc") as pool:
        for number, info in enumerate(pool.map(lambda key: _head(store, key), keys), 1):
            infos += [info] if info is not None else []
            if on_progress is not None:
                on_progress(number, len(keys))
    return later or views, listed, infos


def _load_all(store: ObjectStore) -> dict[str, ArchiveView]:
    return {name: load_view(store, name) for name in choose_logs(store)}


def _head(store: ObjectStore, key: str) -> ObjectInfo | None:
    try:
        return store.head(key)
    except KeyMissingError:
        return None  # removed by another process since it was listed


def _iter_reasons(
    claims: Mapping[str, ObjectClaim | None],
    views: Mapping[str, ArchiveView],
    entries: Mapping[str, Sequence[Entry]],
    listed: Mapping[str, int],
) -> Iterator[tuple[str, str]]:
    """Yield the keys that must be kept, with the reason."""
    by_log: dict[str, dict[str, ObjectClaim]] = {}
    for key, claim in claims.items():
        if claim is None:
            yield key, "its metadata does not say which offsets it holds"
        elif claim.log not in views:
            yield key, f"its log {claim.log} is not in this archive"
        else:
            by_log.setdefault(claim.log, {})[key] = claim
    for log, mine in by_log.items():
        kept = kept_ranges(entries[log], listed, mine.values())
        for key, claim in mine.items():
            if (reason := why_kept(claim, views[log].state, kept[claim])) is not None:
                yield key, reason


def _is_in(key: str, folders: Collection[str]) -> bool:
    """Return whether an upload belongs to a topic folder; an upload without a key does."""
    path = unnumbered(key.rpartition("/")[0]) + "/"
    return not key or any(path[: at + 1] in folders for at, char in enumerate(path) if char == "/")


def _unless_young(one: Orphan, now_ms: int, older_than_ms: int) -> Orphan:
    if one.fate is OrphanAction.KEEP or now_ms - one.since_ms >= older_than_ms:
        return one
    reason = f"it is younger than {format_duration(older_than_ms)}"
    return replace(one, fate=OrphanAction.KEEP, reason=reason)


def _remove(store: ObjectStore, one: Orphan) -> Orphan:
    try:
        if isinstance(one.what, Upload):
            store.end_upload(one.what)
        elif _head(store, one.what.key) == one.what:
            # Check again: another gc may have removed it, and the name may be in use again.
            store.delete(one.what.key)
    except AccessDeniedError as error:
        return replace(one, fate=OrphanAction.REFUSED, reason=error.message)
    return replace(one, fate=OrphanAction.REMOVED)
