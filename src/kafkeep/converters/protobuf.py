"""ProtobufConverter: messages whose Protobuf schema is in a registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from google.protobuf import json_format, message_factory  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from kafkeep.config.converter_settings import ProtobufSettings
from kafkeep.converters.converter import Piece
from kafkeep.converters.framed import HEAD_BYTES, Decoder, convert_framed, read_schema_id
from kafkeep.converters.proto_files import ProtoFile
from kafkeep.converters.proto_types import ContainsItself, ProtoReading
from kafkeep.converters.proto_values import to_column
from kafkeep.converters.subjects import Subject
from kafkeep.data.column import Column
from kafkeep.data.schema import Schema
from kafkeep.errors import RecordError
from kafkeep.registry.client import Registry

Key = tuple[int, tuple[int, ...]]
"""A schema's id, and which of its messages it is."""


class ProtobufConverter:
    """Keys or values of one topic in Confluent's Protobuf form."""

    def __init__(self, settings: ProtobufSettings, registry: Registry, subject: Subject) -> None:
        self.settings = settings
        self.registry = registry
        self.subject = subject
        self._files: dict[int, ProtoFile] = {}
        self._decoders: dict[Key, Decoder] = {}

    def convert(self, values: pa.BinaryArray) -> Iterator[Piece]:
        """Give a column for each stretch of one message type; TransientError when nobody answers.

        Messages that contain themselves give JSON texts without a schema.
        """
        return convert_framed(values, self._decoder, read_key)

    def restore(self, column: Column) -> pa.BinaryArray:
        """Refuse: the message type is not kept beside its values."""
        raise RecordError(
            f"values of {self.subject.role}s cannot be produced in Protobuf's form",
            hint="Restore with value.converter=org.apache.kafka.connect.json.JsonConverter, or "
            "keep such topics in the segment format.",
        )

    def _decoder(self, key: Key) -> Decoder:
        if key not in self._decoders:
            self._decoders[key] = self._open(key)
        return self._decoders[key]

    def _open(self, key: Key) -> Decoder:
        schema_id, path = key
        message = self._file(schema_id).message(path)
        try:
            schema = ProtoReading(self.settings).root(message)
        except ContainsItself:
            return _Texts(message)
        version = self.subject.version(self.registry, schema_id)
        return _Messages(message, replace(schema, version=version), self.settings)

    def _file(self, schema_id: int) -> ProtoFile:
        if schema_id not in self._files:
            found = self.registry.schema(schema_id)
            if found.type != "PROTOBUF":
                raise RecordError(f"schema id {schema_id} is of type {found.type}, not PROTOBUF")
            self._files[schema_id] = ProtoFile(found, self.registry.references(found))
        return self._files[schema_id]


class _Parser:
    """Messages of one type."""

    def __init__(self, message: Descriptor) -> None:
        self._class = message_factory.GetMessageClass(message)

    def parse(self, data: bytes) -> Message:
        _, at = read_path(data, 0)
        try:
            return self._class.FromString(data[at:])
        except DecodeError as error:
            raise RecordError(f"a value is not a {self._class.DESCRIPTOR.name}: {error}") from error


class _Messages(_Parser):
    """Messages as values of a schema."""

    def __init__(self, message: Descriptor, schema: Schema, settings: ProtobufSettings) -> None:
        super().__init__(message)
        self.schema = schema
        self._change = to_column(message, settings)

    def decode(self, data: bytes) -> Any:
        return self._change(self.parse(data))


class _Texts(_Parser):
    """Messages as JSON documents."""

    schema = None

    def decode(self, data: bytes) -> bytes:
        text = json_format.MessageToJson(
            self.parse(data), preserving_proto_field_name=True, indent=None
        )
        return bytes(text, "utf-8")


def read_key(row: bytes) -> Key | None:
    """Return what stands in front of a message: id and message numbers; None when it is cut."""
    schema_id = read_schema_id(row)
    if schema_id is None:
        return None
    path, _ = read_path(row, HEAD_BYTES)
    return (schema_id, path) if path else None


def read_path(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Read which message it is; return that and where it begins, or nothing when it is cut."""
    count, at = _read_varint(data, at)
    if count == 0:
        return (0,), at  # short for the first message
    path: list[int] = []
    for _ in range(count):
        number, at = _read_varint(data, at) if at >= 0 else (-1, -1)
        if number < 0:
            return (), -1
        path.append(number)
    return tuple(path), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag number; return it and the next position, which is -1 when not readable."""
    value = 0
    for i, byte in enumerate(data[at : at + 5]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + i + 1
    return -1, -1
