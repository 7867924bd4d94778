"""AvroConverter: values whose Avro schema is in a registry."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa

from kafkeep.config.converter_settings import AvroSettings
from kafkeep.converters.avro_types import load_avro, without_logical_types
from kafkeep.converters.avro_values import from_column, to_column
from kafkeep.converters.converter import Piece
from kafkeep.converters.framed import convert_framed, frame, read_schema_id
from kafkeep.converters.subjects import Subject
from kafkeep.data.avro_schema import dump_avro, from_avro, to_avro
from kafkeep.data.column import Column
from kafkeep.data.schema import Schema
from kafkeep.errors import RecordError
from kafkeep.registry.client import Registry
from kafkeep.registry.schema import RegisteredSchema


class AvroConverter:
    """Keys or values of one topic in Confluent's Avro form."""

    def __init__(self, settings: AvroSettings, registry: Registry, subject: Subject) -> None:
        self.settings = settings
        self.registry = registry
        self.subject = subject
        self._decoders: dict[int, _AvroDecoder] = {}

    def convert(self, values: pa.BinaryArray) -> Iterator[Piece]:
        """Give a column for each stretch of one schema id; TransientError when nobody answers."""
        return convert_framed(values, self._decoder, read_schema_id)

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return messages under a schema of this topic's subject, registered if it must be."""
        if column.schema is None:
            raise RecordError("values without a schema have no Avro form")
        schema_id, avro = self._write_schema(column.schema)
        change = from_column(column.schema)
        made = [
            None if value is None else frame(schema_id, _encode(avro, change, value))
            for value in column.array.to_pylist()
        ]
        return pa.array(made, pa.binary())

    def _decoder(self, schema_id: int) -> _AvroDecoder:
        if schema_id not in self._decoders:
            self._decoders[schema_id] = self._open(schema_id)
        return self._decoders[schema_id]

    def _open(self, schema_id: int) -> _AvroDecoder:
        found = self.registry.schema(schema_id)
        if found.type != "AVRO":
            raise RecordError(f"schema id {schema_id} is of type {found.type}, not AVRO")
        avro = load_avro(found, self.registry.references(found))
        schema = from_avro(avro, enhanced=self.settings.enhanced)
        if schema is None:
            raise RecordError(f"schema id {schema_id} has no type of its own")
        if schema.version is None:
            schema = replace(schema, version=self.subject.version(self.registry, schema_id))
        return _AvroDecoder(avro, schema)

    def _write_schema(self, schema: Schema) -> tuple[int, Any]:
        """Return id and parsed schema to write with: the one it was read with, if it is there."""
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
        avro = load_avro(found, self.registry.references(found))
        return schema_id, fastavro.parse_schema(without_logical_types(avro))

    def _registered(self, schema: Schema) -> RegisteredSchema | None:
        if schema.version is None:
            return None
        try:
            found = self.registry.version(self.subject.name, schema.version)
            avro = load_avro(found, self.registry.references(found))
            known = from_avro(avro, enhanced=self.settings.enhanced)
        except RecordError:
            return None
        if known is None:
            return None
        return found if replace(known, version=schema.version) == schema else None


class _AvroDecoder:
    """Values of one schema id."""

    def __init__(self, avro: Any, schema: Schema) -> None:
        self.schema = schema
        self._avro = fastavro.parse_schema(without_logical_types(avro))
        self._change = to_column(schema)

    def decode(self, data: bytes) -> Any:
        source = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(
                source, self._avro, None, return_named_type=True, return_named_type_override=True
            )
        except Exception as error:  # fastavro raises whatever it stumbles over
            raise RecordError(f"a value is not what its Avro schema says: {error!r}") from error
        if source.tell() != len(data):
            rest = len(data) - source.tell()
            raise RecordError(f"{rest} bytes follow the Avro value")
        return value if self._change is None else self._change(value)


def _encode(avro: Any, change: Any, value: Any) -> bytes:
    target = io.BytesIO()
    try:
        fastavro.schemaless_writer(target, avro, value if change is None else change(value))
    except Exception as error:
        raise RecordError(f"a value does not fit its Avro schema: {error}") from error
    return target.getvalue()
