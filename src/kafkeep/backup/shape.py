"""What shapes the objects of a sink, as an intent keeps it: no secrets, the clock included."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkeep.archive.document import dump_document
from kafkeep.archive.entry import PartitionId
from kafkeep.backup.rotate import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkShape:
    """Options as texts under Connect's names, and what the clock decided for each partition."""

    options: Mapping[str, str]
    closes: Mapping[str, str] = field(default_factory=dict)
    """Partition → why its tail is closed at the end of its range."""
    keeps_aborted: bool = False

    def closes_tail(self, partition_id: PartitionId) -> Reason | None:
        """Return why the tail of a partition is closed, or None when it is left."""
        reason = self.closes.get(str(partition_id))
        return None if reason is None else Reason(reason)

    def digest(self, log_name: str) -> str:
        """Return the digest of what decides the content of an object, given its records.

        Records never change: an object of the same log, options, first offset, end and count is
        the same one, whichever plan it was written for.
        """
        document = {"log": log_name, "options": dict(self.options)}
        return hashlib.sha256(dump_document(document)).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the form kept in an intent."""
        return {
            "sink": dict(self.options),
            "closes": dict(self.closes),
            "keeps_aborted": self.keeps_aborted,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SinkShape:
        """Rebuild what an intent was made with."""
        return cls(
            options=document["sink"],
            closes=document["closes"],
            keeps_aborted=document["keeps_aborted"],
        )
