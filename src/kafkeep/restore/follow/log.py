"""Follow a commit log: a cycle restores the offsets that the log has gained. On the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafkeep.archive.commit import Gap
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import OffsetPick
from kafkeep.restore.follow.follower import (
    CycleWork,
    FollowLag,
    FollowState,
    OpenCycle,
    StateFormat,
    cycle_options,
)
from kafkeep.restore.source import LogSource, choose_log

UNLIMITED_BYTES = 2**62
Positions = Mapping[PartitionId, int]
LogFollowState = FollowState[PartitionId, int]
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class LogFollowSource:
    """A log that grows; see ``FollowSource``.

    If the options name a commit, a time or a selection of records, there is only one cycle.
    """

    store: ObjectStore
    options: RestoreOptions
    now_ms: Callable[[], int]
    view: ArchiveView | None = field(init=False, default=None)
    """The log as it was last read."""
    exhausted_commit: int = field(init=False, default=-1)
    """The last commit that is completely restored; -1 if unknown."""
    _warned: frozenset[str] = field(init=False, default=frozenset())

    @property
    def format(self) -> StateFormat[PartitionId, int]:
        return LOG_STATES

    @property
    def is_one_shot(self) -> bool:
        """True if the options select a fixed set of records."""
        options = self.options
        fixed = options.commit is not None or options.at_ms is not None or options.groups
        return bool(fixed or options.partitions or options.offsets or self._selects_records())

    def _selects_records(self) -> bool:
        options = self.options
        return options.cuts_times or options.exact_offsets or bool(options.incarnations)

    def begin(self, state: LogFollowState | None) -> LogFollowState:
        """Continue, or start with the log that the options choose."""
        if state is None:
            return FollowState(log=choose_log(self.store, self.options))
        return self._change_log(state)

    def _change_log(self, state: LogFollowState) -> LogFollowState:
        """Switch to the log that has the selected topics, if none of them was restored yet."""
        selected = {source for source, _ in self.options.topics}
        if not selected or state.cycle is not None or selected & state.restored_topics:
            return state
        log = choose_log(self.store, self.options)
        return state if log == state.log else replace(state.move({}), log=log, targets={})

    def open_cycle(
        self,
        state: LogFollowState,
        open_documents: Callable[[int], ObjectStore],
        *,
        max_bytes: int,
    ) -> LogFollowState | None:
        """Choose the offsets of the next cycle."""
        if not self._has_new_commit(state.log):
            return None
        options = self.options
        view = load_view(self.store, state.log, commit=options.commit, at_ms=options.at_ms)
        self.view = view
        targets = self.targets()
        self._warn_missing(targets)
        limit = UNLIMITED_BYTES if self.is_one_shot else max_bytes
        gained = {
            pid.topic for pid, at in view.positions.items() if at > state.positions.get(pid, 0)
        }
        archived = {topic: entries_of_newest(view, topic) for topic in targets if topic in gained}
        ends = plan_cycle(archived, state.positions, max_bytes=limit)
        if not ends or (self.is_one_shot and state.positions):
            self.exhausted_commit = view.commit
            return None
        topics = sorted({pid.topic for pid in ends})
        return state.begin(view.commit, {topic: targets[topic] for topic in topics}, ends)

    def work_of(
        self,
        state: LogFollowState,
        documents: ObjectStore,
        admin: Admin,
    ) -> CycleWork:
        """Select the offsets of the open cycle at the commit it was opened with."""
        cycle = state.cycle
        assert cycle is not None
        view = self.view
        if view is None or view.commit != cycle.reference:
            view = self.view = load_view(self.store, state.log, commit=cycle.reference)
        options = replace(self.options, name=state.log, commit=cycle.reference, at_ms=None)
        counts: dict[str, int] = {}
        if self.is_one_shot:
            named = ((topic, state.targets.get(topic, name)) for topic, name in options.topics)
            options = replace(options, topics=tuple(named))
        else:
            topics = {pid.topic for pid in cycle.ends}
            picks = picks_of(state.positions, cycle.ends)
            options = replace(cycle_options(options, state, topics), offsets=picks)
            for topic in topics & state.restored_topics:
                info = view.state.latest_incarnation(topic)
                counts |= {topic: info.partitions} if info is not None else {}
        entries = LogSource(store=self.store, options=options, now_ms=self.now_ms)
        return CycleWork(options, entries, counts)

    def finish(self, state: LogFollowState) -> LogFollowState:
        assert state.cycle is not None
        return state.finish(state.cycle.ends)

    def forget(self, state: LogFollowState, topics: set[str]) -> LogFollowState:
        """Forget these topics; all topics if there is only one cycle."""
        self.exhausted_commit = -1
        return state.forget(state.targets if self.is_one_shot else topics)

    def lag(self, state: LogFollowState) -> FollowLag:
        """Compare the state with the positions of the log."""
        positions = {(pid.topic, pid.partition): at for pid, at in sorted(state.positions.items())}
        view = self.view
        if view is None:
            return FollowLag(positions, None)
        targets = self.targets()
        waiting = {
            (pid.topic, pid.partition): max(0, end - state.positions.get(pid, 0))
            for pid, end in sorted(view.positions.items())
            if pid.topic in targets and self.exhausted_commit < view.commit
        }
        return FollowLag(positions, waiting or dict.fromkeys(positions, 0), view.gap_count)

    def gaps(self) -> Iterable[Gap]:
        if self.view is None:
            return ()
        targets = self.targets()
        return [gap for gap in self.view.gaps if gap.partition_id.topic in targets]

    def targets(self) -> dict[str, str]:
        """Return the selected topics of the last view and the names they are restored under."""
        known = sorted({name for name, _ in self.view.topics}) if self.view else []
        names = dict(self.options.topics)
        return {name: names.get(name, name) for name in known if self.options.wants(name)}

    def _has_new_commit(self, log: str) -> bool:
        """Return whether a commit follows the last one; costs two requests if there is none.

        DamagedError if the last commit was removed meanwhile: waiting would hide the loss.
        """
        last = self.exhausted_commit
        if last < 0:
            return True
        if self.options.commit is not None or self.options.at_ms is not None:
            return False
        try:
            self.store.head(log_key(log, last + 1))
        except KeyMissingError:
            self._check_last(log, last)
            return False
        return True

    def _check_last(self, log: str, last: int) -> None:
        try:
            self.store.head(log_key(log, last))
        except KeyMissingError as error:
            load_view(
                self.store, log
            )  # raises a more precise error if a checkpoint proves the loss
            raise DamagedError(
                f"{log}: commit {last} was removed from the log after it was restored",
                hint="Recover it from object versions in the bucket or from a copy; "
                "kafkeep verify lists what is missing.",
            ) from error

    def _warn_missing(self, targets: Mapping[str, str]) -> None:
        missing = frozenset(source for source, _ in self.options.topics) - targets.keys()
        if missing - self._warned:
            logger.warning("not in the archive yet: %s; waiting", ", ".join(sorted(missing)))
        self._warned = missing


def entries_of_newest(view: ArchiveView, topic: str) -> dict[PartitionId, list[Entry]]:
    """Return the entries of a topic's newest incarnation, by partition."""
    numbers = [number for name, number in view.topics if name == topic]
    found: dict[PartitionId, list[Entry]] = {}
    for entry in view.entries(topic, max(numbers)) if numbers else ():
        found.setdefault(entry.partition_id, []).append(entry)
    return found


def plan_cycle(
    archived: Mapping[str, Mapping[PartitionId, Sequence[Entry]]],
    positions: Positions,
    *,
    max_bytes: int,
) -> dict[PartitionId, int]:
    """Return the end offset of the next cycle per partition; empty if nothing is new. Pure.

    Topics that were restored before come first; new topics get a separate cycle. A cycle consists
    of whole objects, about ``max_bytes`` of record batches, at least one per partition.
    """
    waiting = {
        pid: left
        for partitions in archived.values()
        for pid, entries in partitions.items()
        if (left := [e for e in entries if e.range.end > positions.get(pid, 0)])
    }
    restored = {pid.topic for pid in positions}
    known = {pid: left for pid, left in waiting.items() if pid.topic in restored}
    chosen = known or waiting
    share = max_bytes // max(1, len(chosen))
    return {pid: _end(left, share) for pid, left in chosen.items()}


def _end(entries: Sequence[Entry], share: int) -> int:
    total, end = 0, 0
    for entry in entries:
        if total >= share and entry.range.start >= end > 0:
            break
        total += entry.raw_bytes
        end = max(end, entry.range.end)
    return end


def picks_of(positions: Positions, ends: Positions) -> tuple[OffsetPick, ...]:
    """Return the offsets of a cycle as a restore's options select them."""
    return tuple(
        OffsetPick(pid.topic, pid.partition, OffsetRange(positions.get(pid, 0), end))
        for pid, end in sorted(ends.items())
    )


def _to_json(state: LogFollowState) -> dict[str, Any]:
    cycle = state.cycle
    return {
        "log": state.log,
        "revision": state.revision,
        "rounds": state.cycles,
        "positions": _rows(state.positions),
        "targets": dict(state.targets),
        "round": None
        if cycle is None
        else {"number": cycle.number, "commit": cycle.reference, "ends": _rows(cycle.ends)},
    }


def _from_json(document: Mapping[str, Any]) -> LogFollowState:
    cycle = document["round"]
    return FollowState(
        log=document["log"],
        revision=document["revision"],
        cycles=document["rounds"],
        positions=_positions(document["positions"]),
        targets=dict(document.get("targets", {})),
        cycle=None
        if cycle is None
        else OpenCycle(
            number=cycle["number"], reference=cycle["commit"], ends=_positions(cycle["ends"])
        ),
    )


def _rows(positions: Positions) -> list[list[Any]]:
    return [[*pid, at] for pid, at in sorted(positions.items())]


def _positions(rows: Iterable[Sequence[Any]]) -> dict[PartitionId, int]:
    return {PartitionId(topic, int(inc), int(number)): int(at) for topic, inc, number, at in rows}


LOG_STATES: StateFormat[PartitionId, int] = StateFormat(
    folder="followed/",
    older_fields=("version", "log", "revision", "rounds", "positions", "targets", "round"),
    to_json=_to_json,
    from_json=_from_json,
)
