from __future__ import annotations

import hashlib
import pickle
import tracemalloc
from dataclasses import replace

import pytest

from kafkeep.archive.entry import Entry, IndexPoint
from kafkeep.archive.keys import data_key
from kafkeep.archive.packed_entries import EntryPacker, PackedEntries

COUNT = 1000


def segment(make_entry, number: int) -> Entry:
    """Return the entry of an object of a megabyte, with a digest of its own."""
    entry = make_entry(number * 1000, number * 1000 + 990)
    low = 1_700_000_000_000 + number * 60_000
    return replace(
        entry,
        size_bytes=1_000_000 + number,
        raw_bytes=3_000_000 + number,
        min_timestamp=low,
        max_timestamp=low + 59_000,
        sha256=hashlib.sha256(str(number).encode()).hexdigest(),
        index=(IndexPoint(entry.range.start, 0, 0, low, low + 59_000),),
    )


def test_packed_entries_take_a_tenth_of_the_memory(make_entry) -> None:
    packer = EntryPacker()
    tracemalloc.start()
    try:
        for number in range(COUNT):
            packer.add(segment(make_entry, number))
        packed = packer.packed()
        del packer
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 90 * COUNT
    assert len(pickle.dumps(packed)) < 70 * COUNT
    assert packed == [segment(make_entry, number) for number in range(COUNT)]


def test_entries_are_ordered_by_range(make_entry) -> None:
    found = [segment(make_entry, number) for number in (2, 0, 1)]
    assert list(PackedEntries.of(found)) == [found[1], found[2], found[0]]


def test_entries_of_several_partitions_are_refused(make_entry) -> None:
    packer = EntryPacker()
    packer.add(make_entry(0, 1))
    with pytest.raises(ValueError, match="is not of orders-0"):
        packer.add(make_entry(0, 1, partition=1))


def test_no_entries_are_like_an_empty_tuple() -> None:
    empty = PackedEntries.of(())
    assert empty == () and not empty and empty.oldest_ms is None
    assert pickle.loads(pickle.dumps(empty)) == ()
    with pytest.raises(IndexError):
        empty[0]


@pytest.mark.parametrize(
    "change",
    [
        {"size_bytes": 2**32},
        {"raw_bytes": 2**40},
        {"sha256": "AB" * 32},
        {"sha256": "ab" * 16},
        {"sha256": " " + "ab" * 32},
        {"sha256": ""},
    ],
)
def test_an_entry_that_does_not_fit_is_kept_as_it_is(make_entry, change) -> None:
    entries = [make_entry(0, 10), replace(make_entry(10, 20), **change), make_entry(20, 30)]
    packed = PackedEntries.of(entries)
    assert packed == entries
    assert packed[1].sha256 == entries[1].sha256
    assert sorted(packed.iter_sizes()) == [(e.key, e.size_bytes) for e in entries]


@pytest.mark.parametrize(
    "key",
    [
        "topics/orders/partition=0/orders+0+0000000005.log.zst",
        "topics/orders/partition=0/orders+0+00000000010.log.zst",
        "topics/orders/partition=0/orders+0+9999999999999.json",
        "topics/orders/no-number",
        "topics/orders/\u0660+\u0661.json",
        "topics/orders+0+0000000012.json/part.lz4",
    ],
)
def test_any_key_comes_back(make_entry, key) -> None:
    entry = replace(make_entry(10, 20), key=key)
    assert PackedEntries.of([entry])[0].key == key


def test_every_name_of_an_offset_comes_back(make_entry) -> None:
    pid = make_entry(0, 1).partition_id
    starts = [0, 9, 10, 10**9, 10**10 - 1, 10**10, 10**18]
    entries = [
        replace(make_entry(start, start + 1), key=data_key(pid, start, ".log.zst", pad))
        for start in starts
        for pad in (10, 11)
    ]
    assert [entry.key for entry in PackedEntries.of(entries)] == [e.key for e in entries]
