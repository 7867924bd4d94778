"""What a sink has read and left in Kafka until a rule closes it.

What one Fetch response gives to the writer of a range.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.batch.format import Batches


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one answer gave a range: the batches to keep, and how far it has read.

    ``end`` is where the next chunk begins; ``gap`` lies before the chunk's batches. ``aborted``
    marks kept batches of aborted transactions.
    """

    batches: Batches | None
    end: int
    aborted: tuple[OffsetRange, ...] = ()
    gap: OffsetRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTail:
    """The records after the last closed window."""

    records: int
    bytes: int
    base_time: int | None
    """Time of the first of them that has one, in ms."""
    read_to: int

    def to_json(self) -> dict[str, Any]:
        """Return the form a task reports."""
        return asdict(self)
