"""Objects of the real sink read back without a log, in memory: no Kafka, no S3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.support.golden.cases import GoldenCase

from kafkeep.objects.records import iter_records
from kafkeep.objects.sink.read_windows import entries_by_partition
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.objects.unlogged.listing import list_unlogged
from kafkeep.objects.unlogged.scan import ScanIndex, scan
from kafkeep.objects.unlogged.view import UnloggedView, unlogged_view
from kafkeep.options.unlogged import UnloggedOptions, layout_of_sink
from kafkeep.store.memory import MemoryStore

Place = tuple[str, int]


@dataclass(frozen=True)
class Back:
    """What came back: the view, and rows by topic and partition."""

    view: UnloggedView
    rows: Mapping[Place, list[dict[str, Any]]]


def store_of(objects: Mapping[str, bytes]) -> MemoryStore:
    """Put objects into a store of their own; names it would not take are stored all the same."""
    store = MemoryStore()
    for key, body in objects.items():
        store.put_new(key, body)
    return store


def read_back(objects: Mapping[str, bytes], texts: Mapping[str, str]) -> Back:
    """List, scan, group and read."""
    options = UnloggedOptions.parse(texts)
    store = store_of(objects)
    listing = list_unlogged(store, options)
    index = ScanIndex(0, tuple(scan(store, listing.objects, options)), tuple(listing.odd))
    view = unlogged_view(store, index, options)
    reading = ReadOptions(unlogged=replace(options))
    rows = {
        (pid.topic, pid.partition): [
            row
            for batch in iter_records(store, entries, options=reading)
            for row in batch.to_pylist()
        ]
        for pid, entries in sorted(entries_by_partition(view.view.entries()).items())
    }
    return Back(view, rows)


def read_case(case: GoldenCase, **more: str) -> Back:
    """Read a case's objects as its own configuration says they were written."""
    return read_back(case.objects, {**layout_of_sink(case.config), **more})
