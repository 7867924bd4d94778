"""How far a restore that follows an archive has come: its document, and the plan of a round.

Each revision of the document is an object of its own, created once; the newest one counts. What a
round restores is in the document before anything of it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.reader import ArchiveView
from kafkeep.archive.seal import check_seal, check_whole, seal
from kafkeep.archive.store import ObjectStore
from kafkeep.config.selection import OffsetPick
from kafkeep.errors import DamagedError
from kafkeep.restore.revisions import (
    check_version,
    load_newest,
    save_revision,
    sweep_revisions,
)

VERSION = 1
_UNSEALED = ("version", "log", "revision", "rounds", "positions", "targets", "round")
FOLDER = "followed/"
Positions = Mapping[PartitionId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What is restored in one go: offsets up to ``ends``, as a commit of the log has them."""

    number: int
    commit: int
    ends: Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """One revision: everything before ``positions`` is restored, ``round`` is under way."""

    log: str
    revision: int = 0
    rounds: int = 0
    """Rounds that are done."""
    commit: int = -1
    """The last commit of which everything is restored."""
    positions: Positions = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    """Under which names topics were restored."""
    round: Round | None = None

    @property
    def open_round(self) -> int | None:
        """The number of the round under way."""
        return self.round.number if self.round is not None else None

    def begin(self, commit: int, ends: Positions, targets: Mapping[str, str]) -> Followed:
        """Return the revision that says what the next round restores, and under which names."""
        opened = Round(number=self.rounds + 1, commit=commit, ends=ends)
        named = {topic: targets[topic] for topic in sorted({pid.topic for pid in ends})}
        return replace(
            self,
            revision=self.revision + 1,
            targets={**self.targets, **named},
            round=opened,
        )

    def finish(self) -> Followed:
        """Return the revision after the round under way."""
        assert self.round is not None
        return replace(
            self,
            revision=self.revision + 1,
            rounds=self.round.number,
            positions={**self.positions, **self.round.ends},
            round=None,
        )

    def reached(self, commit: int) -> Followed:
        """Return the same, knowing that ``commit`` has nothing more; no revision of its own."""
        return replace(self, commit=commit)

    def forget(self, topics: Collection[str]) -> Followed:
        """Return the revision in which nothing of these topics was restored yet."""
        kept = {pid: at for pid, at in self.positions.items() if pid.topic not in topics}
        named = {t: name for t, name in self.targets.items() if t not in topics}
        return replace(self.move(kept), targets=named)

    def move(self, positions: Positions) -> Followed:
        """Return the revision that goes on from other positions; a round under way is given up."""
        rounds = self.round.number if self.round else self.rounds
        return replace(
            self,
            revision=self.revision + 1,
            rounds=rounds,
            positions=positions,
            round=None,
            commit=-1,
        )


def load_followed(store: ObjectStore) -> Followed | None:
    """Return the newest revision, or None when nothing was ever restored."""
    newest = load_newest(store, FOLDER)
    return None if newest is None else _parse(*newest)


def save_followed(store: ObjectStore, followed: Followed) -> None:
    """Create a revision. FencedError when another worker was faster."""
    save_revision(store, FOLDER, followed.revision, seal(_to_json(followed)))


def sweep_followed(store: ObjectStore, followed: Followed, *, before_ms: int) -> None:
    """Delete revisions that are older than ``before_ms`` and were followed by others."""
    sweep_revisions(store, FOLDER, followed.revision, before_ms=before_ms)


def plan_round(
    view: ArchiveView, topics: Iterable[str], positions: Positions, *, most_bytes: int
) -> dict[PartitionId, int]:
    """Return up to which offset each partition is restored next; none when all is there.

    Topics that were met before go first, those that were not have a round of their own. A round is
    of whole objects, about ``most_bytes`` of record batches in all, at least one of each partition.
    """
    waiting = {
        pid: left
        for topic in topics
        for pid, entries in _newest(view, topic).items()
        if (left := [e for e in entries if e.range.end > positions.get(pid, 0)])
    }
    met = {pid.topic for pid in positions}
    known = {pid: left for pid, left in waiting.items() if pid.topic in met}
    chosen = known or waiting
    share = most_bytes // max(1, len(chosen))
    return {pid: _end(left, share) for pid, left in chosen.items()}


def picks_of(positions: Positions, ends: Positions) -> tuple[OffsetPick, ...]:
    """Return the offsets of a round, as a restore is asked for them."""
    return tuple(
        OffsetPick(pid.topic, pid.partition, OffsetRange(positions.get(pid, 0), end))
        for pid, end in sorted(ends.items())
    )


def _newest(view: ArchiveView, topic: str) -> dict[PartitionId, list[Entry]]:
    numbers = [number for name, number in view.topics if name == topic]
    found: dict[PartitionId, list[Entry]] = {}
    for entry in view.entries(topic, max(numbers)) if numbers else ():
        found.setdefault(entry.partition_id, []).append(entry)
    return found


def _end(entries: Sequence[Entry], share: int) -> int:
    total, end = 0, 0
    for entry in entries:
        if total >= share and entry.range.start >= end > 0:
            break
        total += entry.raw_bytes
        end = max(end, entry.range.end)
    return end


def _to_json(followed: Followed) -> dict[str, Any]:
    opened = followed.round
    return {
        "version": VERSION,
        "log": followed.log,
        "revision": followed.revision,
        "rounds": followed.rounds,
        "positions": _rows(followed.positions),
        "targets": dict(followed.targets),
        "round": None
        if opened is None
        else {"number": opened.number, "commit": opened.commit, "ends": _rows(opened.ends)},
    }


def _rows(positions: Positions) -> list[list[Any]]:
    return [[*pid, at] for pid, at in sorted(positions.items())]


def _positions(rows: Iterable[Sequence[Any]]) -> dict[PartitionId, int]:
    return {PartitionId(topic, int(inc), int(number)): int(at) for topic, inc, number, at in rows}


def _parse(body: bytes, key: str) -> Followed:
    try:
        check_whole(body, key)
        document: dict[str, Any] = orjson.loads(body)
        check_version(key, document["version"], VERSION)
        check_seal(body, document, key, _UNSEALED)
        opened = document["round"]
        return Followed(
            log=document["log"],
            revision=document["revision"],
            rounds=document["rounds"],
            positions=_positions(document["positions"]),
            targets=dict(document.get("targets", {})),
            round=None
            if opened is None
            else Round(
                number=opened["number"],
                commit=opened["commit"],
                ends=_positions(opened["ends"]),
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{key} does not say how far a restore has come: {error}") from error
