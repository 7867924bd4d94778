from __future__ import annotations

from kafkeep.archive.commit import Changes, Intent
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import load_view
from kafkeep.objects.sink.spec import load_read_options
from kafkeep.options.sink.sink import SinkSpec
from kafkeep.store.memory import MemoryStore

TEXTS = {"format.class": "bytes", "format.bytearray.separator": ";"}


def test_how_a_sink_wrote_is_found_behind_any_number_of_commits_of_groups() -> None:
    store, pid = MemoryStore(), PartitionId("t", 1, 0)
    log = CommitLog.open(store, "sink", writer="w", now_ms=lambda: 0)
    log.append(Changes(positions={pid: 1000}))
    log.append(Changes(intent=Intent(ranges=(), options={"sink": TEXTS}, at_ms=0)))
    log.append(Changes(closes_intent=True))
    for offset in range(150):
        log.append(Changes(groups={"g": {pid: offset}}))
    assert load_read_options(store, load_view(store, "sink")).spec == SinkSpec(TEXTS)
