"""Write one planned range as a sink does: windows of files, cut by rules. Runs in tasks.

What no rule has closed at the end of the range is left in Kafka, unless the plan says to close it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.runs import NO_RUNS
from kafkeep.archive.store import ObjectStore
from kafkeep.backup.fetch import Chunk
from kafkeep.backup.letters import Letters, make_letter, send_letters
from kafkeep.backup.object import Origin, store_object
from kafkeep.backup.pipeline import BadRecord, Pipeline, Ready
from kafkeep.backup.rotate import NO_TIME, Reason, RotateRules, Window, find_cut
from kafkeep.backup.shape import SinkShape
from kafkeep.backup.tail import Tail
from kafkeep.backup.upload import Uploads
from kafkeep.backup.window import Finished, Memory, Place, Views, WindowFiles
from kafkeep.config.sink import SinkOptions
from kafkeep.data.arrow_parts import view_valid
from kafkeep.errors import RecordError
from kafkeep.kafka.records import iter_decode
from kafkeep.kafka.unpack import AREA_BYTES
from kafkeep.kafka.wire import Wire

LAST_OFFSET = 2**63 - 1
PIECE_BYTES = 4 << 20
"""Records decoded at a time: few enough that what is made of them stays in the cores' caches."""
MANY_FILES = 64
"""Beyond these, more are decoded at a time, so that each file gets more than a row or two."""
SKIP_AFTER = 10_000
"""So many records left out in a row, and none kept: the position moves on without an object."""


def rules_of(sink: SinkOptions) -> RotateRules:
    """Return the rules that records decide."""
    rotate = sink.rotate
    by_path = rotate.rotate_file_on_partition_change and rotate.rotate_interval_ms is not None
    return RotateRules(
        size=rotate.flush_size,
        bytes=rotate.flush_bytes,
        interval_ms=rotate.rotate_interval_ms,
        on_path_change=by_path and sink.partition.is_time_based,
    )


class SinkWriter:
    """Turns the chunks of one range into the objects of a sink, and their entries."""

    resume_at: int | None = None

    def __init__(
        self,
        store: ObjectStore,
        origin: Origin,
        sink: SinkOptions,
        uploads: Uploads,
        *,
        at_ms: int,
        closes: Reason | None,
        memory: Memory | None = None,
    ) -> None:
        self._store = store
        self._memory = memory or Memory()
        self._origin = origin
        self._pid = origin.planned.partition_id
        self._sink = sink
        self._uploads = uploads
        self._at_ms = at_ms
        self._closes = closes
        self._pipeline = Pipeline(sink)
        self._views = Views(sink)
        self._rules = rules_of(sink)
        self._tolerant = sink.errors.errors_tolerance == "all"
        self._folder = sink.nulls.tombstone_encoded_partition
        self._raw: pa.RecordBatch | None = None
        self._entries: list[Entry | None] = []
        self._begin_window()
        self._left_out = 0
        self._last = -1
        self._read_to = origin.planned.range.start
        self.position = origin.planned.range.start
        """Archived up to here, once the uploads have waited."""
        self.closed = 0
        """Windows closed so far."""
        self.tells_details = sink.errors.errors_log_include_messages
        self.letters = Letters(are_sent=bool(sink.errors.dead_letter_topic))
        """Bad records; those before ``position`` are due."""

    def add(self, chunk: Chunk, first: int) -> Iterator[Entry]:
        """Take a chunk; entries come from ``done`` when everything is stored."""
        self.position = max(self.position, first)
        if chunk.gap is not None:
            self._close(chunk.gap.start, Reason.GAP)
            self.position = chunk.gap.end
        if chunk.batches is not None:
            wanted = OffsetRange(self.position, LAST_OFFSET)
            spread = len(self._files) > MANY_FILES
            size = AREA_BYTES if spread else PIECE_BYTES
            for raw in iter_decode(chunk.batches, wanted, max_bytes=size):
                self._take(raw)
        return iter(())

    def end(self, position: int, *, finished: bool) -> Iterator[Entry]:
        """End the range where reading has come to; what no rule closed is left or closed.

        Where no record is left to wait there is nothing to read again: the position moves on.
        """
        if finished and (self._closes is not None or not self._window.count):
            self._close(position, self._closes or Reason.PLAN)
        self._read_to = position
        return iter(())

    def reached(self, position: int) -> int:
        """Return up to where the range is archived, when it was read to ``position``."""
        return min(self.position, position)

    def done(self) -> Iterator[Entry]:
        """Yield the entries, after the uploads have waited."""
        for entry in self._entries:
            assert entry is not None
            yield entry

    def abort(self) -> None:
        """Drop what is open; nothing of it becomes visible."""
        self._files.close()

    def send_letters(self, wire: Wire) -> None:
        """Report bad records before their offsets count as archived: at least once, never not."""
        errors = self._sink.errors
        if errors.dead_letter_topic:
            send_letters(
                wire,
                self.letters,
                topic=errors.dead_letter_topic,
                source=self._pid,
                connector=self._origin.log_name,
                with_context=errors.dead_letter_context,
            )

    @property
    def tail(self) -> Tail | None:
        """What is left to wait, if anything."""
        if not self._window.count and not self.letters.is_waiting and not self._left_out:
            return None
        return Tail(
            records=self._window.count,
            bytes=self._window.bytes,
            base_time=self._window.base_time,
            read_to=self._read_to,
        )

    def _begin_window(self) -> None:
        self._window = Window()
        self._files = WindowFiles(self._views, self._memory)

    def _take(self, raw: pa.RecordBatch) -> None:
        self._raw = raw
        ready = self._pipeline.run(
            raw,
            self._pid.topic,
            self._pid.partition,
            at_ms=self._at_ms,
            on_bad=self._on_bad,
        )
        kept = 0
        for part in ready:
            try:
                self._write(part)
            except RecordError as error:
                first, last = int(part.rows.offsets[0]), int(part.rows.offsets[-1])
                raise RecordError(
                    f"{self._pid} offsets {first} to {last}: {error.message}", hint=error.hint
                ) from error
            kept += len(part.rows)
        self._left_out += raw.num_rows - kept
        if not self._window.count and self._left_out >= SKIP_AFTER:
            self._close(int(raw.column("offset")[-1].as_py()) + 1, Reason.COUNT)

    def _on_bad(self, bad: BadRecord) -> None:
        if not self._tolerant:
            named = f"{self._pid} offset {bad.offset}: "
            raise RecordError(named + bad.error.message.removeprefix(named), hint=bad.error.hint)
        assert self._raw is not None
        self.letters.add(make_letter(self._raw, bad))

    def _write(self, ready: Ready) -> None:
        """Add rows to the window, closing it wherever a rule says so."""
        places, codes = self._places(ready)
        times = self._times(ready)
        begin, total = 0, len(ready.rows)
        while begin < total:
            limit = self._schema_limit(ready, places, codes, begin)
            cut = find_cut(
                self._window,
                self._rules,
                begin=begin,
                codes=codes[:limit],
                paths=places,
                times=times if times is None else times[:limit],
                sizes=ready.sizes[:limit],
            )
            stop = limit if cut is None else cut.row
            self._add(ready, places, codes, begin, stop)
            if cut is not None:
                self._close(self._last + 1, cut.reason)
            elif stop < total:
                self._close(self._last + 1, Reason.SCHEMA)
            begin = stop
        self._files.save_memory()

    def _places(self, ready: Ready) -> tuple[tuple[Place, ...], NDArray[np.int32]]:
        rows, placed = ready.rows, ready.placed
        places = tuple(Place(rows.topic, path) for path in placed.paths)
        if self._folder is None or rows.value.array.null_count == 0:
            return places, placed.codes
        absent = view_valid(rows.value.array) == 0
        codes = np.where(absent, np.int32(len(places)), placed.codes).astype(np.int32)
        return (*places, Place(rows.topic, self._folder, tombstones=True)), codes

    def _times(self, ready: Ready) -> NDArray[np.int64] | None:
        times = ready.placed.times
        if times is None or self._rules.interval_ms is None:
            return None
        return np.where(times < 0, NO_TIME, times)

    def _schema_limit(
        self, ready: Ready, places: tuple[Place, ...], codes: NDArray[np.int32], begin: int
    ) -> int:
        """Return the first row that needs a new file because of its schema, else the end."""
        if not len(self._files):
            return len(codes)
        schema = ready.rows.value.schema
        blocked = [
            code for code, place in enumerate(places) if self._files.wants_new(place, schema)
        ]
        if not blocked:
            return len(codes)
        hits = np.flatnonzero(np.isin(codes[begin:], blocked))
        return begin + int(hits[0]) if len(hits) else len(codes)

    def _add(
        self,
        ready: Ready,
        places: tuple[Place, ...],
        codes: NDArray[np.int32],
        begin: int,
        stop: int,
    ) -> None:
        if begin == stop:
            return
        rows, here = ready.rows.slice(begin, stop), codes[begin:stop]
        self._last = int(rows.offsets[-1])
        if (here == here[0]).all():
            self._files.add(places[here[0]], rows, int(ready.sizes[begin:stop].sum()))
            return
        order = np.argsort(here, kind="stable").astype(np.int64)
        grouped, ordered = rows.take(order), here[order]
        sizes = ready.sizes[begin:stop][order]
        edges = np.flatnonzero(np.diff(ordered)) + 1
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(order)], strict=True):
            weight = int(sizes[first:last].sum())
            self._files.add(places[ordered[first]], grouped.slice(first, last), weight)

    def _close(self, end: int, reason: Reason) -> None:
        """Complete the window: its objects go up, its bad records are due."""
        window = OffsetRange(self.position, end)
        finished = self._files.finish()
        files, left = self._files, len(finished)

        def store(done: Finished, slot: int) -> None:
            nonlocal left
            entry = self._entry(done, window, len(finished), reason)
            self._entries[slot] = store_object(self._store, self._origin, done, window, entry)
            left -= 1
            if not left:
                files.close()

        for done in finished:
            self._entries.append(None)
            slot = len(self._entries) - 1
            self._uploads.add(lambda done=done, slot=slot: store(done, slot))  # type: ignore[misc]
        if not finished:
            files.close()
        self.position = self.letters.end = end
        self._left_out = 0
        self.closed += 1
        self._begin_window()

    def _entry(self, done: Finished, window: OffsetRange, parts: int, reason: Reason) -> Entry:
        return Entry(
            key="to be named",
            partition_id=self._pid,
            topic_id=self._origin.planned.topic_id,
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
            converter=self._converter(done.view),
            runs=NO_RUNS if len(done.offsets) == len(window) else done.runs,
        )

    def _converter(self, view: str) -> str:
        if view == "value" and self._sink.has_envelope:
            return "envelope"
        chosen: Mapping[str, Any] = {
            "value": self._sink.value,
            "keys": self._sink.key,
            "tombstones": self._sink.key,
            "headers": self._sink.header_converter,
        }
        options = chosen[view]
        return "" if options is None else str(options.kind).rpartition(".")[2]


class SinkWriters:
    """Opens the writers of one task, which share their options."""

    def __init__(
        self,
        store: ObjectStore,
        shape: SinkShape,
        uploads: Uploads,
        *,
        secrets: Mapping[str, str],
        at_ms: int,
        name: str,
    ) -> None:
        self._store = store
        self._shape = shape
        self._uploads = uploads
        self._sink = SinkOptions.parse({**shape.options, **secrets})
        self._at_ms = at_ms
        self._name = name
        self._memory = Memory(wait_one=uploads.wait_one)

    def open(self, planned: PlannedRange) -> SinkWriter:
        """Return the writer of one range."""
        origin = Origin(
            log_name=self._name,
            planned=planned,
            plan=self._shape.digest(self._name),
            naming=self._sink.naming,
            tags=self._sink.tags,
        )
        return SinkWriter(
            self._store,
            origin,
            self._sink,
            self._uploads,
            at_ms=self._at_ms,
            closes=self._shape.closes_tail(planned.partition_id),
            memory=self._memory,
        )
