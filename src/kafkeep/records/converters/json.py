"""JsonConverter: decode and encode JSON texts, with or without an embedded schema; pure."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.errors import RecordError
from kafkeep.options.sink.formats import DecimalText
from kafkeep.records.converters.converter import ConvertedRange
from kafkeep.records.json.decode import decode_spans
from kafkeep.records.json.edit import (
    FieldKind,
    FieldSpans,
    count_members,
    find_changes,
    find_documents,
    split_objects,
)
from kafkeep.records.json.encode import constant, json_texts
from kafkeep.records.json.schema import parse_schema, schema_to_json
from kafkeep.records.json.text import CheckedTexts, check_texts
from kafkeep.records.schema import Column, Schema

NOT_JSON = "Converting byte[] to Kafka Connect data failed due to serialization error"
NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain'
    " additional fields. If you are trying to deserialize plain JSON data, set"
    " schemas.enable=false in your converter configuration."
)
_MAX_SCHEMAS = 1000
_SPACE = b" \t\r\n"

Faults = dict[int, RecordError]


class JsonConverter:
    """Connect's JsonConverter. Schemaless values keep their bytes (see ``check_texts``).

    With ``schemas_enable``, each value is read and written as ``{"schema": …, "payload": …}``. If
    the schema is ``null``, the payload is schemaless. Without ``schemas_enable``, an empty or blank
    value is null, as in Connect.
    """

    def __init__(
        self,
        schemas_enable: bool = True,
        decimal_format: Literal["BASE64", "NUMERIC"] = "BASE64",
    ) -> None:
        self.schemas_enable = schemas_enable
        self.decimal_format = DecimalText(decimal_format)
        self._schemas: dict[bytes, Schema | RecordError | None] = {}

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Yield a range for each run of one schema, and one for each record with an error."""
        checked = check_texts(values)
        blank = [
            row for row in checked.bad.tolist() if not checked.texts[row].as_py().strip(_SPACE)
        ]
        faults = {
            row: RecordError(f"{NOT_JSON}: {checked.why(row)}")
            for row in np.setdiff1d(checked.bad, blank).tolist()
        }
        if self.schemas_enable:
            faults.update({row: RecordError(NO_ENVELOPE) for row in blank})
            yield from self._open_envelopes(checked, faults)
        else:
            yield from _cut(0, Column(None, _without(checked.texts, blank)), faults)

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return JSON texts that ``convert`` decodes to the same column; nulls stay null."""
        texts = column.array
        if column.schema is not None:
            texts = json_texts(column.array, column.schema, self.decimal_format)
            if column.array.null_count:
                texts = pc.if_else(column.array.is_valid(), texts, pa.NA)
        if not self.schemas_enable:
            return texts
        schema = json.dumps(schema_to_json(column.schema), separators=(",", ":")).encode()
        head = constant(b'{"schema":' + schema + b',"payload":')
        return pc.binary_join_element_wise(head, texts, constant(b"}"), constant(b""))

    def _open_envelopes(self, checked: CheckedTexts, faults: Faults) -> Iterator[ConvertedRange]:
        schemas, payloads = _split_envelopes(checked, faults)
        for start, stop, schema in self._group(schemas, payloads, faults):
            part = payloads.where(slice(start, stop))
            if schema is None:
                yield from _cut(start, Column(None, part.texts()), faults)
                continue
            array, misfits = decode_spans(part, schema)
            faults.update({start + row: RecordError(why) for row, why in misfits.items()})
            yield from _cut(start, Column(schema, array), faults)

    def _group(
        self, schemas: FieldSpans, payloads: FieldSpans, faults: Faults
    ) -> Iterator[tuple[int, int, Schema | None]]:
        """Yield runs of one schema, and record an error for each row with an invalid schema."""
        starts = np.flatnonzero(find_changes(schemas)).tolist()
        current: Schema | None = None
        begun, known = 0, False
        for start, stop in pairwise([*starts, len(schemas)]):
            schema = self._schema(schemas.data[schemas.starts[start] : schemas.ends[start]])
            if isinstance(schema, RecordError):
                rows = start + np.flatnonzero(schemas.kinds[start:stop] != FieldKind.MISSING)
                faults.update(dict.fromkeys(rows.tolist(), schema))
                payloads.kinds[rows] = FieldKind.MISSING
                continue
            if known and schema != current:
                yield begun, start, current
                begun = start
            current, known = schema, True
        if len(schemas):
            yield begun, len(schemas), current

    def _schema(
        self, text: np.ndarray[tuple[int], np.dtype[np.uint8]]
    ) -> Schema | RecordError | None:
        key = text.tobytes()
        if key not in self._schemas:
            if len(self._schemas) >= _MAX_SCHEMAS:
                self._schemas.clear()
            try:
                self._schemas[key] = parse_schema(key)
            except RecordError as error:
                self._schemas[key] = error
        return self._schemas[key]


def _split_envelopes(checked: CheckedTexts, faults: Faults) -> tuple[FieldSpans, FieldSpans]:
    """Return schemas and payloads; both are missing if a row is null or has an error."""
    documents = find_documents(checked.texts)
    documents.kinds[checked.bad] = FieldKind.MISSING
    schemas, payloads = split_objects(documents, ["schema", "payload"])
    whole = (schemas.kinds != FieldKind.MISSING) & (payloads.kinds != FieldKind.MISSING)
    whole &= count_members(documents) == 2
    for row in np.flatnonzero(~whole & (documents.kinds != FieldKind.MISSING)).tolist():
        faults[row] = RecordError(NO_ENVELOPE)
    schemas.kinds[~whole] = FieldKind.MISSING
    payloads.kinds[~whole] = FieldKind.MISSING
    return schemas, payloads


def _without(texts: pa.BinaryArray, rows: list[int]) -> pa.BinaryArray:
    """Return the texts with null at ``rows``."""
    if not rows:
        return texts
    flags = np.zeros(len(texts), np.bool_)
    flags[rows] = True
    bits = pa.py_buffer(np.packbits(flags, bitorder="little"))
    blank = pa.Array.from_buffers(pa.bool_(), len(texts), [None, bits])
    return pc.if_else(blank, pa.nulls(len(texts), texts.type), texts)


def _cut(start: int, column: Column, faults: Mapping[int, RecordError]) -> Iterator[ConvertedRange]:
    """Yield the column, which starts at row ``start``, split around the rows with errors."""
    stop, at = start + len(column), start
    rows = sorted(faults)
    for row in rows[bisect_left(rows, start) : bisect_left(rows, stop)]:
        if row > at:
            yield ConvertedRange(at, row, column.slice(at - start, row - start))
        yield ConvertedRange(row, row + 1, faults[row])
        at = row + 1
    if stop > at:
        yield ConvertedRange(
            at, stop, column.slice(at - start, stop - start) if at > start else column
        )
