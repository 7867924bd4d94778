"""What differs between a target and the archive, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

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


class Place(NamedTuple):
    """Where it was seen: offsets in archive and target, None where it is not; what differs."""

    archive: int | None
    target: int | None
    what: str = ""


@dataclass(slots=True)
class Tally:
    """How often each verdict was given, and the first few places of each."""

    counts: dict[Verdict, int] = field(default_factory=dict)
    places: dict[Verdict, list[Place]] = field(default_factory=dict)

    def add(self, verdict: Verdict, place: Place | None = None, *, count: int = 1) -> None:
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

    def add_place(self, verdict: Verdict, place: Place) -> None:
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
            Verdict(name): [Place(**place) for place in places]
            for name, places in document["places"].items()
        }
        return cls(counts, places)
