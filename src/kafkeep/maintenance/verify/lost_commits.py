"""Find commits that were removed from a log, by objects and traces in the bucket.

A log that lost its newest commits looks like a shorter log. But the objects of those commits still
exist, and their metadata states which offsets they hold. An earlier verify recorded which commit it
saw.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from kafkeep.archive.checkpoint import load_log
from kafkeep.archive.commit import Intent, PlannedRange
from kafkeep.archive.document import digest_of
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.keys import log_key, log_prefix
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import (
    format_lost,
    format_offsets,
    lost_offsets,
    read_stored_commit,
)
from kafkeep.archive.state import LogState
from kafkeep.archive.view import iter_commits
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.maintenance.gc import ObjectClaim, parse_claim
from kafkeep.maintenance.verify.finding import Finding, FindingKind, Severity
from kafkeep.maintenance.verify.last_verified import VerifyTrace, load_verified
from kafkeep.objects.segment.reader import read_end
from kafkeep.retry import LATE_COMMIT

MOST_HEADS = 1000
"""The maximum number of objects whose metadata is read; an archive may have millions of orphans."""
_AT_ONCE = 8
_NAME = re.compile(r"(.+)\+([0-9]+)\+([0-9]+)\.[^+]*")
"""Topic, partition and first offset in an object name of the default layout."""

_Place = tuple[str, int]
"""Topic id and partition."""


@dataclass(frozen=True, slots=True)
class UncommittedObject:
    """An object that claims offsets past the position of its log."""

    key: str
    claim: ObjectClaim
    partition_id: PartitionId


@dataclass(frozen=True, slots=True)
class LostCommits:
    """Findings from orphans, the objects they cover, and the number of objects not examined."""

    findings: tuple[Finding, ...] = ()
    keys: frozenset[str] = frozenset()
    unasked: int = 0


def check_verified(
    store: ObjectStore, state: LogState, seen: VerifyTrace | None
) -> Iterator[Finding]:
    """Yield a warning when an earlier verify saw a commit that is no longer in the log."""
    if seen is None:
        return
    if seen.commit > state.commit:
        lost = format_lost(lost_offsets(state.positions, seen.positions))
        gone = _commits(state.commit + 1, seen.commit)
        text = f"{gone} removed from the log since it was verified; {lost}"
        yield _warning(state.name, seen.key, text)
    elif seen.digest and seen.digest != _digest(store, state.name, seen.commit):
        text = f"commit {seen.commit} is not the one that was verified: commits were replaced"
        yield _warning(state.name, seen.key, text)


def check_traces(store: ObjectStore, name: str) -> list[Finding]:
    """Return findings for commits that an earlier verify saw and the log no longer has."""
    seen = load_verified(store, name)  # before the log: the log must contain every traced commit
    return list(check_verified(store, load_log(store, name).state, seen))


def check_objects_beyond(
    store: ObjectStore,
    unnamed: Collection[str],
    states: Mapping[str, LogState],
    sleep: Callable[[float], None] = time.sleep,
) -> LostCommits:
    """Examine objects that no log names; ``states`` must be loaded after the objects were listed.

    Objects that an intent planned are expected: the next backup adopts or ignores them. If
    everything that the open intent planned exists, a commit may be missing.
    """
    asked, unasked = _candidates(unnamed, states.values())
    beyond: dict[str, list[UncommittedObject]] = {}
    for key, claim in _claims(store, asked):
        state = states.get(claim.log)
        if state is not None and (found := _beyond(key, claim, state)) is not None:
            beyond.setdefault(claim.log, []).append(found)
    findings: list[Finding] = []
    keys: set[str] = set()
    for log, mine in beyond.items():
        for finding, about in _judge(store, states[log], mine, sleep):
            findings.append(finding)
            keys.update(about)
    return LostCommits(tuple(findings), frozenset(keys), unasked)


def _candidates(keys: Collection[str], states: Iterable[LogState]) -> tuple[list[str], int]:
    """Choose the objects to examine, those with informative names first; count the others."""
    reached: dict[tuple[str, int], int] = {}
    for state in states:
        for pid, position in state.positions.items():
            place = pid.topic, pid.partition
            reached[place] = min(position, reached.get(place, position))
    likely, others = [], []
    for key in sorted(keys):
        match = _NAME.fullmatch(key.rpartition("/")[2])
        if match is None or (match[1], int(match[2])) not in reached:
            others.append(key)
        elif int(match[3]) >= reached[match[1], int(match[2])]:
            likely.append(key)
    found = likely + others
    return found[:MOST_HEADS], max(0, len(found) - MOST_HEADS)


def _claims(store: ObjectStore, keys: Sequence[str]) -> Iterator[tuple[str, ObjectClaim]]:
    def ask(key: str) -> ObjectClaim | None:
        try:
            return parse_claim(store.head(key).metadata)
        except KeyMissingError:
            return None  # removed since it was listed

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="verify") as pool:
        for key, claim in zip(keys, pool.map(ask, keys), strict=True):
            if claim is not None:
                yield key, claim


def _beyond(key: str, claim: ObjectClaim, state: LogState) -> UncommittedObject | None:
    """Return the object if it begins at or after the position of its partition."""
    incarnations = [
        place for place, info in state.topics.items() if info.topic_id == claim.topic_id
    ]
    if not incarnations:
        match = _NAME.fullmatch(key.rpartition("/")[2])
        return UncommittedObject(
            key, claim, PartitionId(match[1] if match else "?", 1, claim.partition)
        )
    topic, incarnation = max(incarnations)
    generation = state.generations.get((topic, incarnation), 0)
    if generation and f"{topic}~{generation}/" not in key:
        return None  # from before the topic was moved back
    pid = PartitionId(topic, incarnation, claim.partition)
    return (
        UncommittedObject(key, claim, pid) if claim.start >= state.positions.get(pid, 0) else None
    )


def _judge(
    store: ObjectStore,
    state: LogState,
    beyond: Sequence[UncommittedObject],
    sleep: Callable[[float], None],
) -> Iterator[tuple[Finding, list[str]]]:
    unplanned: dict[PartitionId, list[UncommittedObject]] = {}
    for one in _unplanned(store, state, beyond):
        unplanned.setdefault(one.partition_id, []).append(one)
    for pid, found in sorted(unplanned.items()):
        mine = _with_last_ends(store, sorted(found, key=_start))
        offsets = _offsets(mine)
        text = (
            f"{len(mine)} objects hold offsets {offsets.start} to {offsets.end - 1}, past the "
            f"position {state.positions.get(pid, 0)}, and no commit up to {state.commit} planned "
            f"them: commits from {state.commit + 1} on were removed from the log"
        )
        yield _warning(state.name, mine[0].key, text, pid, offsets), [one.key for one in mine]
    planned = _complete(store, state.intent, beyond) if state.intent is not None else []
    if planned:
        yield from _judge_open(store, state, planned, sleep)


def _judge_open(
    store: ObjectStore,
    state: LogState,
    mine: Sequence[UncommittedObject],
    sleep: Callable[[float], None],
) -> Iterator[tuple[Finding, list[str]]]:
    """Warn when everything planned exists but no commit names it."""
    retries = LATE_COMMIT.begin()
    while True:
        with suppress(KeyMissingError):
            store.head(log_key(state.name, state.commit + 1))
            return
        wait_s = retries.next_wait_s()
        if wait_s is None:
            break
        sleep(wait_s)
    by_partition: dict[PartitionId, list[UncommittedObject]] = {}
    for one in mine:
        by_partition.setdefault(one.partition_id, []).append(one)
    lost = {pid: _offsets(found) for pid, found in sorted(by_partition.items())}
    text = (
        f"{len(mine)} objects that no commit names hold all that the open intent planned, offsets "
        f"{format_offsets(lost)}: commit {state.commit + 1} was removed from the log, or a backup "
        "died right before it; the next backup adopts these objects"
    )
    yield _warning(state.name, log_prefix(state.name), text), [one.key for one in mine]


def _complete(
    store: ObjectStore, intent: Intent, beyond: Sequence[UncommittedObject]
) -> list[UncommittedObject]:
    """Return the objects of an intent if they reach the end of all its ranges; else none."""
    places = _by_place(beyond)
    found = [(item, _planned(places, item)) for item in intent.ranges]
    if not all(mine for _, mine in found):
        return []  # avoids reading objects of a running backup
    complete: list[UncommittedObject] = []
    for item, mine in found:
        ended = _with_last_ends(store, mine)
        if not any((one.claim.end or 0) >= item.range.end for one in ended):
            return []
        complete.extend(ended)
    return complete


def _with_last_ends(
    store: ObjectStore, mine: Sequence[UncommittedObject]
) -> list[UncommittedObject]:
    """Set the end of the last objects, by start offset, from their contents if needed.

    The metadata of a multipart upload has no end: it was sent first.
    """
    last = mine[-1].claim.start
    return [
        replace(one, claim=replace(one.claim, end=read_end(store, one.key)))
        if one.claim.end is None and one.claim.start == last
        else one
        for one in mine
    ]


def _unplanned(
    store: ObjectStore, state: LogState, beyond: Sequence[UncommittedObject]
) -> list[UncommittedObject]:
    """Return the objects that no intent of the log planned, open, done or abandoned."""
    left = _by_place(beyond)
    _drop_planned(left, state.intent)
    if not left:
        return []  # the usual case beside a running backup: no need to read the log
    for step in iter_commits(store, state.name):
        if step.commit and step.number <= state.commit:
            _drop_planned(left, step.commit.changes.intent)
    return [one for mine in left.values() for one in mine]


def _by_place(objects: Iterable[UncommittedObject]) -> dict[_Place, list[UncommittedObject]]:
    """Group objects by topic id and partition, in the order of their first offsets."""
    places: dict[_Place, list[UncommittedObject]] = {}
    for one in sorted(objects, key=_start):
        places.setdefault((one.claim.topic_id, one.claim.partition), []).append(one)
    return places


def _drop_planned(left: dict[_Place, list[UncommittedObject]], intent: Intent | None) -> None:
    for item in intent.ranges if intent else ():
        place = item.topic_id, item.partition_id.partition
        if place in left:
            del left[place][_slice(left[place], item)]
            if not left[place]:
                del left[place]


def _planned(
    places: Mapping[_Place, list[UncommittedObject]], item: PlannedRange
) -> Sequence[UncommittedObject]:
    mine = places.get((item.topic_id, item.partition_id.partition), [])
    return mine[_slice(mine, item)]


def _slice(mine: Sequence[UncommittedObject], item: PlannedRange) -> slice:
    """Return the slice of the objects that start in a planned range."""
    first = bisect_left(mine, item.range.start, key=_start)
    return slice(first, bisect_left(mine, item.range.end, lo=first, key=_start))


def _start(one: UncommittedObject) -> int:
    return one.claim.start


def _offsets(objects: Sequence[UncommittedObject]) -> OffsetRange:
    start = min(one.claim.start for one in objects)
    ends = (max(one.claim.end or 0, one.claim.start + 1) for one in objects)
    return OffsetRange(start, max(ends))


def _digest(store: ObjectStore, name: str, commit: int) -> str:
    try:
        return digest_of(read_stored_commit(store, name, commit).body)
    except DamagedError:
        return ""  # the chain is broken, which is already reported


def _commits(first: int, last: int) -> str:
    return f"commit {last} was" if first == last else f"commits {first} to {last} were"


def _warning(
    log: str,
    key: str,
    message: str,
    partition_id: PartitionId | None = None,
    lost: OffsetRange | None = None,
) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        kind=FindingKind.LOST_COMMITS,
        log=log,
        key=key,
        message=message,
        partition_id=partition_id,
        lost=lost,
    )
