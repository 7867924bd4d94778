"""Rotation: decide where files end, and why, by the rules of Connect's S3 sink. Pure.

The open files of a partition form a window and close together. Rules apply in the order of
Connect's sink. Some rules check a record before it is added, and that record begins the next
window. Other rules check the window after a record is added, and the next record begins a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkeep.numba_setup import Int64s, kernel
from kafkeep.objects.sink.spec import RotateReason

NEVER = np.iinfo(np.int64).max
NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateRules:
    """The limits that close a window. None turns a rule off."""

    size: int | None = None
    bytes: int | None = None
    interval_ms: int | None = None
    on_path_change: bool = False
    max_files: int | None = None
    """When this many directories are open, a record for another directory closes the window."""


@dataclass(slots=True)
class WindowState:
    """Counters of the open files of one partition."""

    count: int = 0
    bytes: int = 0
    base_time: int | None = None
    """The timestamp of the first record that has one."""
    path: Any = None
    """The directory of the last record. None: the next record may have any directory."""
    open_paths: frozenset[Any] = frozenset()
    """The directories with an open file. Only tracked when their number is limited."""


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """The window ends before row ``row``."""

    row: int
    reason: RotateReason


_REASONS = (
    RotateReason.COUNT,
    RotateReason.BYTES,
    RotateReason.INTERVAL,
    RotateReason.PATH,
    RotateReason.FILES,
)
_COUNT, _BYTES, _INTERVAL, _PATH, _FILES, _NONE = 0, 1, 2, 3, 4, -1
_ELSEWHERE, _ANYWHERE = -1, -2


@kernel
def _next_cut(  # noqa: PLR0917
    state: Int64s,
    rules: Int64s,
    begin: int,
    codes: NDArray[np.int32],
    times: Int64s,
    sizes: Int64s,
    is_open: NDArray[np.bool_],
) -> tuple[int, int]:
    """Add rows from ``begin`` until a rule closes the window. Return the end row and the rule.

    ``state`` holds count, bytes, base time, last code and open files. ``rules`` holds size, bytes,
    interval, close on path change, the code that closes nothing, and the maximum of open files.
    ``is_open`` has one flag for each code.
    """
    count, weight, base, last, files = state[0], state[1], state[2], state[3], state[4]
    reason = _NONE
    i = begin
    while i < len(codes):
        time = times[i]
        if count > 0 and NO_TIME not in (base, time) and time - base >= rules[2]:
            reason = _INTERVAL
            break
        aside = codes[i] == rules[4]
        changed = codes[i] != last and last != _ANYWHERE and not aside
        if count > 0 and rules[3] == 1 and changed:
            reason = _PATH
            break
        if not is_open[codes[i]]:
            if files >= rules[5]:
                reason = _FILES
                break
            is_open[codes[i]] = True
            files += 1
        count += 1
        weight += sizes[i]
        last = _ANYWHERE if aside else codes[i]
        if base == NO_TIME:
            base = time
        i += 1
        if count >= rules[0]:
            reason = _COUNT
            break
        if weight >= rules[1]:
            reason = _BYTES
            break
    state[0], state[1], state[2], state[3], state[4] = count, weight, base, last, files
    return i, reason


def find_cut(
    window: WindowState,
    rules: RotateRules,
    *,
    begin: int,
    codes: NDArray[np.int32],
    paths: tuple[Any, ...],
    times: Int64s | None,
    sizes: Int64s,
    aside: int | None = None,
) -> WindowEnd | None:
    """Add rows from ``begin`` to ``window``. Return where it ends, or None when it stays open.

    ``times`` are in ms, with ``NO_TIME`` for records without a timestamp. A record that is older
    than the first one never closes a window. Changing to or from the directory with code ``aside``
    does not count as a change of directory. After a cut the caller begins a new window.
    """
    if times is None:
        times = np.full(len(codes), NO_TIME, dtype=np.int64)
    last = _ANYWHERE
    if window.path is not None:
        last = paths.index(window.path) if window.path in paths else _ELSEWHERE
    base = NO_TIME if window.base_time is None else window.base_time
    before = window.open_paths
    is_open = np.array([rules.max_files is None or path in before for path in paths], np.bool_)
    state = np.array([window.count, window.bytes, base, last, len(before)], dtype=np.int64)
    wanted = [
        NEVER if limit is None else limit for limit in (rules.size, rules.bytes, rules.interval_ms)
    ]
    wanted += [int(rules.on_path_change), _NONE if aside is None else aside]
    wanted += [NEVER if rules.max_files is None else rules.max_files]
    row, reason = _next_cut(
        state,
        np.array(wanted, dtype=np.int64),
        begin,
        codes,
        times,
        sizes,
        is_open,
    )
    if rules.max_files is not None and state[4] > len(before):
        window.open_paths = before | {paths[code] for code in np.flatnonzero(is_open).tolist()}
    window.count, window.bytes = int(state[0]), int(state[1])
    window.base_time = None if state[2] == NO_TIME else int(state[2])
    if state[3] != _ELSEWHERE:
        window.path = None if state[3] == _ANYWHERE else paths[int(state[3])]
    return None if reason == _NONE else WindowEnd(int(row), _REASONS[reason])
