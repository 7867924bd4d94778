"""Rotation against a plain reading of Connect's rules, one record at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.objects.sink.rotation import NO_TIME, RotateRules, WindowState, find_cut
from kafkeep.objects.sink.spec import RotateReason

ASIDE = "tombstones"
"""To this directory and from it is no change, as in the real sink."""


@dataclass
class Row:
    path: str
    time: int | None
    size: int


rows = st.lists(
    st.builds(
        Row,
        path=st.sampled_from(["a", "b", "c", ASIDE]),
        time=st.none() | st.integers(0, 50),
        size=st.integers(0, 9),
    ),
    max_size=40,
)
rules = st.builds(
    RotateRules,
    size=st.none() | st.integers(1, 7),
    bytes=st.none() | st.integers(1, 30),
    interval_ms=st.none() | st.integers(1, 20),
    on_path_change=st.booleans(),
    max_files=st.none() | st.integers(1, 3),
)


def plain(rows: list[Row], rules: RotateRules) -> list[tuple[int, RotateReason]]:
    """Say where windows end: before which row, and why."""
    cuts: list[tuple[int, RotateReason]] = []
    window: list[Row] = []
    for i, row in enumerate(rows):
        base = next((r.time for r in window if r.time is not None), None)
        timed = rules.interval_ms and base is not None and row.time is not None
        if timed and row.time - base >= rules.interval_ms:
            cuts.append((i, RotateReason.INTERVAL))
            window = []
        changed = window and ASIDE not in (window[-1].path, row.path)
        if changed and rules.on_path_change and window[-1].path != row.path:
            cuts.append((i, RotateReason.PATH))
            window = []
        opened = {r.path for r in window}
        if rules.max_files and row.path not in opened and len(opened) == rules.max_files:
            cuts.append((i, RotateReason.FILES))
            window = []
        window.append(row)
        if rules.size and len(window) >= rules.size:
            cuts.append((i + 1, RotateReason.COUNT))
            window = []
        elif rules.bytes and sum(r.size for r in window) >= rules.bytes:
            cuts.append((i + 1, RotateReason.BYTES))
            window = []
    return cuts


def vectorised(
    rows: list[Row], rules: RotateRules, pieces: list[int]
) -> list[tuple[int, RotateReason]]:
    """Feed the rows in pieces, as they come from Kafka."""
    cuts, window, start = [], WindowState(), 0
    for length in [*pieces, len(rows)]:
        part = rows[start : start + length]
        paths = tuple(sorted({row.path for row in part}, reverse=True))
        codes = np.array([paths.index(row.path) for row in part], dtype=np.int32)
        times = np.array([NO_TIME if r.time is None else r.time for r in part], dtype=np.int64)
        sizes = np.array([row.size for row in part], dtype=np.int64)
        begin = 0
        while begin < len(part):
            cut = find_cut(
                window,
                rules,
                begin=begin,
                codes=codes,
                paths=paths,
                times=times,
                sizes=sizes,
                aside=paths.index(ASIDE) if ASIDE in paths else None,
            )
            if cut is None:
                break
            cuts.append((start + cut.row, cut.reason))
            window, begin = WindowState(), cut.row
        start += len(part)
    return cuts


@settings(max_examples=300, deadline=None)
@given(rows=rows, rules=rules, pieces=st.lists(st.integers(1, 10), max_size=8))
def test_windows_end_where_the_rules_say_however_records_come(
    rows: list[Row], rules: RotateRules, pieces: list[int]
) -> None:
    assert vectorised(rows, rules, pieces) == plain(rows, rules)
