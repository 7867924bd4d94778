"""Transforms one after the other, each for the records its predicate chooses.

Connect's predicates.
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
from kafkeep.records.transforms.fields import (
    CsvLine,
    ExtractField,
    Flatten,
    HoistField,
    ReplaceField,
    SetSchemaMetadata,
    ValueToKey,
)
from kafkeep.records.transforms.metadata import (
    DropHeaders,
    HeaderFrom,
    InsertHeader,
    RegexRouter,
    TimestampRouter,
    header_matches,
)
from kafkeep.records.transforms.set_fields import InsertField, MaskField, parse_insertions
from kafkeep.records.transforms.sinetstream import (
    ByteArrayCast,
    MicrosecondTimestampConverter,
    ParseJson,
    StringCast,
)
from kafkeep.records.transforms.timestamp_converter import TimestampConverter
from kafkeep.records.transforms.transform import Predicate, Transform


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Records of a topic whose whole name matches; a router before it may have changed it."""

    pattern: JavaPattern

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell for each record whether it is chosen."""
        return np.full(len(rows), self.pattern.matches(rows.topic))


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Records with at least one header of that name."""

    name: str

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell for each record whether it is chosen."""
        before = np.concatenate([[0], np.cumsum(header_matches(rows.headers, self.name))])
        counts = np.diff(before[view_offsets(rows.headers)])
        return np.asarray(counts > 0)


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Records without a value; the JSON document ``null`` is a value."""

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell for each record whether it is chosen."""
        return ~valid_flags(rows.value.array)


def open_predicate(spec: PredicateSpec) -> Predicate:
    """Return the predicate a specification stands for."""
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
    """Drops every record it is for. All other transforms give one record for one."""

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
        """Transform the chosen records and leave the others, in order."""
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
    """Yield the pieces of the chosen records with the places those had."""
    places = np.flatnonzero(chosen)
    at = 0
    for piece in pieces:
        yield piece, places[at : at + len(piece)]
        at += len(piece)


def _merge(parts: Sequence[tuple[Rows, NDArray[np.int64]]]) -> Iterator[Rows]:
    """Yield the rows of all parts in the order of their places, in as few pieces as can be."""
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
    """Put rows of one topic and one pair of schemas together, in the order of their places."""
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
    """Put columns of one schema together."""
    if len(columns) == 1:
        return columns[0]
    return Column(columns[0].schema, pa.concat_arrays([column.array for column in columns]))


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps in order. Pure; opened in a task."""

    steps: tuple[_Step, ...]
    changes_values: bool
    """Whether a value may come out other than it went in, its schema included."""
    changes_keys: bool
    """Likewise for keys."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield what becomes of ``rows``, in order, in pieces of one topic and schema each.

        Records a Filter drops are gone. RecordError comes before the first piece does, so the
        caller can try smaller ones and has not used any.
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
    """Join neighbouring InsertFields: three scans of every text become one."""
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
