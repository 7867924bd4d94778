"""What ``kafkeep backup`` prints when it ends."""

from __future__ import annotations

from kafkeep.backup.summary import BackupSummary
from kafkeep.cli.backup import _pairs


def test_pending_offsets_are_reported_only_when_there_are_some() -> None:
    told = _pairs(BackupSummary(waiting=20))["waiting"]
    assert told == "20 offsets not archived yet; the next run reads them"
    assert "waiting" not in _pairs(BackupSummary())
