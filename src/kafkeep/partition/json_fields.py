"""Fields of schemaless JSON documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.data.json_text import FieldKind, FieldSpans, find_fields
from kafkeep.partition.arrow import codes_of, true_rows
from kafkeep.partition.distinct import Int64s
from kafkeep.partition.problem import RowProblem


@dataclass(frozen=True, slots=True)
class Found:
    """A field of some documents: its JSON, and which documents lack it.

    Rows without a document, or whose field lies inside of a null, have the kind NULL.
    """

    spans: FieldSpans
    missing: NDArray[np.bool_]

    def contents(self) -> pa.BinaryArray:
        """Return the JSON of each field, strings without their quotes; null where missing."""
        spans = self.spans
        quote = (spans.kinds == FieldKind.STRING).astype(np.int64)
        return FieldSpans(spans.data, spans.starts + quote, spans.ends - quote, spans.kinds).texts()


def find_json(texts: pa.BinaryArray, names: tuple[str, ...]) -> Found:
    """Find a field, nested or with dots in its own name, in each document."""
    spans = find_fields(texts, names)
    missing = spans.kinds == FieldKind.MISSING
    if not missing.any():
        return Found(spans, missing)
    kinds, starts, ends = spans.kinds.copy(), spans.starts.copy(), spans.ends.copy()
    for way in list(_iter_ways(names))[1:]:
        other = find_fields(texts, way)
        fill = missing & (other.kinds != FieldKind.MISSING)
        kinds[fill], starts[fill], ends[fill] = (
            other.kinds[fill],
            other.starts[fill],
            other.ends[fill],
        )
        missing &= ~fill
    is_null = np.zeros(len(texts), np.bool_)
    is_null[true_rows(texts.is_null())] = True
    for way in _iter_ways(names):
        for depth in range(len(way)):
            is_null |= missing & (find_fields(texts, way[:depth]).kinds == FieldKind.NULL)
    kinds[missing & is_null] = FieldKind.NULL
    return Found(FieldSpans(spans.data, starts, ends, kinds), missing & ~is_null)


def _iter_ways(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths a dotted name may stand for, the most nested one first."""
    if not names:
        yield ()
    for count in range(1, len(names) + 1):
        for rest in _iter_ways(names[count:]):
            yield (".".join(names[:count]), *rest)


def read_json(texts: pa.BinaryArray, names: tuple[str, ...]) -> tuple[Int64s, list[str | None]]:
    """Return codes and texts of a field: numbers as they were written, strings unescaped.

    RowProblem when a document lacks the field, or when it is an object or a list.
    """
    found = find_json(texts, names)
    if found.missing.any():
        row = int(np.argmax(found.missing))
        raise RowProblem(row, f"the field {'.'.join(names)!r} does not exist")
    encoded = pc.dictionary_encode(found.spans.texts(), null_encoding="encode")
    codes = codes_of(encoded)
    written: list[str | None] = []
    for place, value in enumerate(encoded.dictionary.to_pylist()):
        try:
            written.append(_write(value))
        except ValueError as error:
            raise RowProblem(int(np.argmax(codes == place)), str(error)) from error
    return codes, written


def _write(value: bytes | None) -> str | None:
    match value[:1] if value else b"n":
        case b"n":
            return None
        case b'"':
            return unescape(value or b"")
        case b"{" | b"[":
            raise ValueError("an object or a list is no part of a path")
    return (value or b"").decode()


def unescape(string: bytes) -> str:
    """Return the text of a JSON string with its quotes; ValueError when UTF-8 has no such text."""
    try:
        text: str = orjson.loads(string)
    except orjson.JSONDecodeError:
        raise ValueError("half of a surrogate pair is no part of a path") from None
    return text
