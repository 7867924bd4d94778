"""Classify the differences between two record streams: lost, altered, duplicated, moved, extra.

Pure.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from kafkeep.compare.digest import FIELDS, KEY, NOTHING, VALUE, DigestRows, Digests
from kafkeep.compare.stream import StreamComparison

MOST_PLACES = 5


class Verdict(StrEnum):
    """What became of a record; scripts may rely on these words."""

    LOST = "lost"
    """In the archive, not in the target."""
    ALTERED = "altered"
    """In its place the target has another record."""
    DUPLICATE = "duplicate"
    """The target has it once more than the archive."""
    REORDERED = "reordered"
    """In the target, at another place among its neighbours."""
    EXTRA = "extra"
    """In the target, not in the archive."""
    DISPLACED = "displaced"
    """In its place among its neighbours, but not at the offset it had."""
    NEWER = "newer"
    """Extra, behind the last record of the archive: written since."""
    COMPACTED = "compacted"
    """Not in the target, which compacts; a later record of its key was archived."""
    EXPIRED = "expired"
    """Not in the target, whose log begins behind it."""
    UNHELD = "unheld"
    """In the target, where the archive held records whose objects have expired since."""
    FILLER = "filler"
    """Put by an exact restore where there was no record (``--fill-holes tombstones``)."""


WARNINGS = (
    Verdict.NEWER, Verdict.COMPACTED, Verdict.EXPIRED, Verdict.UNHELD, Verdict.FILLER,
)  # fmt: skip
"""What a target may come to without anything being wrong with the restore."""
FAULTS = tuple(verdict for verdict in Verdict if verdict not in WARNINGS)


class DifferencePlace(NamedTuple):
    """Where it was seen: offsets in archive and target, None where it is not; what differs."""

    archive: int | None
    target: int | None
    what: str = ""


@dataclass(slots=True)
class Tally:
    """How often each verdict was given, and its first few places."""

    counts: dict[Verdict, int] = field(default_factory=dict)
    places: dict[Verdict, list[DifferencePlace]] = field(default_factory=dict)

    def add(
        self, verdict: Verdict, place: DifferencePlace | None = None, *, count: int = 1
    ) -> None:
        """Count a verdict."""
        if count:
            self.counts[verdict] = self.counts.get(verdict, 0) + count
            seen = self.places.setdefault(verdict, [])
            if place is not None and len(seen) < MOST_PLACES:
                seen.append(place)

    def join(self, other: Tally) -> None:
        """Add what another one counted."""
        for verdict, count in other.counts.items():
            self.add(verdict, count=count)
            for place in other.places.get(verdict, ()):
                self.add_place(verdict, place)

    def add_place(self, verdict: Verdict, place: DifferencePlace) -> None:
        """Remember a place of what is counted already."""
        seen = self.places.setdefault(verdict, [])
        if len(seen) < MOST_PLACES:
            seen.append(place)

    @property
    def faults(self) -> int:
        """How many records are not what they should be."""
        return sum(self.counts.get(verdict, 0) for verdict in FAULTS)

    @property
    def warnings(self) -> int:
        """How many records differ with nothing being wrong."""
        return sum(self.counts.get(verdict, 0) for verdict in WARNINGS)

    def to_json(self) -> dict[str, Any]:
        """Return counts of every verdict, and places of those that were given."""
        return {
            "counts": {verdict.value: self.counts.get(verdict, 0) for verdict in Verdict},
            "places": {
                verdict.value: [place._asdict() for place in places]
                for verdict, places in self.places.items()
                if places
            },
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Tally:
        """Rebuild it."""
        counts = {Verdict(name): count for name, count in document["counts"].items() if count}
        places = {
            Verdict(name): [DifferencePlace(**place) for place in places]
            for name, places in document["places"].items()
        }
        return cls(counts, places)


_TELLING = 3
"""Of the first so many fields one must be the same for a record to be another's altered form,
where no later record shows that it is in the same place."""

ReadAgain = Callable[[], Iterator[DigestRows]]
"""Reads the archive's records once more."""


@dataclass(frozen=True, slots=True)
class Leniency:
    """What may be missing with nothing being wrong."""

    compacts: bool = False
    """The target's log is compacted."""
    starts_at: int = 0
    """Offsets of the archive before this one are deleted in the target; with exact offsets."""
    exact: bool = False
    """Records must stand at the offsets they had."""
    unheld: tuple[tuple[int | None, int], ...] = ()
    """Where the archive's objects have expired: behind so many records (None: anywhere), so many
    that the target may still have."""


STRICT = Leniency()


def classify(
    compared: StreamComparison, read_again: ReadAgain, leniency: Leniency = STRICT
) -> Tally:
    """Give each record that is not in both a verdict.

    What was more than could be kept is counted as lost or extra. The archive is read once more
    when the target has records of its own, to find those that are there twice.
    """
    tally = Tally()
    if leniency.exact:
        for ours, theirs in compared.displaced_at:
            tally.add_place(Verdict.DISPLACED, DifferencePlace(ours, theirs))
        tally.add(Verdict.DISPLACED, count=compared.displaced)
    if compared.lacking.count or compared.added.count:
        _Classifier(compared, leniency, tally).run(read_again)
    return tally


class _Classifier:
    """One partition's unmatched records; what has its verdict is taken off the list."""

    def __init__(self, compared: StreamComparison, leniency: Leniency, tally: Tally) -> None:
        self.compared, self.leniency, self.tally = compared, leniency, tally
        self.ours, self.our_gaps = compared.lacking.rows, compared.lacking.gaps
        self.theirs, self.their_gaps = compared.added.rows, compared.added.gaps
        self.ours_left = dict.fromkeys(range(len(self.ours)))
        self.theirs_left = dict.fromkeys(range(len(self.theirs)))
        self.passed = 0
        """Of those that were not kept, how many are no fault."""

    def run(self, read_again: ReadAgain) -> None:
        self._reordered()
        if self.leniency.starts_at:
            self._expired()
        if self.leniency.unheld:
            self._unheld()
        compacts = self.leniency.compacts and bool(self.ours_left)
        if self.theirs_left or compacts:
            self._read_again(read_again, compacts)
        self._altered()
        self._rest()

    def _ours_at(self, row: int) -> int:
        return int(self.ours.offsets[row])

    def _theirs_at(self, row: int) -> int:
        return int(self.theirs.offsets[row])

    def _reordered(self) -> None:
        """Find what is missing in one place and too much in another: it has moved."""
        waiting: dict[int, deque[int]] = defaultdict(deque)
        for row, digest in enumerate(self.ours.digests.tolist()):
            waiting[digest].append(row)
        for row, digest in enumerate(self.theirs.digests.tolist()):
            if waiting.get(digest):
                mine = waiting[digest].popleft()
                place = DifferencePlace(self._ours_at(mine), self._theirs_at(row))
                self.tally.add(Verdict.REORDERED, place)
                del self.ours_left[mine], self.theirs_left[row]

    def _expired(self) -> None:
        for row in list(self.ours_left):
            if 0 <= self._ours_at(row) < self.leniency.starts_at:
                self.tally.add(Verdict.EXPIRED, DifferencePlace(self._ours_at(row), None))
                del self.ours_left[row]

    def _unheld(self) -> None:
        """Accept records where the archive's records have expired, no more than it had."""
        left = dict(self.leniency.unheld)
        for row in list(self.theirs_left):
            place = None if None in left else int(self.their_gaps[row])
            if left.get(place, 0) > 0:
                left[place] -= 1
                self.tally.add(Verdict.UNHELD, DifferencePlace(None, self._theirs_at(row)))
                del self.theirs_left[row]
        unkept = self.compared.added.count - len(self.theirs)
        self.passed = min(unkept, sum(left.values()))
        self.tally.add(Verdict.UNHELD, count=self.passed)

    def _read_again(self, read_again: ReadAgain, compacts: bool) -> None:
        """Read the archive once more: who is there twice, and whose key came again later."""
        wanted: Digests = self.theirs.digests[list(self.theirs_left)]
        keys: Digests = self.ours.parts[list(self.ours_left), KEY]
        there: set[int] = set()
        latest: dict[int, int] = {}
        for rows in read_again():
            there.update(rows.digests[np.isin(rows.digests, wanted)].tolist())
            if compacts:
                mine = np.isin(rows.parts[:, KEY], keys)
                for key, offset in zip(
                    rows.parts[mine, KEY].tolist(), rows.offsets[mine].tolist(), strict=True
                ):
                    latest[key] = max(offset, latest.get(key, -1))
        for row in list(self.theirs_left):
            if int(self.theirs.digests[row]) in there:
                self.tally.add(Verdict.DUPLICATE, DifferencePlace(None, self._theirs_at(row)))
                del self.theirs_left[row]
        if compacts:
            self._compacted(latest)

    def _compacted(self, latest: dict[int, int]) -> None:
        for row in list(self.ours_left):
            key, value = int(self.ours.parts[row, KEY]), int(self.ours.parts[row, VALUE])
            superseded = latest.get(key, -1) > self._ours_at(row)
            if key != NOTHING and (superseded or value == NOTHING):
                self.tally.add(Verdict.COMPACTED, DifferencePlace(self._ours_at(row), None))
                del self.ours_left[row]

    def _altered(self) -> None:
        """Pair what is left in the same place: by key first, then in order."""
        theirs: dict[int, list[int]] = defaultdict(list)
        for row in self.theirs_left:
            theirs[int(self.their_gaps[row])].append(row)
        ours: dict[int, list[int]] = defaultdict(list)
        for row in self.ours_left:
            ours[int(self.our_gaps[row])].append(row)
        for gap, mine in ours.items():
            if gap in theirs:
                at_end = gap == self.compared.matched
                for a, b in list(self._pairs(mine, theirs[gap], at_end)):
                    place = DifferencePlace(
                        self._ours_at(a), self._theirs_at(b), self._differs(a, b)
                    )
                    self.tally.add(Verdict.ALTERED, place)
                    del self.ours_left[a], self.theirs_left[b]

    def _pairs(self, ours: list[int], theirs: list[int], at_end: bool) -> Iterator[tuple[int, int]]:
        by_key: dict[int, deque[int]] = defaultdict(deque)
        for row in theirs:
            by_key[int(self.theirs.parts[row, KEY])].append(row)
        others, taken = [], set()
        for row in ours:
            key = int(self.ours.parts[row, KEY])
            if key != NOTHING and by_key[key]:
                taken.add(found := by_key[key].popleft())
                yield row, found
            else:
                others.append(row)
        left = [row for row in theirs if row not in taken]
        for a, b in zip(others, left, strict=False):
            if not at_end or self._akin(a, b):
                yield a, b

    def _akin(self, a: int, b: int) -> bool:
        mine, other = self.ours.parts[a, :_TELLING], self.theirs.parts[b, :_TELLING]
        return bool(((mine == other) & (mine != NOTHING)).any())

    def _differs(self, a: int, b: int) -> str:
        other = self.ours.parts[a] != self.theirs.parts[b]
        return ", ".join(name for name, differs in zip(FIELDS, other, strict=True) if differs)

    def _rest(self) -> None:
        for row in self.ours_left:
            self.tally.add(Verdict.LOST, DifferencePlace(self._ours_at(row), None))
        end = self.compared.matched
        lost = bool(self.tally.counts.get(Verdict.LOST))
        for row in self.theirs_left:
            newer = int(self.their_gaps[row]) == end
            verdict = Verdict.NEWER if newer else Verdict.EXTRA
            self.tally.add(verdict, DifferencePlace(None, self._theirs_at(row)))
        self.tally.add(Verdict.LOST, count=self.compared.lacking.count - len(self.ours))
        uncounted = self.compared.added.count - len(self.theirs) - self.passed
        only_newer = len(self.theirs) and int(self.their_gaps[-1]) == end and not lost
        self.tally.add(Verdict.NEWER if only_newer else Verdict.EXTRA, count=uncounted)
