"""Bytes that wait for their object to be sent: few of them in memory, none of them lost."""

import gc
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path
from unittest import mock

import pytest

from kafkeep.errors import EnvironmentFault
from kafkeep.store.spill import BufferedBytes, _Budget

PIECES = [random.Random(n).randbytes(n * 1000) for n in range(1, 30)]


def sent(held: BufferedBytes) -> bytes:
    """Read it as http.client does."""
    held.seek(0)
    found = []
    while piece := held.read(8192):
        found.append(piece)
    return b"".join(found)


def filled(budget: _Budget) -> BufferedBytes:
    held = BufferedBytes(budget)
    for piece in PIECES:
        held.add(piece)
    return held


def test_what_was_added_is_read_as_often_as_it_is_asked_for() -> None:
    for limit in (0, 50_000, 1 << 30):
        held = filled(_Budget(limit))
        assert sent(held) == sent(held) == b"".join(PIECES) == b"".join(held)
        assert len(held) == held.seek(0, 2) == held.tell()


def test_one_piece_is_sent_as_it_is_and_more_as_a_file() -> None:
    held = BufferedBytes(_Budget(10_000))
    held.add(PIECES[0])
    assert held.to_send() is PIECES[0]
    held.add(PIECES[1])
    assert held.to_send() is held
    held.add(PIECES[20])
    assert held.to_send() is held
    assert sent(held) == PIECES[0] + PIECES[1] + PIECES[20]


def test_no_more_than_the_limit_stays_in_memory() -> None:
    budget = _Budget(100_000)
    several = [filled(budget) for _ in range(5)]
    assert sum(held._body.in_memory for held in several) <= 100_000
    assert all(sent(held) == b"".join(PIECES) for held in several)


def test_all_share_one_file_and_it_goes_with_the_last_of_them() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    budget = _Budget(0)
    several = [filled(budget) for _ in range(5)]
    assert len(os.listdir("/proc/self/fd")) == before + 1
    while several:
        assert sent(several[-1]) == b"".join(PIECES)
        several.pop()
    assert len(os.listdir("/proc/self/fd")) == before


def file_bytes() -> int:
    """Measure the file that objects share; 0 when there is none."""
    files = [one for one in Path("/proc/self/fd").iterdir() if "kafkeep-spill-" in _target(one)]
    return sum(one.stat().st_size for one in files)


def _target(link: Path) -> str:
    with suppress(FileNotFoundError):  # the folder's own, while it was listed
        return str(link.readlink())
    return ""


def test_the_file_is_no_larger_than_what_is_alive_however_much_goes_through_it() -> None:
    gc.collect()
    before, budget = file_bytes(), _Budget(0)
    alive = [filled(budget) for _ in range(3)]
    for turn in range(30):
        changed = BufferedBytes(budget)
        for piece in reversed(PIECES):
            changed.add(piece)
        alive[turn % 3] = changed
        assert file_bytes() - before <= 4 * len(changed)
    assert all(sent(held) == b"".join(reversed(PIECES)) for held in alive)
    alive[1].clear()
    alive[2].clear()
    alive[0].add(PIECES[0])
    assert sent(alive[0]) == b"".join(reversed(PIECES)) + PIECES[0]
    alive.clear()
    del changed
    assert file_bytes() == before


def test_a_write_that_fails_leaves_no_room_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = _Budget(0)
    first = filled(budget)
    size = file_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", mock.Mock(side_effect=OSError(ENOSPC, "full")))
        with pytest.raises(EnvironmentFault, match="full"):
            filled(budget)
    gc.collect()
    assert file_bytes() == size
    assert sent(first) == b"".join(PIECES)


def test_objects_that_are_dropped_while_another_is_written_cost_it_nothing() -> None:
    budget = _Budget(0)

    def drop(_place: object, _data: object, _at: int) -> int:
        dropped.clear()  # as the collector does, at any moment
        raise OSError(ENOSPC, "full")

    first, dropped = filled(budget), [filled(budget)]
    with mock.patch.object(os, "pwrite", drop), pytest.raises(EnvironmentFault):
        first.add(PIECES[0])
    assert file_bytes() == sum(map(len, PIECES))


def test_what_is_dropped_makes_room_for_others() -> None:
    budget = _Budget(sum(map(len, PIECES)))
    filled(budget)  # dropped at once
    held = filled(budget)
    assert held._body.in_memory == len(held)
    held.clear()
    assert len(held) == 0 and sent(held) == b""
    again = filled(budget)
    assert again._body.in_memory == len(again)


def test_threads_do_not_mix_their_bytes() -> None:
    budget = _Budget(30_000)

    def write(seed: int) -> bool:
        pieces = [random.Random(seed * 1000 + n).randbytes(2000) for n in range(200)]
        held = BufferedBytes(budget)
        for piece in pieces:
            held.add(piece)
        return sent(held) == b"".join(pieces)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(write, range(32)))
