"""Parquet files of whole Kafka records, written without Arrow's writer.

Arrow's takes as long again as compressing what it writes. Here each page is made by one loop over
Arrow's buffers. The columns, and what the file says of them, are those Arrow would write.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO

import pyarrow as pa

from kafkeep.numba_setup import Int64s
from kafkeep.objects.formats.parquet_bytes import BytesPages, Scratch
from kafkeep.objects.formats.parquet_pages import (
    Chunk,
    Compress,
    Encoding,
    PageType,
    Value,
    add_int32_runs,
    add_numbers,
    add_text_runs,
    binary,
    i32,
    i64,
    listed,
    struct,
    text,
)
from kafkeep.objects.formats.parquet_tables import GROUP_BYTES
from kafkeep.records.rows import pile_records

_MAGIC = b"PAR1"
_VERSION = 2
_CREATED_BY = "kafkeep version 1"
"""The number is this writer's: readers tell one that had a fault by it."""
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7, "lz4_raw": 7}
"""Parquet's numbers. Its own ``lz4`` (5) is written by nobody since 2021."""
_STRING, _LIST = (0, struct({1: struct({})})), (3, struct({3: struct({})}))
"""What annotates a column: the old number, and the logical type."""


class _Type(IntEnum):
    INT32 = 1
    INT64 = 2
    BYTE_ARRAY = 6


class _Repetition(IntEnum):
    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that has values: its type, and the names that lead to it."""

    kind: _Type
    path: tuple[str, ...]


_ITEM = ("headers", "list", "element")
_COLUMNS = (
    _Column(_Type.BYTE_ARRAY, ("topic",)),
    _Column(_Type.INT32, ("partition",)),
    _Column(_Type.INT64, ("offset",)),
    _Column(_Type.INT64, ("timestamp",)),
    _Column(_Type.BYTE_ARRAY, ("key",)),
    _Column(_Type.BYTE_ARRAY, ("value",)),
    _Column(_Type.BYTE_ARRAY, (*_ITEM, "key")),
    _Column(_Type.BYTE_ARRAY, (*_ITEM, "value")),
    _Column(_Type.BYTE_ARRAY, (*_ITEM, "key_bytes")),
)


def _element(
    name: str,
    kind: _Type | None,
    repetition: _Repetition,
    logical: tuple[int, Value] | None = None,
    children: int = 0,
) -> Value:
    return struct(
        {
            1: None if kind is None else i32(kind),
            3: i32(repetition),
            4: text(name),
            5: i32(children) if children else None,
            6: None if logical is None else i32(logical[0]),
            10: None if logical is None else logical[1],
        }
    )


_SCHEMA = listed(
    [
        _element("schema", None, _Repetition.REQUIRED, children=7),
        _element("topic", _Type.BYTE_ARRAY, _Repetition.REQUIRED, _STRING),
        _element("partition", _Type.INT32, _Repetition.REQUIRED),
        _element("offset", _Type.INT64, _Repetition.REQUIRED),
        _element("timestamp", _Type.INT64, _Repetition.REQUIRED),
        _element("key", _Type.BYTE_ARRAY, _Repetition.OPTIONAL),
        _element("value", _Type.BYTE_ARRAY, _Repetition.OPTIONAL),
        _element("headers", None, _Repetition.REQUIRED, _LIST, children=1),
        _element("list", None, _Repetition.REPEATED, children=1),
        _element("element", None, _Repetition.REQUIRED, children=3),
        _element("key", _Type.BYTE_ARRAY, _Repetition.REQUIRED, _STRING),
        _element("value", _Type.BYTE_ARRAY, _Repetition.OPTIONAL),
        _element("key_bytes", _Type.BYTE_ARRAY, _Repetition.OPTIONAL),
    ]
)


def _compressor(codec: str) -> Compress:
    if codec == "none":
        return lambda raw: raw
    # Arrow's own "lz4" has frames, Parquet's has not.
    compress: Compress = pa.Codec("lz4_raw" if codec == "lz4" else codec).compress
    return compress


class RecordWriter:
    """One file of whole records, row group by row group."""

    group_bytes = GROUP_BYTES

    def __init__(self, codec: str, metadata: Mapping[bytes, bytes]) -> None:
        self._codec = _CODECS[codec]
        self._compress = _compressor(codec)
        self._metadata = metadata
        self._groups: list[Value] = []
        self._rows = 0
        self._written = 0

    def check(self, array: pa.StructArray) -> None:
        """Made of Kafka's own bytes and numbers, each row has its place."""

    def ends(self, array: pa.StructArray) -> Int64s:
        """Return how many bytes the rows up to each have, of keys, values and headers."""
        return pile_records(*(array.field(name) for name in ("key", "value", "headers")))

    def write_group(self, pieces: list[pa.StructArray]) -> bytes:
        """Return the bytes of one row group of rows that come in pieces, at least one."""
        out = io.BytesIO()
        out.write(b"" if self._written else _MAGIC)
        begin = self._written or len(_MAGIC)
        at, raw_bytes, columns = begin, 0, []
        for column, chunk in zip(_COLUMNS, _iter_chunks(pieces, out, self._compress), strict=True):
            columns.append(_describe(column, chunk, at, self._codec))
            at += chunk.stored_bytes
            raw_bytes += chunk.raw_bytes
        rows = sum(map(len, pieces))
        told = {1: listed(columns), 2: i64(raw_bytes), 3: i64(rows)}
        self._groups.append(struct({**told, 5: i64(begin), 6: i64(at - begin)}))
        self._rows += rows
        self._written = at
        return out.getvalue()

    def close(self) -> bytes:
        """Return the footer; a file without rows has no row group."""
        pairs = [struct({1: binary(k), 2: binary(v)}) for k, v in self._metadata.items()]
        orders = [struct({1: struct({})}) for _ in _COLUMNS]
        footer = struct(
            {
                1: i32(_VERSION),
                2: _SCHEMA,
                3: i64(self._rows),
                4: listed(self._groups),
                5: listed(pairs),
                6: text(_CREATED_BY),
                7: listed(orders),
            }
        ).body
        begin = b"" if self._written else _MAGIC
        return b"".join([begin, footer, len(footer).to_bytes(4, "little"), _MAGIC])


def _iter_chunks(
    pieces: list[pa.StructArray], out: BinaryIO, compress: Compress
) -> Iterator[Chunk]:
    """Yield the columns of one row group, in the order of ``_COLUMNS``, each as it is written."""
    simple = (add_text_runs, add_int32_runs, add_numbers, add_numbers)
    for place, add in enumerate(simple):
        chunk = Chunk(out, compress)
        add(chunk, [piece.field(place) for piece in pieces])
        yield chunk
    scratch = Scratch()
    for name in ("key", "value"):
        chunk = Chunk(out, compress)
        pages = BytesPages(chunk, scratch, in_lists=False, present=1)
        for piece in pieces:
            pages.add(piece.field(name))
        pages.finish()
        yield chunk
    for name, present in (("key", 1), ("value", 2), ("key_bytes", 2)):
        chunk = Chunk(out, compress)
        pages = BytesPages(chunk, scratch, in_lists=True, present=present)
        for piece in pieces:
            lists = piece.field("headers")
            pages.add_lists(lists, lists.values.field(name))
        pages.finish()
        yield chunk


def _describe(column: _Column, chunk: Chunk, at: int, codec: int) -> Value:
    """Return what the footer says of a column that begins at ``at``."""
    assert chunk.data_at is not None
    encodings = sorted({Encoding.RLE, *(encoding for _, encoding in chunk.pages)})
    counts = [
        struct({1: i32(kind), 2: i32(encoding), 3: i32(count)})
        for (kind, encoding), count in chunk.pages.items()
    ]
    statistics = None
    if chunk.bounds is not None:
        least, largest = map(binary, chunk.bounds)
        statistics = struct({1: largest, 2: least, 3: i64(0), 5: largest, 6: least})
    told = {
        1: i32(column.kind),
        2: listed([i32(encoding) for encoding in encodings]),
        3: listed([text(name) for name in column.path]),
        4: i32(codec),
        5: i64(chunk.num_values),
        6: i64(chunk.raw_bytes),
        7: i64(chunk.stored_bytes),
        9: i64(at + chunk.data_at),
        11: i64(at) if (PageType.DICTIONARY, Encoding.PLAIN) in chunk.pages else None,
        12: statistics,
        13: listed(counts),
    }
    return struct({2: i64(0), 3: struct(told)})
