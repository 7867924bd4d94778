"""AvroConverter: decode and encode values whose Avro schema is in a schema registry.

The definitions of referenced schemas are inlined, so that the schema is self-contained. The
converter calls the registry and caches its answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.errors import RecordError
from kafkeep.numba_setup import Int64s
from kafkeep.options.sink.converter_settings import AvroSettings
from kafkeep.records.arrow import binary_array, view_data, view_offsets, view_valid
from kafkeep.records.avro.schema import dump_avro, is_union, to_avro
from kafkeep.records.avro.schema_reader import from_avro, full_name
from kafkeep.records.avro.values import AvroValues
from kafkeep.records.converters.converter import (
    HEAD_BYTES,
    ConvertedRange,
    SchemaRun,
    TopicSubject,
    failed_pieces,
    frame,
    iter_runs_of,
    unframed,
)
from kafkeep.records.schema import Column, Field, Schema
from kafkeep.registry.client import Registry

_NAMED = ("record", "error", "enum", "fixed")


def load_avro(schema: RegisteredSchema, references: Mapping[str, RegisteredSchema]) -> Any:
    """Return the Avro schema as JSON values, with all references inlined."""
    return _Inlining({name: _parse(one.text) for name, one in references.items()}).walk(
        _parse(schema.text), ""
    )


def shorten_members(schema: Schema) -> Schema:
    """Return the schema with the namespaces removed from the names of union members."""
    fields = tuple(
        Field(
            field.name.rpartition(".")[2] if is_union(schema) else field.name,
            shorten_members(field.schema),
        )
        for field in schema.fields
    )
    items = None if schema.items is None else shorten_members(schema.items)
    keys = None if schema.keys is None else shorten_members(schema.keys)
    return replace(schema, fields=fields, items=items, keys=keys)


def _parse(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if text.isidentifier():  # some registries store a bare "string"
            return text
        raise RecordError(f"a schema in the registry is not Avro: {text[:100]}") from error


class _Inlining:
    """The state of inlining one schema; each name is defined where it first occurs."""

    def __init__(self, references: Mapping[str, Any]) -> None:
        self.references = dict(references)
        self.placed: set[str] = set()

    def walk(self, avro: Any, space: str) -> Any:
        if isinstance(avro, list):
            return [self.walk(one, space) for one in avro]
        if isinstance(avro, str):
            return self._named(avro, space)
        if avro.get("type") in _NAMED:
            return self._definition(avro, space)
        inner = {
            key: self.walk(avro[key], space) for key in ("type", "items", "values") if key in avro
        }
        return avro | inner

    def _definition(self, avro: dict[str, Any], space: str) -> dict[str, Any]:
        full = full_name(avro, space)
        self.placed.add(full)
        if "fields" not in avro:
            return avro
        inner = full.rpartition(".")[0]
        fields = [field | {"type": self.walk(field["type"], inner)} for field in avro["fields"]]
        return avro | {"fields": fields}

    def _named(self, name: str, space: str) -> Any:
        for full in (f"{space}.{name}", name):
            if full in self.placed:
                return name
            if full in self.references:
                found = self.references[full]
                if not isinstance(found, dict):
                    return self.walk(found, "")
                # The namespace is set explicitly, so that the type does not inherit the enclosing
                # one.
                whole = full_name(found, "")
                return self.walk(
                    found | {"name": whole.rpartition(".")[2], "namespace": _space(whole)}, ""
                )
        return name


def _space(full: str) -> str:
    return full.rpartition(".")[0]


class AvroConverter:
    """Keys or values of one topic in Confluent's Avro format."""

    def __init__(self, settings: AvroSettings, registry: Registry, subject: TopicSubject) -> None:
        self.settings = settings
        self.registry = registry
        self.subject = subject
        self._decoders: dict[int, AvroValues] = {}

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Yield a column for each run of one schema id.

        Raise TransientError if the registry is down.
        """
        for run in iter_runs_of(values):
            messages = values.slice(run.start, run.stop - run.start)
            if run.key is None:
                yield from failed_pieces(run.start, messages, unframed)
                continue
            try:
                decoder = self._decoder(run.key)
            except RecordError as error:
                yield from failed_pieces(run.start, messages, partial(_same, error))
                continue
            yield from _decode(decoder, messages, run)

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return messages with a schema of this topic's subject; register it if necessary."""
        if column.schema is None:
            raise RecordError("values without a schema have no Avro form")
        schema_id, avro = self._write_schema(column.schema)
        rows = AvroValues(avro, column.schema).encode(column.array.drop_null())
        data = np.empty(int(rows.sizes.sum()), dtype=np.uint8)
        rows.write(0, len(rows.sizes), data)
        whole, at = data.tobytes(), 0
        made: list[bytes | None] = []
        sizes = iter(rows.sizes.tolist())
        for present in column.array.is_valid().to_pylist():
            size = next(sizes) if present else 0
            made.append(frame(schema_id, whole[at : at + size]) if present else None)
            at += size
        return binary_array(made)

    def _decoder(self, schema_id: int) -> AvroValues:
        if schema_id not in self._decoders:
            self._decoders[schema_id] = self._open(schema_id)
        return self._decoders[schema_id]

    def _open(self, schema_id: int) -> AvroValues:
        found = self.registry.schema(schema_id)
        if found.type != "AVRO":
            raise RecordError(f"schema id {schema_id} is of type {found.type}, not AVRO")
        avro = load_avro(found, self.registry.references(found))
        schema = self._read_schema(avro)
        if schema is None:
            raise RecordError(f"schema id {schema_id} has no type of its own")
        if schema.version is None:
            schema = replace(schema, version=self.subject.version(self.registry, schema_id))
        return AvroValues(avro, schema)

    def _read_schema(self, avro: Any) -> Schema | None:
        schema = from_avro(avro, enhanced=True)
        if schema is None or self.settings.enhanced:
            return schema
        return shorten_members(schema)

    def _write_schema(self, schema: Schema) -> tuple[int, Any]:
        """Return the id and schema to write with, if possible those it was read with."""
        found = self._registered(schema)
        if found is None:
            avro = to_avro(schema, enhanced=True, connect_meta=self.settings.connect_meta_data)
            found = RegisteredSchema("AVRO", dump_avro(avro))
        schema_id = self.registry.find(self.subject.name, found)
        if schema_id is None:
            if not self.settings.auto_register:
                raise RecordError(
                    f"the schema of these values is not registered under {self.subject.name}",
                    hint="Register it, or set auto.register.schemas=true.",
                )
            schema_id = self.registry.register(self.subject.name, found)
        return schema_id, load_avro(found, self.registry.references(found))

    def _registered(self, schema: Schema) -> RegisteredSchema | None:
        """Return the version that a schema was read from, if its content is still the same."""
        if schema.version is None:
            return None
        try:
            found = self.registry.version(self.subject.name, schema.version)
            known = self._read_schema(load_avro(found, self.registry.references(found)))
        except RecordError:
            return None
        if known is None or replace(known, version=schema.version) != schema:
            return None
        return found


def _same(error: RecordError, _: bytes) -> RecordError:
    return error


def _decode(
    decoder: AvroValues, messages: pa.BinaryArray, run: SchemaRun[int]
) -> Iterator[ConvertedRange]:
    """Decode adjacent messages of one schema; yield an error for each unreadable message."""
    valid = view_valid(messages)
    present: Int64s = np.arange(len(messages)) if valid is None else np.flatnonzero(valid)
    offsets = view_offsets(messages).astype(np.int64)
    starts, ends = offsets[present] + HEAD_BYTES, offsets[present + 1]
    data, done, row = view_data(messages), 0, 0
    while done < len(present):
        good, why = decoder.check(data, starts[done:], ends[done:])
        stop = done + good
        after = int(present[stop]) if stop < len(present) else len(messages)
        if after > row:
            column, _ = decoder.decode(data, starts[done:stop], ends[done:stop])
            yield _piece(run.start, row, after, column, present[done:stop])
        if stop < len(present):
            error = RecordError(f"a value is not what its Avro schema says: {why}")
            yield ConvertedRange(run.start + after, run.start + after + 1, error)
            after += 1
        done, row = stop + 1, after
    if row < len(messages):
        column, _ = decoder.decode(data, starts[:0], ends[:0])
        yield _piece(run.start, row, len(messages), column, present[:0])


def _piece(first: int, start: int, stop: int, column: Column, present: Int64s) -> ConvertedRange:
    """Return a column whose values are at the rows ``present``, with nulls between them."""
    if len(column) < stop - start:
        places = np.zeros(stop - start, dtype=np.int64)
        valid = np.zeros(stop - start, dtype=bool)
        places[present - start], valid[present - start] = np.arange(len(present)), True
        bits = np.packbits(valid, bitorder="little")
        buffers = [pa.py_buffer(bits), pa.py_buffer(places)]
        column = column.take(pa.Array.from_buffers(pa.int64(), stop - start, buffers))
    return ConvertedRange(first + start, first + stop, column)
