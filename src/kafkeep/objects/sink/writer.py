"""Write one planned range as windows of files, which rotation rules close. Runs in tasks.

The records of a window that is still open at the end of the range stay in Kafka, unless the plan
closes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.offset_runs import NO_RUNS
from kafkeep.failpoint import failpoint
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.kafka.batch.unpack import AREA_BYTES
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.range_writer import Chunk, SinkTail, Uploads, WriteReport
from kafkeep.objects.sink.dead_letters import DeadLetterQueue, make_dead_letter, send_dead_letters
from kafkeep.objects.sink.naming import NameCheck, ObjectOrigin, store_object
from kafkeep.objects.sink.open_file import FinishedObject, ViewFormats
from kafkeep.objects.sink.pipeline import BadRecord, Pipeline, PlacedRows, Stage
from kafkeep.objects.sink.rotation import RotateRules
from kafkeep.objects.sink.spec import RotateReason, SinkIntent
from kafkeep.objects.sink.window import MemoryBudget, OpenWindow, assign_files
from kafkeep.options.sink.sink import SinkOptions


def entry_of(
    origin: ObjectOrigin,
    sink: SinkOptions,
    done: FinishedObject,
    window: OffsetRange,
    *,
    parts: int,
    reason: RotateReason,
) -> Entry:
    """Return the entry of one of the ``parts`` objects of a window. Its key is not final yet."""
    return Entry(
        key="to be named",
        partition_id=origin.planned.partition_id,
        topic_id=origin.planned.topic_id,
        range=window,
        records=len(done.offsets),
        min_timestamp=done.min_timestamp,
        max_timestamp=done.max_timestamp,
        size_bytes=done.body.size,
        raw_bytes=done.raw_bytes,
        format=done.format,
        codec=done.codec,
        sha256=done.sha256,
        view=done.view,
        parts=parts,
        closed_by=str(reason),
        converter=_converter(sink, done.view),
        runs=NO_RUNS if len(done.offsets) == len(window) else done.runs,
    )


def _converter(sink: SinkOptions, view: str) -> str:
    if view == "value" and sink.has_envelope:
        return "envelope"
    chosen: Mapping[str, Any] = {
        "value": sink.value,
        "keys": sink.key,
        "tombstones": sink.key,
        "headers": sink.header_converter,
    }
    options = chosen[view]
    return "" if options is None else str(options.kind).rpartition(".")[2]


LAST_OFFSET = 2**63 - 1
PIECE_BYTES = 8 << 20
"""The number of bytes to decode at a time: small for memory, large for speed in Python."""
MANY_FILES = 64
"""Above this number of files, larger pieces are decoded, so that each file gets several rows."""
SKIP_AFTER = 10_000
"""After this many dropped records in an empty window, the position advances without an object."""


def rules_of(sink: SinkOptions) -> RotateRules:
    """Return the rotation rules that depend on records."""
    rotate = sink.rotate
    by_path = rotate.rotate_file_on_partition_change and rotate.rotate_interval_ms is not None
    return RotateRules(
        size=rotate.flush_size,
        bytes=rotate.flush_bytes,
        interval_ms=rotate.rotate_interval_ms,
        on_path_change=by_path and sink.partition.is_time_based,
        max_files=rotate.partitioner_max_open_files,
    )


class SinkWriter:
    """Writes one range as the files of a sink. Implements ``RangeWriter``.

    ``wire`` and ``connector`` are required if the sink has a dead letter queue.
    """

    streams = False
    is_filling = False
    ends_when_full = False
    resume_at: int | None = None

    def __init__(
        self,
        store: ObjectStore,
        origin: ObjectOrigin,
        sink: SinkOptions,
        uploads: Uploads,
        *,
        at_ms: int,
        closes: RotateReason | None,
        memory: MemoryBudget | None = None,
        wire: Wire | None = None,
        connector: str = "",
    ) -> None:
        self._store = store
        self._memory = memory or MemoryBudget()
        self._origin = origin
        self._pid = origin.planned.partition_id
        self._sink = sink
        self._uploads = uploads
        self._wire = wire
        self._connector = connector
        self._at_ms = at_ms
        self._closes = closes
        self._views = ViewFormats(sink)
        names = NameCheck(sink.naming, store.key_limits, self._views.longest_extension)
        self._pipeline = Pipeline(sink, names)
        self._rules = rules_of(sink)
        self._tolerant = sink.errors.errors_tolerance == "all"
        self._raw: pa.RecordBatch | None = None
        self._entries: list[Entry | None] = []
        self._begin_window()
        self._left_out = 0
        self._last = -1
        self._read_to = origin.planned.range.start
        self.position = origin.planned.range.start
        """The offset up to which the range is archived when all uploads have ended."""
        self.closed = 0
        """The number of windows closed so far."""
        self.dead_letters = DeadLetterQueue(are_sent=bool(sink.errors.dead_letter_topic))
        """The bad records. Those before ``position`` are due."""

    def add(self, chunk: Chunk, first: int) -> None:
        """Write a chunk, and close windows by the rotation rules."""
        self.position = max(self.position, first)
        if chunk.gap is not None:
            self._close(chunk.gap.start, RotateReason.GAP)
            self.position = chunk.gap.end
        if chunk.batches is not None:
            wanted = OffsetRange(self.position, LAST_OFFSET)
            spread = len(self._window.files) > MANY_FILES
            size = AREA_BYTES if spread else PIECE_BYTES
            for raw in iter_decode(chunk.batches, wanted, max_bytes=size):
                self._take(raw)

    def end(self, position: int, *, finished: bool) -> None:
        """Close the window if the plan says so. Otherwise its records stay in Kafka.

        An empty window is closed too, because no record has to be read again.
        """
        if finished and (self._closes is not None or not self._window.state.count):
            self._close(position, self._closes or RotateReason.PLAN)
        self._read_to = position

    def finish(self) -> list[Entry]:
        """Send the dead letters and return the entries, after the uploads have succeeded.

        Bad records are sent before their offsets are committed, so delivery is at least once.
        """
        self._send_dead_letters()
        stored = [entry for entry in self._entries if entry is not None]
        assert len(stored) == len(self._entries)
        return stored

    def report(self, position: int) -> WriteReport:
        """Report the end of the last closed window, the open tail, and the bad records."""
        details = self._sink.errors.errors_log_include_messages
        return WriteReport(
            archived_to=min(self.position, position),
            tail=self._tail(),
            bad=len(self.dead_letters),
            complaints=tuple(
                letter.describe(self._pid, details=details) for letter in self.dead_letters.first
            ),
        )

    def abort(self) -> None:
        """Discard the open files, which never become visible."""
        self._window.files.close()

    def _send_dead_letters(self) -> None:
        errors = self._sink.errors
        if errors.dead_letter_topic and self.dead_letters:
            assert self._wire is not None
            failpoint("dead_letters.before")
            send_dead_letters(
                self._wire,
                self.dead_letters,
                topic=errors.dead_letter_topic,
                source=self._pid,
                connector=self._connector,
                with_context=errors.dead_letter_context,
            )
            failpoint("dead_letters.after")

    def _tail(self) -> SinkTail | None:
        """Return the records of the open window, or None when no record has to be read again."""
        window = self._window.state
        if not window.count and not self.dead_letters.is_waiting and not self._left_out:
            return None
        return SinkTail(
            records=window.count,
            bytes=window.bytes,
            base_time=window.base_time,
            read_to=self._read_to,
        )

    def _begin_window(self) -> None:
        self._window = OpenWindow(self._views, self._memory, self._rules)

    def _take(self, raw: pa.RecordBatch) -> None:
        self._raw = raw
        folder = self._origin.planned.folder_id
        ready = self._pipeline.run(raw, folder, at_ms=self._at_ms, on_bad=self._on_bad)
        kept = sum(map(self._write, ready))
        self._left_out += raw.num_rows - kept
        if not self._window.state.count and self._left_out >= SKIP_AFTER:
            self._close(int(raw.column("offset")[-1].as_py()) + 1, RotateReason.COUNT)

    def _on_bad(self, bad: BadRecord) -> None:
        if not self._tolerant:
            raise bad.error_in(self._pid)
        assert self._raw is not None
        self.dead_letters.add(make_dead_letter(self._raw, bad))

    def _write(self, ready: PlacedRows) -> int:
        """Add rows, and close windows by the rotation rules. Return the number of rows added."""
        assigned = assign_files(ready, with_times=self._rules.interval_ms is not None)
        begin = 0
        while begin < len(assigned):
            filled = self._window.fill(assigned, begin)
            begin = filled.stop
            if filled.bad:
                for row, error in filled.bad:
                    offset = int(assigned.rows.offsets[row])
                    self._on_bad(BadRecord(offset, Stage.TASK_PUT, error))
                assigned = assigned.without([row for row, _ in filled.bad])
            if filled.reason is not None:
                self._close(self._window.last_offset + 1, filled.reason)
        self._window.files.save_memory()
        return len(assigned)

    def _close(self, end: int, reason: RotateReason) -> None:
        """Close the window: start its uploads, and make its bad records due."""
        window = OffsetRange(self.position, end)
        files = self._window.files
        finished = files.finish()
        left = [*finished]

        def store(done: FinishedObject, slot: int) -> None:
            entry = entry_of(
                self._origin, self._sink, done, window, parts=len(finished), reason=reason
            )
            self._entries[slot] = store_object(self._store, self._origin, done, window, entry)
            left.pop()  # atomic, so the last of several threads closes the files
            if not left:
                files.close()

        for done in finished:
            self._entries.append(None)
            slot = len(self._entries) - 1
            self._uploads.add(partial(store, done, slot), size_bytes=done.body.size)
        if not finished:
            files.close()
        self.position = self.dead_letters.end = end
        self._left_out = 0
        self.closed += 1
        self._begin_window()


class SinkWriters:
    """Opens the writers of one task. They share options and a memory budget."""

    def __init__(
        self,
        store: ObjectStore,
        intent: SinkIntent,
        uploads: Uploads,
        *,
        at_ms: int,
        name: str,
        wire: Wire | None = None,
        connector: str = "",
    ) -> None:
        self._store = store
        self._wire = wire
        self._connector = connector
        self._intent = intent
        self._uploads = uploads
        self._sink = intent.sink.options
        self._at_ms = at_ms
        self._name = name
        self._memory = MemoryBudget(wait_one=uploads.wait_one)

    def open(self, planned: PlannedRange) -> SinkWriter:
        """Return the writer of one range."""
        origin = ObjectOrigin(
            log_name=self._name,
            planned=planned,
            plan=self._intent.digest(self._name),
            naming=self._sink.naming,
            tags=self._sink.tags,
        )
        return SinkWriter(
            self._store,
            origin,
            self._sink,
            self._uploads,
            at_ms=self._at_ms,
            closes=self._intent.closes_tail(planned.partition_id),
            memory=self._memory,
            wire=self._wire,
            connector=self._connector,
        )
