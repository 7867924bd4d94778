"""What the plan of a restore of everything takes in the driver's memory."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from bench.simulated_log import LOG, TOPIC_PARTITIONS, fill_log

from kafkeep.archive.view import load_view
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.plan import plan_restore
from kafkeep.restore.source import load_contents
from kafkeep.store.memory import MemoryStore

ENTRIES_OF_A_PARTITION = 50
PARTITION_BYTES = 1500


@pytest.mark.parametrize("options", [RestoreOptions(), RestoreOptions(from_ms=0)])
def test_an_object_takes_less_than_a_hundred_bytes(options: RestoreOptions) -> None:
    store, entries = MemoryStore(), TOPIC_PARTITIONS * ENTRIES_OF_A_PARTITION
    fill_log(store, TOPIC_PARTITIONS, entries)
    gc.collect()
    tracemalloc.start()
    try:
        plan = plan_restore(load_contents(load_view(store, LOG), options), options, id="x")
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert plan.topics[0].objects == entries
    assert taken < 100 * entries + PARTITION_BYTES * TOPIC_PARTITIONS
