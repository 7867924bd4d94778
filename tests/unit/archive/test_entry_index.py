from __future__ import annotations

import dataclasses
import pickle
import tracemalloc

import pytest

from kafkeep.archive.entry import Entry, IndexPoint, PackedIndex, parse_index

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
    assert taken < 128 * 20 + 1700, "a tuple of points takes 32 KB"
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
        parse_index(points)


@pytest.mark.parametrize(
    "points",
    [
        ((5, 0, 0, 7, 9), (2**40, 1, 2, 8, 10)),
        ((5, 0, 0, 7, 9), (4, 1, 2, 8, 10)),
        ((0, 0, 0, -(2**63), 2**63 - 1), (1, 1, 1, 0, 0)),
        ((5, 0, 0, 7, 9), (6, 1, 2, 3, 6)),
    ],
)
def test_points_far_apart_or_out_of_order_come_back_as_they_were(points) -> None:
    packed = parse_index(list(map(list, points)))
    assert isinstance(packed, PackedIndex) and packed == points
    assert pickle.loads(pickle.dumps(packed)) == points


def test_an_index_of_one_point_or_of_none_is_a_tuple(make_entry) -> None:
    entry = make_entry(0, 10)
    assert type(Entry.from_json(entry.to_json()).index) is tuple
    assert Entry.from_json({**entry.to_json(), "index": []}).index == ()
    assert PackedIndex(()) == ()


def test_numbers_of_more_than_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="invalid numbers"):
        parse_index([[0, 0, 0, 0, 2**63]])
