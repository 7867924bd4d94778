"""Keys and values of any schema as the bytes to produce, by the converter that was named."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pyarrow as pa

from kafkeep.config.converters import ConverterClass, ConverterOptions
from kafkeep.contents.options import REGISTERED
from kafkeep.contents.original import IN_JSON, as_stored
from kafkeep.converters.converter import Converter
from kafkeep.converters.open import open_converter
from kafkeep.data.column import Column
from kafkeep.data.json_decode import decode_spans
from kafkeep.data.json_spans import find_documents
from kafkeep.data.schema import Kind
from kafkeep.errors import RecordError

BYTES = (ConverterClass.BYTES, ConverterClass.ALREADY_BYTES)
_TAKE_BYTES = (*BYTES, ConverterClass.STRING)


class Encoder:
    """Without a converter bytes are bytes, texts are texts, anything else is JSON.

    Who is only ``looking`` registers no schema, and sees what cannot be encoded as it stands.
    """

    def __init__(
        self,
        role: Literal["key", "value"],
        told: ConverterOptions | None,
        topic: str,
        *,
        looking: bool = False,
    ) -> None:
        self._looking = looking
        if looking and told is not None and told.kind in REGISTERED:
            told = replace(told, shape={**told.shape, "auto.register.schemas": "false"})
        self._kind = told.kind if told is not None else None
        self._converter: Converter | None = open_converter(role, told, topic) if told else None

    def encode(self, column: Column) -> pa.BinaryArray:
        """Return the bytes of each row; null stays null."""
        if column.array.null_count == len(column):
            return pa.nulls(len(column), pa.binary())
        if self._converter is None:
            return _as_it_stands(column)
        try:
            return self._convert(self._converter, column)
        except RecordError:
            if not self._looking:
                raise
            return _as_it_stands(column)

    def _convert(self, converter: Converter, column: Column) -> pa.BinaryArray:
        if column.schema is None:
            return self._from_texts(converter, column)
        if is_plain_bytes(column) and self._kind in _TAKE_BYTES:
            return column.array
        return converter.restore(column)

    def _from_texts(self, converter: Converter, column: Column) -> pa.BinaryArray:
        """Return what JSON texts stand for: a converter's strings, numbers and bytes."""
        assert self._kind is not None
        schema = IN_JSON.get(self._kind)
        if schema is None:
            return converter.restore(column)
        array, misfits = decode_spans(find_documents(column.array), schema)
        found = converter.restore(Column(schema, array))
        if not misfits:
            return found
        rows = found.to_pylist()
        for row in misfits:
            rows[row] = column.array[row].as_py()
        return pa.array(rows, pa.binary())


def is_plain_bytes(column: Column) -> bool:
    """Whether a column holds bytes that mean nothing yet."""
    schema = column.schema
    return schema is not None and schema.kind is Kind.BYTES and not schema.name


def _as_it_stands(column: Column) -> pa.BinaryArray:
    return column.array if column.schema is None else as_stored(column)
