"""The open files of one partition: rows in, finished objects out. In tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkeep.archive.runs import NO_RUNS, Runs
from kafkeep.backup.views import Views, optional
from kafkeep.data.column import Column
from kafkeep.data.compatibility import needs_new_file, project
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Schema
from kafkeep.formats.format import Encoder
from kafkeep.store.spill import Body, Spill

MEMORY_BYTES = 80 << 20
"""What the files of one task may hold in memory before they go to disk."""
MAX_RUNS = 100_000
"""More are not told: they would take more room in the log than they are worth."""
TOMBSTONES = "tombstones"


@dataclass(frozen=True, slots=True)
class Place:
    """One file of a window: the topic and directory it lies in, and whether it is of tombstones."""

    topic: str
    path: str
    tombstones: bool = False


@dataclass(slots=True)
class _Part:
    """One object of a file in the making: its values, its keys or its headers."""

    encoder: Encoder
    schema: Schema | None
    body: Body
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def take(self, data: bytes) -> None:
        self.body.add(data)
        self.digest.update(data)

    @property
    def in_memory(self) -> int:
        return self.body.in_memory + self.encoder.buffered_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One object, complete but for its name in the store."""

    place: Place
    view: str
    extension: str
    format: str
    codec: str
    first: int
    """Offset of its first row: its name."""
    offsets: NDArray[np.int64]
    min_timestamp: int
    max_timestamp: int
    raw_bytes: int
    """What its records weighed in Kafka; of keys and headers beside values, its own size."""
    body: Body
    sha256: str

    @property
    def runs(self) -> Runs:
        """The offsets it holds; none when they are too many runs to tell."""
        edges = np.flatnonzero(np.diff(self.offsets) != 1) + 1
        if len(edges) >= MAX_RUNS:
            return NO_RUNS
        firsts = self.offsets[np.concatenate([[0], edges])]
        lasts = self.offsets[np.concatenate([edges - 1, [len(self.offsets) - 1]])]
        return Runs.of(np.stack([firsts, lasts + 1], axis=1))


class _File:
    """One file: an object of values, and those that lie beside it."""

    def __init__(self, views: Views, place: Place, spill: Spill) -> None:
        self._views = views
        self._place = place
        self._spill = spill
        self._offsets: list[NDArray[np.int64]] = []
        self._weight = 0
        self._low, self._high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        self._nulls: dict[str, int] = {}
        """Nulls of an object before the first value or key that tells its schema."""
        self._null_schema: Schema | None = None
        self.parts: dict[str, _Part] = {}
        names = [view for view in views.formats if not (place.tombstones and view == "value")]
        self._names = names

    def prepare(self, rows: Rows) -> dict[str, tuple[_Part, Column]]:
        """Return what each of its objects gets; RecordError when one cannot take a row."""
        found = {}
        for view in self._names:
            column = self._views.column(view, rows)
            part = self.parts.get(view)
            if self._views.is_nulls(view, rows):
                if part is not None:
                    column = self._views.nulls(part.schema, len(rows))
                elif view == "value" or column.schema is None:
                    continue  # they wait until others tell the schema
            if part is None:
                column = optional(column) if view in self._nulls else column
                part = self._begin(view, column.schema)
            elif part.schema != column.schema and part.schema and column.schema:
                column = project(column, part.schema)
            part.encoder.check(column)
            found[view] = part, column
        return found

    @property
    def takes_null_keys(self) -> bool:
        """Whether a key may be null in what it holds so far."""
        part = self.parts.get("keys")
        return part is None or part.schema is None or part.schema.optional

    def _begin(self, view: str, schema: Schema | None) -> _Part:
        return _Part(self._views.formats[view].encoder(schema), schema, Body(self._spill))

    def take(self, prepared: Prepared, weight: int) -> None:
        rows = prepared.rows
        self._weight += weight
        self._offsets.append(rows.offsets)
        self._low = min(self._low, int(rows.timestamps.min()))
        self._high = max(self._high, int(rows.timestamps.max()))
        for view in self._names:
            if view not in prepared.columns:
                self._nulls[view] = self._nulls.get(view, 0) + len(rows)
                self._null_schema = rows.value.schema if view == "value" else self._null_schema
        for view, (part, column) in prepared.columns.items():
            self._take_nulls(view, part)
            part.take(part.encoder.add(column))

    def _take_nulls(self, view: str, part: _Part) -> None:
        """Add an object to the file, if it is new, and the nulls that came before its values."""
        self.parts[view] = part
        if count := self._nulls.pop(view, 0):
            part.take(part.encoder.add(self._views.nulls(part.schema, count)))

    def finish(self) -> Iterator[Finished]:
        offsets = np.concatenate(self._offsets)
        schema = self._null_schema and self._null_schema.as_optional()
        for view in tuple(self._nulls):
            self._take_nulls(view, self._begin(view, schema if view == "value" else None))
        for view, part in sorted(self.parts.items(), key=lambda one: self._names.index(one[0])):
            part.take(part.encoder.finish())
            written_as = self._views.formats[view]
            suffix = "" if view == "value" else f".{view}"
            kinds = self._views.sink.format
            kind = {
                "value": kinds.format_class,
                "keys": kinds.keys_format_class,
                "headers": kinds.headers_format_class,
            }[view]
            yield Finished(
                place=self._place,
                view=TOMBSTONES if self._place.tombstones and view == "keys" else view,
                extension=suffix + written_as.extension,
                format=str(kind),
                codec=written_as.codec,
                first=int(offsets[0]),
                offsets=offsets,
                min_timestamp=self._low,
                max_timestamp=self._high,
                raw_bytes=self._weight if view == "value" else part.body.size,
                body=part.body,
                sha256=part.digest.hexdigest(),
            )


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows of one file, in the form its objects take; nothing is added yet."""

    place: Place
    file: _File
    rows: Rows
    columns: Mapping[str, tuple[_Part, Column]]


class Memory:
    """What the files of all partitions of a task hold: when it is much, the largest go to disk.

    Files that are being stored count too, but stay as they are: others are reading them. They are
    waited for first, with ``wait_one``, which tells whether there was any.
    """

    def __init__(
        self, limit_bytes: int = MEMORY_BYTES, wait_one: Callable[[], bool] = lambda: False
    ) -> None:
        self._limit = limit_bytes
        self._wait_one = wait_one
        self._windows: set[WindowFiles] = set()

    def join(self, window: WindowFiles) -> None:
        """Count a window from now on."""
        self._windows.add(window)

    def leave(self, window: WindowFiles) -> None:
        """Count it no longer; called when its objects are stored, by any thread."""
        self._windows.discard(window)

    @property
    def held_bytes(self) -> int:
        """What all of them hold."""
        return sum(window.held_bytes for window in tuple(self._windows))

    def save(self) -> None:
        """Move complete bytes to disk, the largest first; where that is not enough, all bytes."""
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
    """All open files of one partition; they close together."""

    def __init__(self, views: Views, memory: Memory) -> None:
        self._views = views
        self._mode = views.sink.rotate.schema_compatibility
        self._spill = Spill()
        self._files: dict[Place, _File] = {}
        self._schemas: dict[Place, Schema | None] = {}
        self._memory = memory
        self.held_bytes = 0
        """What they hold in memory, as it was last counted."""
        self.is_finished = False
        memory.join(self)

    def __len__(self) -> int:
        return len(self._files)

    def wants_new(self, place: Place, schema: Schema | None) -> bool:
        """Whether a value of ``schema`` cannot go into the file that is open there."""
        if place not in self._schemas or place.tombstones:
            return False
        return needs_new_file(self._schemas[place], schema, self._mode)  # type: ignore[arg-type]

    def takes_null_keys(self, place: Place, begins_so: bool) -> bool:
        """Whether a key may be null in the file of a place; ``begins_so`` where none is open."""
        file = self._files.get(place)
        return begins_so if file is None else file.takes_null_keys

    def prepare(self, place: Place, rows: Rows) -> Prepared:
        """Make rows ready for one file; RecordError when it cannot take one, nothing is changed."""
        file = self._files.get(place) or _File(self._views, place, self._spill)
        return Prepared(place, file, rows, file.prepare(rows))

    def take(self, prepared: Prepared, weight: int) -> None:
        """Add rows, which weigh so many bytes in Kafka, to their file, which begins if it is new.

        What was prepared is taken before anything else is prepared for that file.
        """
        self._files.setdefault(prepared.place, prepared.file)
        if "value" in prepared.columns:
            self._schemas.setdefault(prepared.place, prepared.rows.value.schema)
        prepared.file.take(prepared, weight)

    def save_memory(self) -> None:
        """Count what the files hold, and move some to disk when that of the task is too much."""
        self._count()
        self._memory.save()

    def to_disk(self) -> None:
        """Move the bytes that are complete to disk."""
        for part in self._parts():
            part.body.to_disk()
        self._count()

    def flush(self) -> None:
        """Complete what encoders hold, and move it to disk."""
        for part in self._parts():
            part.take(part.encoder.flush())
            part.body.to_disk()
        self._count()

    def finish(self) -> list[Finished]:
        """Complete every file; the spill lives until ``close``."""
        self.is_finished = True
        done = [finished for file in self._files.values() for finished in file.finish()]
        self._count()
        return done

    def close(self) -> None:
        """Forget everything; give the disk space back."""
        self._memory.leave(self)
        self._spill.close()

    def _parts(self) -> list[_Part]:
        return [part for file in self._files.values() for part in file.parts.values()]

    def _count(self) -> None:
        self.held_bytes = sum(part.in_memory for part in self._parts())
