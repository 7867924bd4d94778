"""The bytes Kafka had, from the columns of objects. In tasks.

Which bytes they were is told by the converter the rows came through. Where there is no way back
(a transform made something else of them) what stands in the object is given: bytes as bytes,
texts as texts, anything else as JSON.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.entry import Entry
from kafkeep.config.converters import ConverterClass
from kafkeep.config.formats import DecimalText, FormatKind
from kafkeep.contents.options import REGISTERED, ReadOptions
from kafkeep.converters.converter import Converter
from kafkeep.converters.open import open_converter
from kafkeep.data.column import OPTIONAL_BYTES, OPTIONAL_STRING, Column
from kafkeep.data.json_decode import decode_spans
from kafkeep.data.json_spans import find_documents
from kafkeep.data.json_values import constant, json_texts
from kafkeep.data.schema import Kind, Schema
from kafkeep.errors import PreflightError, RecordError, UsageError

IN_JSON = {
    ConverterClass.STRING: OPTIONAL_STRING,
    ConverterClass.BYTES: OPTIONAL_BYTES,
    ConverterClass.ALREADY_BYTES: OPTIONAL_BYTES,
    ConverterClass.LONG: Schema(kind=Kind.INT64, optional=True),
    ConverterClass.INTEGER: Schema(kind=Kind.INT32, optional=True),
    ConverterClass.SHORT: Schema(kind=Kind.INT16, optional=True),
    ConverterClass.FLOAT: Schema(kind=Kind.FLOAT32, optional=True),
    ConverterClass.DOUBLE: Schema(kind=Kind.FLOAT64, optional=True),
    ConverterClass.BOOLEAN: Schema(kind=Kind.BOOLEAN, optional=True),
}
"""What values of a converter are in JSON objects, where their schema is not written."""


class Original:
    """Gives the bytes of the rows of one object of values, keys or tombstones."""

    def __init__(self, entry: Entry, options: ReadOptions, topic: str | None = None) -> None:
        """Take the object's entry, and the topic its schemas are registered for: its own."""
        self._entry = entry
        self._topic = topic or entry.partition_id.topic
        self._told = options.converter(entry)
        self._null_is_none = null_is_none(entry, options)
        self._registered = self._told is not None and self._told.kind in REGISTERED
        self._registers = self._registered and options.registers

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the bytes of a column's rows; null is null."""
        if column.schema is None:
            return self._from_texts(column.array)
        kind = column.schema.kind
        if kind is Kind.BYTES and not column.schema.name:
            return column.array
        try:
            return self._converter.restore(column) if self._converter else as_stored(column)
        except RecordError as error:
            if self._registers:
                raise PreflightError(
                    f"{self._entry.key}: {error.message}", hint=error.hint
                ) from error
            return as_stored(column)

    @cached_property
    def _converter(self) -> Converter | None:
        """The converter, or None when it needs a registry that is not known."""
        told = self._told
        if told is None or told.role == "header":
            return None
        if told.kind is ConverterClass.JSON:
            told = replace(told, shape={**told.shape, "schemas.enable": "true"})
        if self._registered and not self._registers:
            told = replace(told, shape={**told.shape, "auto.register.schemas": "false"})
        try:
            role: Literal["key", "value"] = "key" if told.role == "key" else "value"
            return open_converter(role, told, self._topic)
        except UsageError:
            return None

    def _from_texts(self, texts: pa.BinaryArray) -> pa.BinaryArray:
        schema = IN_JSON.get(self._told.kind) if self._told is not None else None
        if schema is None or self._entry.format != FormatKind.JSON:
            return without_nulls(texts) if self._null_is_none else texts
        array, misfits = decode_spans(find_documents(texts), schema)
        assert self._converter is not None
        found = self._converter.restore(Column(schema, array))
        if not misfits:
            return found
        rows = found.to_pylist()
        for row in misfits:
            rows[row] = texts[row].as_py()
        return pa.array(rows, pa.binary())


def null_is_none(entry: Entry, options: ReadOptions) -> bool:
    """Tell whether JSON's null in an object stands for no value at all."""
    sink = options.sink
    in_line = sink is None or sink.nulls.behavior_on_null_values == "write"
    return in_line or entry.view != "value"


def without_nulls(texts: pa.BinaryArray) -> pa.BinaryArray:
    """Return texts, with those that are JSON's null as null."""
    lengths = pc.binary_length(texts)
    if not np.any(np.asarray(lengths.fill_null(0)) == len(b"null")):
        return texts
    return pc.if_else(pc.equal(texts, constant(b"null")), pa.nulls(len(texts), pa.binary()), texts)


def as_stored(column: Column) -> pa.BinaryArray:
    """Return bytes as bytes, texts as texts, anything else as JSON."""
    assert column.schema is not None
    if column.schema.kind in (Kind.BYTES, Kind.STRING):
        return column.array.cast(pa.binary())
    texts = json_texts(column.array, column.schema, DecimalText.BASE64)
    if column.array.null_count:
        return pc.if_else(column.array.is_valid(), texts, pa.nulls(len(texts), pa.binary()))
    return texts
