"""One open file of a window: rows in, its objects out, complete but for their names. In tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkeep.archive.runs import NO_RUNS, Runs
from kafkeep.backup.views import Views, optional
from kafkeep.data.column import Column
from kafkeep.data.compatibility import project
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Schema
from kafkeep.formats.format import Encoder
from kafkeep.store.spill import Body, Spill

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
class Part:
    """One object of a file in the making: its values, its keys or its headers."""

    encoder: Encoder
    schema: Schema | None
    body: Body
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def take(self, data: bytes) -> None:
        """Add bytes."""
        self.body.add(data)
        self.digest.update(data)

    @property
    def in_memory(self) -> int:
        """What it holds that is not on disk."""
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


class OpenFile:
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
        self.parts: dict[str, Part] = {}
        self._names = [v for v in views.formats if not (place.tombstones and v == "value")]

    def prepare(self, rows: Rows) -> dict[str, tuple[Part, Column]]:
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

    def _begin(self, view: str, schema: Schema | None) -> Part:
        return Part(self._views.formats[view].encoder(schema), schema, Body(self._spill))

    def take(self, prepared: Prepared, weight: int) -> None:
        """Add rows that were prepared for it, and weigh so many bytes in Kafka."""
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

    def _take_nulls(self, view: str, part: Part) -> None:
        """Add an object to the file, if it is new, and the nulls that came before its values."""
        self.parts[view] = part
        if count := self._nulls.pop(view, 0):
            part.take(part.encoder.add(self._views.nulls(part.schema, count)))

    def finish(self) -> Iterator[Finished]:
        """Complete its objects."""
        offsets = np.concatenate(self._offsets)
        for view in tuple(self._nulls):
            schema = self._views.schema_of_nulls(view, self._null_schema)
            self._take_nulls(view, self._begin(view, schema))
        for view, part in sorted(self.parts.items(), key=lambda one: self._names.index(one[0])):
            part.take(part.encoder.finish())
            written_as = self._views.formats[view]
            kinds = self._views.sink.format
            kind = {
                "value": kinds.format_class,
                "keys": kinds.keys_format_class,
                "headers": kinds.headers_format_class,
            }[view]
            yield Finished(
                place=self._place,
                view=TOMBSTONES if self._place.tombstones and view == "keys" else view,
                extension=self._views.extension(view),
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
    file: OpenFile
    rows: Rows
    columns: Mapping[str, tuple[Part, Column]]
