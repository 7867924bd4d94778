"""Findings of a verification and the report that holds them, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.state import LogState
from kafkeep.errors import DamagedError, GapError


class Severity(StrEnum):
    """The severity of a finding. Damage and lost commits make an archive not intact."""

    DAMAGE = "damage"
    WARNING = "warning"
    INFO = "info"


class FindingKind(StrEnum):
    """The kind of a finding; scripts may rely on these values."""

    MISSING = "missing"
    """An object that the log names is missing."""
    EXPIRED = "expired"
    """An object is missing, and a retention rule may have deleted it: not damage."""
    TRUNCATED = "truncated"
    """An object is shorter than the log states."""
    ALTERED = "altered"
    """The bytes of an object have changed."""
    UNDECODABLE = "undecodable"
    """The bytes have not changed, but the records cannot be decoded."""
    MISCOUNTED = "miscounted"
    """Records, offsets, times or index differ from the log."""
    BROKEN_CHAIN = "broken-chain"
    """A commit is missing, damaged, or does not continue the one before it."""
    LOST_COMMITS = "lost-commits"
    """Commits were removed from the log, as objects or traces in the bucket show."""
    BAD_SCHEMAS = "bad-schemas"
    """The schema document that a commit names is missing or has changed."""
    OVERLAP = "overlap"
    """Two objects hold the same offsets."""
    BAD_CHECKPOINT = "bad-checkpoint"
    """A checkpoint disagrees with the log; the log is authoritative."""
    GAP = "gap"
    """Offsets that were never archived; the log states the reason."""
    NO_OBJECT = "no-object"
    """Archived offsets without an object: they held no committed record."""
    OPEN_INTENT = "open-intent"
    """A backup is running, or was interrupted; the next backup finishes it."""
    NO_LOG = "no-log"
    """Objects of another writer: no log states which objects exist and what they hold."""
    ORPHAN = "orphan"
    """An object that no log names, left by an interrupted backup."""
    STRAY = "stray"
    """A link, a special file or a name that is not UTF-8, in a folder: it was skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding; ``lost`` are the offsets that can no longer be read or trusted."""

    severity: Severity
    kind: FindingKind
    log: str
    key: str
    message: str
    partition_id: PartitionId | None = None
    lost: OffsetRange | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``verify --output json``."""
        pid = self.partition_id
        return {
            "severity": self.severity.value,
            "kind": self.kind.value,
            "log": self.log,
            "key": self.key,
            "topic": pid.topic if pid else None,
            "incarnation": pid.incarnation if pid else None,
            "partition": pid.partition if pid else None,
            "lost_start": self.lost.start if self.lost else None,
            "lost_end": self.lost.end if self.lost else None,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The totals and the findings: damage first, then warnings, then the rest."""

    archive: str
    logs: tuple[str, ...]
    deep: bool
    commits: int
    objects: int
    records: int
    """The number of records by the logs, including lost ones."""
    read_bytes: int
    findings: tuple[Finding, ...]
    states: tuple[LogState, ...] = ()
    """The states of the logs when they were verified."""

    @property
    def is_damaged(self) -> bool:
        """True if anything is damaged."""
        return any(finding.severity is Severity.DAMAGE for finding in self.findings)

    @property
    def intact(self) -> bool:
        """True if nothing is damaged and no commits were removed."""
        lost = any(finding.kind is FindingKind.LOST_COMMITS for finding in self.findings)
        return not self.is_damaged and not lost

    @property
    def verdict(self) -> str:
        """One word: intact, readable (without a log), incomplete or damaged."""
        if not self.intact:
            return "damaged" if self.is_damaged else "incomplete"
        return "intact" if self.logs else "readable"

    @property
    def exit_code(self) -> int:
        """13 for damage, 3 when only commits are missing."""
        if self.is_damaged:
            return DamagedError.exit_code
        return 0 if self.intact else GapError.exit_code

    @property
    def lost_offsets(self) -> int:
        """The number of offsets that can no longer be read or trusted, each counted once."""
        lost: dict[PartitionId | None, list[OffsetRange]] = {}
        for finding in self.findings:
            if finding.lost is not None:
                lost.setdefault(finding.partition_id, []).append(finding.lost)
        return sum(_covered(sorted(ranges)) for ranges in lost.values())

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``verify --output json``; scripts may rely on it."""
        return {
            "archive": self.archive,
            "logs": list(self.logs),
            "deep": self.deep,
            "intact": self.intact,
            "commits": self.commits,
            "objects": self.objects,
            "records": self.records,
            "read_bytes": self.read_bytes,
            "lost_offsets": self.lost_offsets,
            "findings": [finding.to_json() for finding in self.findings],
        }


def damage(
    kind: FindingKind, log: str, entry: Entry, message: str, lost: OffsetRange | None = None
) -> Finding:
    """Return a damage finding for the object of ``entry``."""
    return Finding(
        severity=Severity.DAMAGE,
        kind=kind,
        log=log,
        key=entry.key,
        message=message,
        partition_id=entry.partition_id,
        lost=lost,
    )


def _covered(ranges: Sequence[OffsetRange]) -> int:
    total = reached = 0
    for offsets in ranges:
        total += max(0, offsets.end - max(offsets.start, reached))
        reached = max(reached, offsets.end)
    return total
