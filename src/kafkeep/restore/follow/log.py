"""A restore that goes on: what an archive gains is appended to its topics, round by round.

What a round restores are offsets that were written down before it began. On the driver.

How far a restore that follows an archive has come: its document, and the plan of a round.

Each revision of the document is an object of its own, created once; the newest one counts. What a
round restores is in the document before anything of it is written.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from kafkeep.archive.document import check_checksum, dump_with_checksum, require_checksum
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.failpoint import failpoint
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import OffsetPick
from kafkeep.restore.document import check_version, load_newest, revisions_in, save_revision
from kafkeep.restore.follow.cycle import KEPT_MS, Rounds
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.source import choose_log

VERSION = 1
_OLDER_FIELDS = ("version", "log", "revision", "rounds", "positions", "targets", "round")
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
    newest = load_newest(revisions_in(store, FOLDER))
    return None if newest is None else _parse(*newest)


def save_followed(store: ObjectStore, followed: Followed) -> None:
    """Create a revision. FencedError when another worker was faster."""
    save_revision(
        revisions_in(store, FOLDER), followed.revision, dump_with_checksum(_to_json(followed))
    )


def sweep_followed(store: ObjectStore, followed: Followed, *, before_ms: int) -> None:
    """Delete revisions that are older than ``before_ms`` and were followed by others."""
    revisions_in(store, FOLDER).prune(followed.revision, modified_before_ms=before_ms)


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
        check_checksum(body, key)
        document: dict[str, Any] = orjson.loads(body)
        check_version(key, document["version"], VERSION)
        require_checksum(body, document, key, _OLDER_FIELDS)
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


logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Follower(Rounds[Followed]):
    """One restore that follows a log.

    With a commit, a time or a selection of its own among its options there is one round.
    """

    view: ArchiveView | None = field(init=False, default=None)
    """The archive as it was last looked at."""
    _warned: frozenset[str] = field(init=False, default=frozenset())

    def begin(self) -> None:
        """Read how far it has come; NoSuchArchiveError where there is no log of ours."""
        found = load_followed(self.state)
        if found is None:
            found = Followed(log=choose_log(self.store, self.options), revision=-1)
        self.followed = self._other_log(found)
        self.sweep()

    def _other_log(self, found: Followed) -> Followed:
        """Turn to the log that has the topics asked for, if nothing of them was restored yet."""
        asked = {source for source, _ in self.options.topics}
        met = {pid.topic for pid in found.positions}
        if found.revision < 0 or not asked or found.round is not None or asked & met:
            return found
        log = choose_log(self.store, self.options)
        return found if log == found.log else replace(found.move({}), log=log, targets={})

    def _forget(self, topics: Collection[str]) -> None:
        self.followed = self.followed.forget(self.followed.targets if self.is_one_shot else topics)
        save_followed(self.state, self.followed)

    def _finish(self, job: RestoreJob) -> None:
        self.followed = self.followed.finish()
        save_followed(self.state, self.followed)

    @property
    def is_one_shot(self) -> bool:
        """Whether what is to be restored was fixed by the options."""
        options = self.options
        fixed = options.commit is not None or options.at_ms is not None or options.groups
        return bool(fixed or options.partitions or options.offsets or self._picks_records())

    def _picks_records(self) -> bool:
        options = self.options
        return options.cuts_times or options.exact_offsets or bool(options.incarnations)

    def targets(self) -> dict[str, str]:
        """Return archived topics and the names they are restored under, of the last view."""
        known = sorted({name for name, _ in self.view.topics}) if self.view else []
        names = dict(self.options.topics)
        return {name: names.get(name, name) for name in known if self.options.wants(name)}

    def _open(self) -> bool:
        """Write down what the next round restores, if there is anything."""
        if not self._has_news():
            return False
        options, followed = self.options, self.followed
        view = load_view(self.store, followed.log, commit=options.commit, at_ms=options.at_ms)
        self.view = view
        targets = self.targets()
        self._warn_missing(targets)
        most = 2**62 if self.is_one_shot else self.most_bytes
        ends = plan_round(view, targets, followed.positions, most_bytes=most)
        if not ends or (self.is_one_shot and followed.positions):
            self.followed = followed.reached(view.commit)
            return False
        self.followed = followed.begin(view.commit, ends, targets)
        failpoint("follow.planned")
        save_followed(self.state, self.followed)
        failpoint("follow.opened")
        return True

    def _has_news(self) -> bool:
        """Look for the commit after the last: two requests when there is none.

        DamagedError when the last one was removed meanwhile: waiting for more would hide that.
        """
        last = self.followed.commit
        if last < 0:
            return True
        if self.options.commit is not None or self.options.at_ms is not None:
            return False
        try:
            self.store.head(log_key(self.followed.log, last + 1))
        except KeyMissingError:
            self._check_last(last)
            return False
        return True

    def _check_last(self, last: int) -> None:
        log = self.followed.log
        try:
            self.store.head(log_key(log, last))
        except KeyMissingError as error:
            load_view(self.store, log)  # says more where a checkpoint proves the loss
            raise DamagedError(
                f"{log}: commit {last} was removed from the log after it was restored",
                hint="Bring it back from older versions of the objects in the bucket, or from a "
                "copy of it; kafkeep verify lists what is missing.",
            ) from error

    def _job(self) -> RestoreJob:
        opened = self.followed.round
        assert opened is not None
        view = self.view
        if view is None or view.commit != opened.commit:
            view = self.view = load_view(self.store, self.followed.log, commit=opened.commit)
        begun = self.followed.targets  # the names the round began with
        options = replace(
            self.options,
            topics=tuple((topic, begun.get(topic, name)) for topic, name in self.options.topics),
            name=self.followed.log,
            commit=opened.commit,
            at_ms=None,
        )
        if not self.is_one_shot:
            options = self._options_of_round(options, opened.ends, begun)
            self._grow(view, opened.ends, begun)
        return RestoreJob(
            options=options,
            locations=self.locations,
            admin=self.admin,
            store=self.store,
            documents=self.open_round(opened.number),
            cores=self.cores,
            now_ms=self.now_ms,
            id=self.round_id(opened.number),
            is_round=not self.is_one_shot,
        )

    def _options_of_round(
        self,
        options: RestoreOptions,
        ends: Mapping[PartitionId, int],
        targets: Mapping[str, str],
    ) -> RestoreOptions:
        met = {pid.topic for pid in self.followed.positions}
        topics = sorted({pid.topic for pid in ends})
        return replace(
            options,
            topics=tuple((topic, targets[topic]) for topic in topics),
            topics_regex=None,
            offsets=picks_of(self.followed.positions, ends),
            into_non_empty=options.into_non_empty or all(topic in met for topic in topics),
        )

    def _grow(
        self, view: ArchiveView, topics: Collection[PartitionId], targets: Mapping[str, str]
    ) -> None:
        """Give a target the partitions its source has got since it was first restored."""
        if self.options.partition_count is not None or self.options.partition_map:
            return  # its own number of partitions was asked for
        met = {pid.topic for pid in self.followed.positions}
        for source in sorted({pid.topic for pid in topics} & met):
            info = view.state.latest_incarnation(source)
            there = self.admin.topics([targets[source]]).get(targets[source])
            if info is not None and there is not None and there.partition_count < info.partitions:
                self.admin.create_partitions(targets[source], info.partitions)

    def _warn_missing(self, targets: Mapping[str, str]) -> None:
        missing = frozenset(source for source, _ in self.options.topics) - targets.keys()
        if missing - self._warned:
            logger.warning("not in the archive yet: %s; waiting", ", ".join(sorted(missing)))
        self._warned = missing

    def sweep(self) -> None:
        """See Rounds; revisions of the document are swept, too."""
        sweep_followed(self.state, self.followed, before_ms=self.now_ms() - KEPT_MS)
        super().sweep()
