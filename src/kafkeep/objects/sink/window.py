"""An open window: the open files of one partition, filled until a rule closes them. Runs in tasks.

All rows are checked before any row is added. A row that no file accepts is returned to the caller
and leaves the window unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.objects.sink.open_file import (
    FileLocation,
    FinishedObject,
    MemoryTrimmer,
    OpenFile,
    OpenObject,
    PreparedRows,
    ViewFormats,
)
from kafkeep.objects.sink.pipeline import PlacedRows
from kafkeep.objects.sink.rotation import NO_TIME, RotateRules, WindowState, find_cut
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.records.arrow import view_valid
from kafkeep.records.compatibility import needs_new_file
from kafkeep.records.rows import Rows
from kafkeep.records.schema import Schema
from kafkeep.store.spill import Spill


@dataclass(frozen=True, slots=True)
class AssignedRows:
    """Rows, with the file, the size and optionally the timestamp of each."""

    rows: Rows
    places: tuple[FileLocation, ...]
    codes: NDArray[np.int32]
    """For each row, the index of its place."""
    sizes: NDArray[np.int64]
    times: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def tombstones(self) -> int | None:
        """The index of the place for tombstones; None when there is none."""
        return len(self.places) - 1 if self.places and self.places[-1].tombstones else None

    def without(self, rows: Sequence[int]) -> AssignedRows:
        """Return a copy without these rows. It keeps no reference to their memory."""
        kept = np.delete(np.arange(len(self), dtype=np.int64), rows)
        return replace(
            self,
            rows=self.rows.take(kept),
            codes=self.codes[kept],
            sizes=self.sizes[kept],
            times=None if self.times is None else self.times[kept],
        )


def assign_files(ready: PlacedRows, *, with_times: bool) -> AssignedRows:
    """Assign each row to its file."""
    rows, placed = ready.rows, ready.placed
    places = tuple(
        FileLocation(rows.topic, path, tombstones=code == placed.tombstones)
        for code, path in enumerate(placed.paths)
    )
    times = placed.times if with_times else None
    if times is not None:
        times = np.where(times < 0, NO_TIME, times)
    return AssignedRows(rows, places, placed.codes, ready.sizes, times)


@dataclass(frozen=True, slots=True)
class FillResult:
    """The number of rows that were added, and the reason to stop there."""

    stop: int
    """The first row that was not added."""
    reason: RotateReason | None = None
    """Why the window closes before row ``stop``; None when it stays open."""
    bad: tuple[tuple[int, RecordError], ...] = ()
    """Rows from ``stop`` that no file accepts. The caller removes them and continues."""


class OpenWindow:
    """The open files of a partition and the rules that close them. ``files.finish`` closes it."""

    def __init__(self, views: ViewFormats, memory: MemoryBudget, rules: RotateRules) -> None:
        self.files = WindowFiles(views, memory)
        self.state = WindowState()
        self.last_offset = -1
        """The offset of the last row added."""
        self._rules = rules
        self._keys_have_schema = views.keys_have_schema

    def fill(self, assigned: AssignedRows, begin: int) -> FillResult:
        """Add rows from ``begin`` until the window closes, a row is refused, or no row is left."""
        limit, refusal = self._limit(assigned, begin)
        if (at := self._null_key(assigned, begin, limit)) < limit:
            limit, refusal = at, None
        if refusal is not None and limit == begin:
            return FillResult(begin, bad=self._refused(assigned, begin, refusal))
        before = replace(self.state)
        cut = find_cut(
            self.state,
            self._rules,
            begin=begin,
            codes=assigned.codes[:limit],
            paths=assigned.places,
            times=assigned.times if assigned.times is None else assigned.times[:limit],
            sizes=assigned.sizes[:limit],
            aside=assigned.tombstones,
        )
        stop = limit if cut is None else cut.row
        try:
            prepared = list(self._prepare(assigned, begin, stop))
        except RecordError:
            self.state = before
            return FillResult(begin, bad=tuple(self._bad(assigned, begin, stop)))
        for one, weight in prepared:
            self.files.take(one, weight)
        if stop > begin:
            self.last_offset = int(assigned.rows.offsets[stop - 1])
        if cut is not None:
            return FillResult(stop, cut.reason)
        ends = stop < len(assigned) and refusal is None
        return FillResult(stop, RotateReason.SCHEMA if ends else None)

    def _limit(self, assigned: AssignedRows, begin: int) -> tuple[int, RecordError | None]:
        """Return the first row that its open file does not accept.

        The error is set when a new file would not accept the row either.
        """
        limit, refusal = len(assigned), None
        barred = self._barred(assigned)
        valid = view_valid(assigned.rows.value.array) if barred else None
        for code, error in barred.items():
            here = assigned.codes[begin:limit] == code
            # A tombstone has no schema, so the open file accepts it.
            hits = np.flatnonzero(here if valid is None else here & (valid[begin:limit] != 0))
            if len(hits):
                limit, refusal = begin + int(hits[0]), error
        return limit, refusal

    def _null_key(self, assigned: AssignedRows, begin: int, limit: int) -> int:
        """Return the first row with a null key whose file accepts no null keys, or ``limit``."""
        absent = view_valid(assigned.rows.key.array) if self._keys_have_schema else None
        if absent is None:
            return limit
        schema = assigned.rows.key.schema
        is_open = schema is None or schema.optional
        codes, nulls = assigned.codes[begin:limit], absent[begin:limit] == 0
        found = limit
        for code in np.unique(codes[nulls]).tolist():
            here = np.flatnonzero(codes == code)
            first = here[nulls[here]][0]
            begins_so = is_open or bool(first == here[0])
            if not self.files.takes_null_keys(assigned.places[code], begins_so):
                found = min(found, begin + int(first))
        return found

    def _barred(self, assigned: AssignedRows) -> dict[int, RecordError | None]:
        """Return the places whose open files do not accept rows of this schema."""
        found: dict[int, RecordError | None] = {}
        schema = assigned.rows.value.schema
        for code, place in enumerate(assigned.places) if len(self.files) else ():
            try:
                if self.files.wants_new(place, schema):
                    found[code] = None
            except RecordError as error:
                found[code] = error
        return found

    def _refused(
        self, assigned: AssignedRows, begin: int, refusal: RecordError
    ) -> tuple[tuple[int, RecordError], ...]:
        """Return the refused row, and the rows directly after it for the same file."""
        others = np.flatnonzero(assigned.codes[begin:] != assigned.codes[begin])
        end = begin + int(others[0]) if len(others) else len(assigned)
        return tuple((row, refusal) for row in range(begin, end))

    def _prepare(
        self, assigned: AssignedRows, begin: int, stop: int
    ) -> Iterator[tuple[PreparedRows, int]]:
        """Yield the prepared rows of each file, and their size. Add nothing yet."""
        if begin == stop:
            return
        rows, here = assigned.rows.slice(begin, stop), assigned.codes[begin:stop]
        sizes = assigned.sizes[begin:stop]
        if (here == here[0]).all():
            yield self.files.prepare(assigned.places[here[0]], rows), int(sizes.sum())
            return
        order = np.argsort(here, kind="stable").astype(np.int64)
        grouped, ordered, sizes = rows.take(order), here[order], sizes[order]
        edges = (np.flatnonzero(np.diff(ordered)) + 1).tolist()
        for first, last in zip([0, *edges], [*edges, len(order)], strict=True):
            mine = self.files.prepare(assigned.places[ordered[first]], grouped.slice(first, last))
            yield mine, int(sizes[first:last].sum())

    def _bad(
        self, assigned: AssignedRows, begin: int, stop: int
    ) -> Iterator[tuple[int, RecordError]]:
        """Find the rows that no file accepts, by bisection."""
        try:
            for _ in self._prepare(assigned, begin, stop):
                pass
        except RecordError as error:
            if stop - begin == 1:
                yield begin, error
                return
            middle = (begin + stop) // 2
            yield from self._bad(assigned, begin, middle)
            yield from self._bad(assigned, middle, stop)


MEMORY_BYTES = 80 << 20
"""The memory limit for the files of one task. Files beyond it go to disk."""


class MemoryBudget:
    """The memory limit for all files of a task. Beyond the limit, the largest files go to disk.

    Files that are being uploaded count too, but stay in memory because uploads read them.
    ``wait_one`` waits for one upload and returns False when none is running. It is called before
    any file goes to disk.
    """

    def __init__(
        self, limit_bytes: int = MEMORY_BYTES, wait_one: Callable[[], bool] = lambda: False
    ) -> None:
        self._limit = limit_bytes
        self._wait_one = wait_one
        self._windows: set[WindowFiles] = set()
        self._trimmer = MemoryTrimmer()

    def join(self, window: WindowFiles) -> None:
        """Start to count a window."""
        self._windows.add(window)

    def leave(self, window: WindowFiles) -> None:
        """Stop counting a window. Any thread may call it when the objects are stored."""
        self._windows.discard(window)

    @property
    def held_bytes(self) -> int:
        """The memory that all windows hold."""
        return sum(window.held_bytes for window in tuple(self._windows))

    def save(self) -> None:
        """Reduce memory to the limit: wait for uploads, then move files to disk, largest first.

        Encoded bytes go first. If that is not enough, encoders are flushed too.
        """
        self._trimmer.save()
        while self.held_bytes > self._limit and self._wait_one():
            pass
        if self.held_bytes <= self._limit:
            return
        for free in (WindowFiles.to_disk, WindowFiles.flush):
            open_ones = [window for window in tuple(self._windows) if not window.is_finished]
            for window in sorted(open_ones, key=lambda w: -w.held_bytes):
                free(window)
                if self.held_bytes <= self._limit // 2:
                    return


class WindowFiles:
    """All open files of one partition. They close together."""

    def __init__(self, views: ViewFormats, memory: MemoryBudget) -> None:
        self._views = views
        self._mode = views.sink.rotate.schema_compatibility
        self._spill = Spill()
        self._files: dict[FileLocation, OpenFile] = {}
        self._schemas: dict[FileLocation, Schema | None] = {}
        self._memory = memory
        self.held_bytes = 0
        """The memory of the files at the last count."""
        self.is_finished = False
        memory.join(self)

    def __len__(self) -> int:
        return len(self._files)

    def wants_new(self, place: FileLocation, schema: Schema | None) -> bool:
        """Return whether a value of ``schema`` needs a new file at ``place``."""
        if place not in self._schemas or place.tombstones:
            return False
        return needs_new_file(self._schemas[place], schema, self._mode)  # type: ignore[arg-type]

    def takes_null_keys(self, place: FileLocation, begins_so: bool) -> bool:
        """Return whether the file at ``place`` accepts null keys.

        ``begins_so`` is the answer when no file is open there.
        """
        file = self._files.get(place)
        return begins_so if file is None else file.takes_null_keys

    def prepare(self, place: FileLocation, rows: Rows) -> PreparedRows:
        """Prepare rows for one file, without changing it.

        Raise RecordError when the file does not accept a row.
        """
        file = self._files.get(place) or OpenFile(self._views, place, self._spill)
        return PreparedRows(place, file, rows, file.prepare(rows))

    def take(self, prepared: PreparedRows, weight: int) -> None:
        """Add prepared rows to their file, and open the file if it is new.

        ``weight`` is the size of the rows in Kafka. The caller takes prepared rows before it
        prepares other rows for the same file.
        """
        self._files.setdefault(prepared.place, prepared.file)
        if "value" in prepared.columns:
            self._schemas.setdefault(prepared.place, prepared.rows.value.schema)
        prepared.file.take(prepared, weight)

    def save_memory(self) -> None:
        """Count the memory of the files, and move files to disk if the task exceeds its limit."""
        self._count()
        self._memory.save()

    def to_disk(self) -> None:
        """Move the encoded bytes to disk."""
        for part in self._parts():
            part.body.to_disk()
        self._count()

    def flush(self) -> None:
        """Flush the encoders, and move all bytes to disk."""
        for part in self._parts():
            part.take(part.encoder.flush())
            part.body.to_disk()
        self._count()

    def finish(self) -> list[FinishedObject]:
        """Complete every file. Their bytes stay readable until ``close``."""
        self.is_finished = True
        done = [finished for file in self._files.values() for finished in file.finish()]
        self._count()
        return done

    def close(self) -> None:
        """Release the memory and the disk space."""
        self._memory.leave(self)
        self._spill.close()

    def _parts(self) -> list[OpenObject]:
        return [part for file in self._files.values() for part in file.parts.values()]

    def _count(self) -> None:
        self.held_bytes = sum(part.in_memory for part in self._parts())
