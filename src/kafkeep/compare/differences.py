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
    """The classification of one record; scripts may rely on these values."""

    LOST = "lost"
    """In the archive, not in the target."""
    ALTERED = "altered"
    """The target has a different record in its place."""
    DUPLICATE = "duplicate"
    """The target holds it more often than the archive."""
    REORDERED = "reordered"
    """In the target, in a different order."""
    EXTRA = "extra"
    """In the target, not in the archive."""
    DISPLACED = "displaced"
    """In order, but at a different offset."""
    NEWER = "newer"
    """Extra, after the last archived record: written since."""
    COMPACTED = "compacted"
    """Compacted away in the target; the archive has a later record with its key."""
    EXPIRED = "expired"
    """Not in the target, whose log starts after it."""
    UNHELD = "unheld"
    """In the target, where the objects of the archive have expired."""
    FILLER = "filler"
    """A tombstone that an exact restore wrote into a hole (``--fill-holes tombstones``)."""


WARNINGS = (
    Verdict.NEWER, Verdict.COMPACTED, Verdict.EXPIRED, Verdict.UNHELD, Verdict.FILLER,
)  # fmt: skip
"""Differences that are warnings: the restore itself was correct."""
FAULTS = tuple(verdict for verdict in Verdict if verdict not in WARNINGS)


class DifferencePlace(NamedTuple):
    """The offsets of a record in archive and target, None where absent, and what differs."""

    archive: int | None
    target: int | None
    what: str = ""


@dataclass(slots=True)
class Tally:
    """The number of records with each verdict, and its first few places."""

    counts: dict[Verdict, int] = field(default_factory=dict)
    places: dict[Verdict, list[DifferencePlace]] = field(default_factory=dict)

    def add(
        self, verdict: Verdict, place: DifferencePlace | None = None, *, count: int = 1
    ) -> None:
        if count:
            self.counts[verdict] = self.counts.get(verdict, 0) + count
            seen = self.places.setdefault(verdict, [])
            if place is not None and len(seen) < MOST_PLACES:
                seen.append(place)

    def join(self, other: Tally) -> None:
        """Add the counts and places of ``other``."""
        for verdict, count in other.counts.items():
            self.add(verdict, count=count)
            for place in other.places.get(verdict, ()):
                self.add_place(verdict, place)

    def add_place(self, verdict: Verdict, place: DifferencePlace) -> None:
        """Add a place without counting it."""
        seen = self.places.setdefault(verdict, [])
        if len(seen) < MOST_PLACES:
            seen.append(place)

    @property
    def faults(self) -> int:
        """The number of records that are wrong."""
        return sum(self.counts.get(verdict, 0) for verdict in FAULTS)

    @property
    def warnings(self) -> int:
        """The number of records that differ for an accepted reason."""
        return sum(self.counts.get(verdict, 0) for verdict in WARNINGS)

    def to_json(self) -> dict[str, Any]:
        """Return the count of every verdict, and the places of those that occurred."""
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
"""At the end of a stream, two records pair up as altered only if one of this many first fields is
equal."""

ReadAgain = Callable[[], Iterator[DigestRows]]
"""Reads the archived records a second time."""


@dataclass(frozen=True, slots=True)
class Leniency:
    """The differences that are accepted, and why."""

    compacts: bool = False
    """The target's log is compacted."""
    starts_at: int = 0
    """With exact offsets: the target has deleted offsets before this one."""
    exact: bool = False
    """Records must have their original offsets."""
    unheld: tuple[tuple[int | None, int], ...] = ()
    """Expired records: the number of archived records before them (None: unknown), and how many the
    target may still have."""


STRICT = Leniency()


def classify(
    compared: StreamComparison, read_again: ReadAgain, leniency: Leniency = STRICT
) -> Tally:
    """Classify each record that is not in both streams.

    Records beyond the limit of memory count as lost or extra. If the target has unmatched
    records, the archive is read a second time to find duplicates.
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
    """The unmatched records of one partition; classified records are removed."""

    def __init__(self, compared: StreamComparison, leniency: Leniency, tally: Tally) -> None:
        self.compared, self.leniency, self.tally = compared, leniency, tally
        self.ours, self.our_gaps = compared.lacking.rows, compared.lacking.gaps
        self.theirs, self.their_gaps = compared.added.rows, compared.added.gaps
        self.ours_left = dict.fromkeys(range(len(self.ours)))
        self.theirs_left = dict.fromkeys(range(len(self.theirs)))
        self.passed = 0
        """The number of records beyond the limit that are accepted."""

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
        """Find records that are missing in one place and extra in another: they moved."""
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
        """Accept extra records where archived records have expired, up to their number."""
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
        """Read the archive again to find duplicates and keys with later records."""
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
        """Pair the remaining records in the same place: by key first, then in order."""
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
