"""What was found wrong with an archive, or worth knowing, and the report of it, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.state import LogState
from kafkeep.errors import DamagedError, GapError


class Severity(StrEnum):
    """How bad it is. Damage, and lost commits, make an archive not intact."""

    DAMAGE = "damage"
    WARNING = "warning"
    INFO = "info"


class FindingKind(StrEnum):
    """What it is; scripts may rely on these words."""

    MISSING = "missing"
    """An object that the log names is not there."""
    EXPIRED = "expired"
    """It is not there, and a retention rule may have deleted it: no damage."""
    TRUNCATED = "truncated"
    """An object is shorter than the log says."""
    ALTERED = "altered"
    """An object's bytes are not those that were written."""
    UNDECODABLE = "undecodable"
    """The bytes are those that were written, and yet the records cannot be had from them."""
    MISCOUNTED = "miscounted"
    """Records, offsets, times or index are not what the log says."""
    BROKEN_CHAIN = "broken-chain"
    """A commit is missing, damaged, or does not continue the one before it."""
    LOST_COMMITS = "lost-commits"
    """The bucket shows that the log once went further, or was another: commits were removed."""
    BAD_SCHEMAS = "bad-schemas"
    """The document of schemas that a commit names is missing, or not what was written."""
    OVERLAP = "overlap"
    """Two objects answer for the same offsets."""
    BAD_CHECKPOINT = "bad-checkpoint"
    """A checkpoint disagrees with the log; it is only a shortcut and the log holds."""
    GAP = "gap"
    """Offsets that were never archived; the log says why."""
    NO_OBJECT = "no-object"
    """Archived offsets for which there is no object: all of them held no committed record."""
    OPEN_INTENT = "open-intent"
    """A backup is under way, or was cut short and will be finished by the next."""
    NO_LOG = "no-log"
    """Objects of another writer: nothing says which there were, and what their bytes were."""
    ORPHAN = "orphan"
    """An object that no log names: a backup that was cut short left it behind."""
    STRAY = "stray"
    """A link, a special file or a name that is not UTF-8, in a folder: it was passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found; ``lost`` are the offsets that can no longer be read or trusted."""

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
    """What was checked and what was found; damage first, then warnings, then the rest."""

    archive: str
    logs: tuple[str, ...]
    deep: bool
    commits: int
    objects: int
    records: int
    """Records that the logs count, lost ones included."""
    read_bytes: int
    findings: tuple[Finding, ...]
    states: tuple[LogState, ...] = ()
    """What the logs said when they were verified."""

    @property
    def is_damaged(self) -> bool:
        """Whether anything is damaged."""
        return any(finding.severity is Severity.DAMAGE for finding in self.findings)

    @property
    def intact(self) -> bool:
        """Whether nothing is damaged, and nothing shows that commits were removed."""
        lost = any(finding.kind is FindingKind.LOST_COMMITS for finding in self.findings)
        return not self.is_damaged and not lost

    @property
    def verdict(self) -> str:
        """One word for people; without a log nobody can say that nothing is missing."""
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
        """How many offsets can no longer be read or trusted; each is counted once."""
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
    """Return a finding of damage to the object of ``entry``."""
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
