from __future__ import annotations

import dataclasses
import pickle
import tracemalloc

import pytest

from kafkeep.archive.entry import Entry, IndexPoint, PackedIndex

POINTS = tuple(
    IndexPoint(10**6 + n, 10**7 + n, 10**4 + n, 10**12 + n, 10**12 + n) for n in range(128)
)


def test_an_entry_of_a_whole_segment_takes_little_memory(make_entry) -> None:
    document = dataclasses.replace(make_entry(0, 10), index=POINTS).to_json()
    tracemalloc.start()
    try:
        entry = Entry.from_json(document)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 128 * 40 + 1500, "a tuple of points takes 32 KB"
    assert entry.index == POINTS


def test_a_packed_index_is_used_like_a_tuple_of_its_points() -> None:
    packed = PackedIndex(POINTS)
    assert packed == POINTS
    assert {POINTS: "found"}[packed] == "found", "a tuple compared with it is equal, too"
    assert packed != POINTS[1:]
    assert (len(packed), packed[0], packed[-1]) == (128, POINTS[0], POINTS[-1])
    assert (packed[3:7], packed[120:], packed[::-50]) == (POINTS[3:7], POINTS[120:], POINTS[::-50])
    assert list(packed) == list(POINTS)
    assert pickle.loads(pickle.dumps(packed)) == POINTS
    with pytest.raises(IndexError):
        packed[128]


@pytest.mark.parametrize("points", [[[1, 2, 3, 4]], [[1, 2, 3, 4, 5, 6]], [["1", 2, 3, 4, 5]]])
def test_points_of_another_form_are_refused(points) -> None:
    with pytest.raises(TypeError):
        PackedIndex(points)


def test_numbers_of_more_than_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="invalid numbers"):
        PackedIndex([[0, 0, 0, 0, 2**63]])
