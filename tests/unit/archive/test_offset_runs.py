"""Runs of offsets: packed small, the same when they come back."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.archive.offset_runs import NO_RUNS, OffsetRuns

gaps = st.lists(
    st.tuples(st.integers(1, 2**40), st.integers(1, 2**20)), max_size=50
)  # skipped, held


@given(gaps, st.integers(0, 2**62))
def test_what_is_packed_comes_back(numbers: list[tuple[int, int]], first: int) -> None:
    pairs, at = [], first
    for skipped, held in numbers:
        pairs.append((at, at + held))
        at += held + skipped
    runs = OffsetRuns.of(pairs)
    assert list(runs) == pairs
    assert OffsetRuns.from_json(runs.to_json()) == runs
    assert OffsetRuns.from_json([list(pair) for pair in pairs]) == runs  # as it was written once
    assert bool(runs) == bool(pairs)


def test_a_run_for_every_thousandth_record_takes_three_bytes() -> None:
    runs = OffsetRuns.of([(n, n + 1) for n in range(0, 1_000_000, 1000)])
    assert len(base64.b64decode(runs.to_json())) <= 3 * 1000


@pytest.mark.parametrize(
    "edges", [[(5, 5)], [(3, 2)], [(0, 4), (4, 5)], [(0, 4), (2, 5)], [(-1, 2)]]
)
def test_runs_that_do_not_ascend_are_refused(edges: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        OffsetRuns.of(edges)


@pytest.mark.parametrize("text", ["gA==", "AQ==", "not base64!", "AYA="])
def test_a_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"truncated|base64|padding|Non-base64"):
        OffsetRuns.from_json(text)


def test_no_runs_are_false() -> None:
    assert not NO_RUNS
    assert list(NO_RUNS) == []
