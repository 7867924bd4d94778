"""The open files of one partition: rows in, finished objects out. In tasks."""

from __future__ import annotations

from collections.abc import Callable

from kafkeep.backup.heap import Heap
from kafkeep.backup.open_file import Finished, OpenFile, Part, Place, Prepared
from kafkeep.backup.views import Views
from kafkeep.data.compatibility import needs_new_file
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Schema
from kafkeep.store.spill import Spill

MEMORY_BYTES = 80 << 20
"""What the files of one task may hold in memory before they go to disk."""


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
        self._heap = Heap()

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
        self._heap.save()
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
        self._files: dict[Place, OpenFile] = {}
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
        file = self._files.get(place) or OpenFile(self._views, place, self._spill)
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

    def _parts(self) -> list[Part]:
        return [part for file in self._files.values() for part in file.parts.values()]

    def _count(self) -> None:
        self.held_bytes = sum(part.in_memory for part in self._parts())
