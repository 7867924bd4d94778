"""What ``kafkeep backup`` prints when it ends."""

from __future__ import annotations

from kafkeep.backup.summary import BackupSummary
from kafkeep.cli.backup import _pairs


def test_offsets_that_wait_are_told_and_nothing_is_when_none_do() -> None:
    told = _pairs(BackupSummary(waiting=20))["waiting"]
    assert told == "20 offsets not archived yet; the next run reads them"
    assert "waiting" not in _pairs(BackupSummary())
