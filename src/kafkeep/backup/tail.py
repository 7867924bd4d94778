"""What a sink has read and left in Kafka until a rule closes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The records after the last closed window."""

    records: int
    bytes: int
    base_time: int | None
    """Time of the first of them that has one, in ms."""
    read_to: int

    def to_json(self) -> dict[str, Any]:
        """Return the form a task reports."""
        return asdict(self)
