"""Bytes that are fetched before their turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.support.waiting import until

from kafkeep.errors import KeyMissingError
from kafkeep.objects import prefetch as module
from kafkeep.objects.prefetch import Prefetcher, Read, SequentialReader, open_prefetcher

MIB = 1 << 20


class Gate:
    """A store whose reads wait until it is opened, and that tells what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Read] = []
        self.opened = threading.Event()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.asked.append((key, start, end))
        assert self.opened.wait(30)
        if key == "gone":
            raise KeyMissingError(key)
        return f"{key} {start} {end}".encode()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


def test_what_is_expected_is_fetched_meanwhile_and_once(gate: Gate) -> None:
    with open_prefetcher(gate) as ahead:
        ahead.expect(("a", 0, 5))
        ahead.expect(("a", 0, 5))
        ahead.expect(("b", 5, 7))
        until(lambda: sorted(gate.asked) == [("a", 0, 5), ("b", 5, 7)])
        gate.opened.set()
        assert ahead.get_range("b", 5, 7) == b"b 5 7"
        assert ahead.get_range("a", 0, 5) == b"a 0 5"
        assert len(gate.asked) == 2
        assert ahead.get_range("a", 0, 5) == b"a 0 5"  # again, when it came damaged
        assert len(gate.asked) == 3


def test_a_fault_is_raised_when_its_turn_comes(gate: Gate) -> None:
    gate.opened.set()
    with open_prefetcher(gate) as ahead:
        ahead.expect(("gone", 0, 5))
        assert ahead.get_range("a", 0, 5) == b"a 0 5"
        with pytest.raises(KeyMissingError):
            ahead.get_range("gone", 0, 5)


def test_readers_share_the_room_there_is(gate: Gate) -> None:
    with open_prefetcher(gate) as ahead, open_prefetcher(ahead) as same:
        assert same is ahead
        for number in range(100):
            ahead.expect((f"{number}", 0, 4 * MIB))
        assert held(ahead) == module.ROOM_BYTES
        gate.opened.set()
        assert ahead.get_range("0", 0, 4 * MIB) == b"0 0 4194304"
        assert held(ahead) == module.ROOM_BYTES - 4 * MIB
        ahead.expect(("more", 0, 4 * MIB))
        assert held(ahead) == module.ROOM_BYTES
        assert ahead.get_range("99", 0, 1) == b"99 0 1"  # not expected: fetched in its turn


def test_no_more_requests_are_made_than_there_is_room_for(gate: Gate) -> None:
    with open_prefetcher(gate) as ahead:
        for number in range(1000):
            ahead.expect((f"{number}", 0, 1))
        assert len(ahead._coming) == module.ROOM_REQUESTS


@pytest.mark.parametrize("size", [1, 100, MIB, 4 * MIB, 9 * MIB])
def test_a_reader_has_what_follows_under_way(gate: Gate, size: int) -> None:
    gate.opened.set()
    reads = [("k", n * size, n * size + size) for n in range(100)]
    with open_prefetcher(gate) as ahead:
        reader = SequentialReader(ahead, reads)
        for number, read in enumerate(reads):
            assert reader.get_range(*read) == b"k %d %d" % read[1:]
            coming = len(ahead._coming)
            assert coming or number == len(reads) - 1
            assert coming <= max(1, min(module.READER_REQUESTS, module.READER_BYTES // size))
        until(lambda: len(gate.asked) == 100)
    assert sorted(gate.asked) == reads


def test_reads_out_of_order_are_made_once(gate: Gate) -> None:
    gate.opened.set()
    reads = [(f"{n}", 0, 1) for n in range(200)]
    with open_prefetcher(gate) as ahead:
        reader = SequentialReader(ahead, reads)
        for read in (*reads[190:], *reads[:190]):
            reader.get_range(*read)
    assert sorted(gate.asked) == sorted(reads)


def test_what_is_not_wanted_any_more_is_dropped(gate: Gate) -> None:
    with open_prefetcher(gate) as ahead:
        for number in range(module.THREADS + 20):
            ahead.expect((f"{number}", 0, 1))
        until(lambda: len(gate.asked) == module.THREADS)
    gate.opened.set()
    until(lambda: "read-ahead" not in {t.name.rsplit("_", 1)[0] for t in threading.enumerate()})
    assert len(gate.asked) == module.THREADS


def held(ahead: Prefetcher) -> int:
    return sum(end - start for _, start, end in ahead._coming)
