"""The chain of transforms, each applied to the records that its predicate selects; pure.

This module also holds Connect's predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.errors import UsageError
from kafkeep.options.java_regex import JavaPattern, compile_java_regex
from kafkeep.options.sink.transforms import PredicateSpec, TransformSpec
from kafkeep.records.arrow import run_bounds, valid_flags, view_offsets
from kafkeep.records.rows import Rows
from kafkeep.records.schema import Column
from kafkeep.records.transforms.cast import Cast
from kafkeep.records.transforms.headers import DropHeaders, HeaderFrom, InsertHeader, header_matches
from kafkeep.records.transforms.reshape_fields import (
    CsvLine,
    ExtractField,
    Flatten,
    HoistField,
    ReplaceField,
    SetSchemaMetadata,
    ValueToKey,
)
from kafkeep.records.transforms.set_fields import InsertField, MaskField, parse_insertions
from kafkeep.records.transforms.sinetstream import (
    ByteArrayCast,
    MicrosecondTimestampConverter,
    ParseJson,
    StringCast,
)
from kafkeep.records.transforms.timestamp_converter import TimestampConverter
from kafkeep.records.transforms.topic_routers import RegexRouter, TimestampRouter
from kafkeep.records.transforms.transform import Predicate, Transform


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Selects the records of a topic whose whole name matches.

    The topic is the one that earlier routers have set.
    """

    pattern: JavaPattern

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each record whether it is selected."""
        return np.full(len(rows), self.pattern.matches(rows.topic))


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Selects the records with at least one header of this name."""

    name: str

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each record whether it is selected."""
        before = np.concatenate([[0], np.cumsum(header_matches(rows.headers, self.name))])
        counts = np.diff(before[view_offsets(rows.headers)])
        return np.asarray(counts > 0)


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Selects the records without a value. The JSON document ``null`` is a value."""

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each record whether it is selected."""
        return ~valid_flags(rows.value.array)


def open_predicate(spec: PredicateSpec) -> Predicate:
    """Return the predicate that the spec describes."""
    match spec.kind:
        case "TopicNameMatches":
            return TopicNameMatches(compile_java_regex(spec.options.pattern))
        case "HasHeaderKey":
            return HasHeaderKey(spec.options.name)
        case "RecordIsTombstone":
            return RecordIsTombstone()
    raise UsageError(f"there is no predicate {spec.kind}")


@dataclass(frozen=True, slots=True)
class Filter:
    """Drops every record. All other transforms return one record for each record."""

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield nothing."""
        yield from ()


def _insert_field(side: str, options: Any) -> InsertField:
    return InsertField(side, parse_insertions(options), options.replace_null_with_default)


_SIDED: Mapping[str, Callable[[str, Any], Transform]] = {
    "InsertField": _insert_field,
    "ReplaceField": ReplaceField,
    "MaskField": MaskField,
    "ExtractField": ExtractField,
    "HoistField": HoistField,
    "Flatten": Flatten,
    "Cast": Cast,
    "TimestampConverter": TimestampConverter.of,
    "HeaderFrom": HeaderFrom,
    "SetSchemaMetadata": SetSchemaMetadata,
    "ByteArrayCast": ByteArrayCast,
    "StringCast": StringCast,
    "ParseJson": ParseJson,
    "MicrosecondTimestampConverter": MicrosecondTimestampConverter.of,
}
_WHOLE: Mapping[str, Callable[[Any], Transform]] = {
    "ValueToKey": ValueToKey,
    "InsertHeader": InsertHeader,
    "DropHeaders": DropHeaders,
    "RegexRouter": RegexRouter.of,
    "TimestampRouter": TimestampRouter.of,
    "Filter": lambda _: Filter(),
    "CsvLine": CsvLine,
}


@dataclass(frozen=True, slots=True)
class _Step:
    transform: Transform
    predicate: Predicate | None
    negate: bool

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Transform the selected records, keep the others, and preserve the order."""
        if self.predicate is None:
            yield from self.transform.apply(rows)
            return
        chosen = self.predicate.test(rows) != self.negate
        if chosen.all():
            yield from self.transform.apply(rows)
        elif not chosen.any():
            yield rows
        else:
            yield from self._apply_to_some(rows, chosen)

    def _apply_to_some(self, rows: Rows, chosen: NDArray[np.bool_]) -> Iterator[Rows]:
        rest = rows.take(np.flatnonzero(~chosen))
        if isinstance(self.transform, Filter):
            yield rest
            return
        changed = list(self.transform.apply(rows.take(np.flatnonzero(chosen))))
        yield from _merge([(rest, np.flatnonzero(~chosen)), *_placed(changed, chosen)])


def _placed(
    pieces: Sequence[Rows], chosen: NDArray[np.bool_]
) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """Yield each transformed batch with the original positions of its records."""
    places = np.flatnonzero(chosen)
    at = 0
    for piece in pieces:
        yield piece, places[at : at + len(piece)]
        at += len(piece)


def _merge(parts: Sequence[tuple[Rows, NDArray[np.int64]]]) -> Iterator[Rows]:
    """Yield the rows of all parts ordered by position, in as few batches as possible."""
    groups: dict[Any, list[tuple[Rows, NDArray[np.int64]]]] = {}
    for rows, places in parts:
        kind = (rows.topic, rows.key.schema, rows.value.schema)
        groups.setdefault(kind, []).append((rows, places))
    joined = [_concat(group) for group in groups.values()]
    owner = np.empty(sum(len(places) for _, places in joined), dtype=np.int64)
    for number, (_, places) in enumerate(joined):
        owner[places] = number
    done = [0] * len(joined)
    for start, stop in run_bounds(owner):
        number = int(owner[start])
        at = done[number]
        done[number] = at + stop - start
        yield joined[number][0].slice(at, done[number])


def _concat(
    parts: Sequence[tuple[Rows, NDArray[np.int64]]],
) -> tuple[Rows, NDArray[np.int64]]:
    """Concatenate rows of one topic and one pair of schemas, in the order of their positions."""
    if len(parts) == 1:
        return parts[0]
    all_rows = [rows for rows, _ in parts]
    places = np.concatenate([places for _, places in parts])
    whole = replace(
        all_rows[0],
        offsets=np.concatenate([rows.offsets for rows in all_rows]),
        timestamps=np.concatenate([rows.timestamps for rows in all_rows]),
        key=_concat_columns([rows.key for rows in all_rows]),
        value=_concat_columns([rows.value for rows in all_rows]),
        headers=pa.concat_arrays([rows.headers for rows in all_rows]),
    )
    order = np.argsort(places, kind="stable")
    return whole.take(order), places[order]


def _concat_columns(columns: list[Column]) -> Column:
    """Concatenate columns that share one schema."""
    if len(columns) == 1:
        return columns[0]
    return Column(columns[0].schema, pa.concat_arrays([column.array for column in columns]))


@dataclass(frozen=True, slots=True)
class Chain:
    """Transforms in the order they are applied. Each task opens its own chain."""

    steps: tuple[_Step, ...]
    changes_values: bool
    """True if the chain can change a value or its schema."""
    changes_keys: bool
    """True if the chain can change a key or its schema."""

    @property
    def is_empty(self) -> bool:
        """True if the chain has no steps."""
        return not self.steps

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the transformed rows in order, in batches of one topic and schema each.

        Filter drops records. RecordError is raised before the first batch is yielded. The caller
        can therefore retry with smaller batches.
        """
        pieces = [rows] if len(rows) else []
        for step in self.steps:
            pieces = [new for piece in pieces for new in step.apply(piece) if len(new)]
        return iter(pieces)


def open_chain(specs: Sequence[TransformSpec]) -> Chain:
    """Return the chain that ``parse_transforms`` described."""
    steps: list[_Step] = []
    for spec in specs:
        step = _Step(
            _open(spec),
            open_predicate(spec.predicate) if spec.predicate else None,
            spec.negate,
        )
        joined = _joined(steps[-1], step) if steps else None
        if joined is not None:
            steps[-1] = joined
        else:
            steps.append(step)
    return Chain(
        tuple(steps),
        any(_changes(spec, "Value") for spec in specs),
        any(_changes(spec, "Key") for spec in specs),
    )


def _open(spec: TransformSpec) -> Transform:
    if spec.side is not None:
        return _SIDED[spec.kind](spec.side, spec.options)
    return _WHOLE[spec.kind](spec.options)


def _joined(last: _Step, step: _Step) -> _Step | None:
    """Merge two adjacent InsertField steps, so that each text is scanned once."""
    if last.predicate is not None or step.predicate is not None:
        return None
    if isinstance(last.transform, InsertField) and isinstance(step.transform, InsertField):
        both = last.transform.joined(step.transform)
        return _Step(both, None, False) if both is not None else None
    return None


def _changes(spec: TransformSpec, side: str) -> bool:
    if spec.kind == "HeaderFrom":
        return spec.side == side and spec.options.operation == "move"
    return spec.side == side or (spec.kind == "ValueToKey" and side == "Key")
