"""ProtobufConverter: decode messages whose Protobuf schema is in a schema registry.

``protoc`` compiles the text of each schema in a temporary directory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
)
from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]
from google.protobuf.message import (  # type: ignore[import-untyped]
    DecodeError,
    Message,
)

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.errors import RecordError
from kafkeep.options.sink.converter_settings import ProtobufSettings
from kafkeep.records.converters.converter import (
    HEAD_BYTES,
    ConvertedRange,
    Decoder,
    TopicSubject,
    convert_framed,
    read_schema_id,
)
from kafkeep.records.converters.protobuf_schema import (
    ProtoReading,
    RecursiveMessageError,
    to_column,
)
from kafkeep.records.schema import Column, Schema
from kafkeep.registry.client import Registry

_MAIN = "registered.proto"

# Files that every registry provides. protoc provides Google's other well-known types.
_KNOWN = {
    "confluent/meta.proto": """\
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """\
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
    "google/type/date.proto": """\
syntax = "proto3";
package google.type;
message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
""",
    "google/type/timeofday.proto": """\
syntax = "proto3";
package google.type;
message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
""",
}


class ProtoFile:
    """A compiled schema. Its messages are found by their position in the file."""

    def __init__(
        self, schema: RegisteredSchema, references: Mapping[str, RegisteredSchema]
    ) -> None:
        texts = {name: one.text for name, one in references.items()}
        compiled = _compile(_KNOWN | texts | {_MAIN: schema.text})
        self.pool = descriptor_pool.DescriptorPool()
        for one in compiled.file:
            self.pool.Add(one)
        self._main = next(one for one in compiled.file if one.name == _MAIN)

    def message(self, path: tuple[int, ...]) -> Descriptor:
        """Return a message by index path: a message in the file, one nested in it, and so on."""
        names = [self._main.package] if self._main.package else []
        among = self._main.message_type
        for number in path:
            if number >= len(among):
                raise RecordError(f"the schema has no message number {'.'.join(map(str, path))}")
            names.append(among[number].name)
            # protoc lists map entries as nested messages, but index paths do not count them.
            inner = among[number].nested_type
            among = [one for one in inner if not one.options.map_entry]
        return self.pool.FindMessageTypeByName(".".join(names))


def _compile(texts: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    """Run protoc in a temporary directory."""
    # Imported when first needed: most runs have no Protobuf, and this takes a while.
    from grpc_tools import protoc  # type: ignore[import-untyped]  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="kafkeep-proto-") as folder:
        for name, text in texts.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise RecordError(f"a schema refers to {name}, which is no name for a file")
            target = Path(folder, "in", path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        output = Path(folder, "out")
        include = str(files("grpc_tools").joinpath("_proto"))
        arguments = ["protoc", f"-I{folder}/in", f"-I{include}", "--include_imports"]
        if protoc.main([*arguments, f"--descriptor_set_out={output}", _MAIN]) != 0:
            first = next(iter(texts[_MAIN].strip().splitlines()), "")
            raise RecordError(
                f"protoc refuses the schema that begins with {first!r}",
                hint="See its message on stderr, and check that every import is among the "
                "references of the schema.",
            )
        return descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())


Key = tuple[int, tuple[int, ...]]
"""The schema id, and the index path of the message in the schema."""


class ProtobufConverter:
    """Keys or values of one topic in Confluent's Protobuf format."""

    def __init__(
        self, settings: ProtobufSettings, registry: Registry, subject: TopicSubject
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.subject = subject
        self._files: dict[int, ProtoFile] = {}
        self._decoders: dict[Key, Decoder] = {}

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Yield a column for each run of one message type.

        Raise TransientError if the registry is down. Recursive messages become schemaless JSON
        texts.
        """
        return convert_framed(values, self._decoder, read_key)

    def restore(self, column: Column) -> pa.BinaryArray:
        """Raise RecordError, because the archive does not keep the message type."""
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
        except RecursiveMessageError:
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
    """Parses messages of one type."""

    def __init__(self, message: Descriptor) -> None:
        self._class = message_factory.GetMessageClass(message)

    def parse(self, data: bytes) -> Message:
        _, at = read_path(data, 0)
        try:
            return self._class.FromString(data[at:])
        except DecodeError as error:
            raise RecordError(f"a value is not a {self._class.DESCRIPTOR.name}: {error}") from error


class _Messages(_Parser):
    """Returns messages as values of a schema."""

    def __init__(self, message: Descriptor, schema: Schema, settings: ProtobufSettings) -> None:
        super().__init__(message)
        self.schema = schema
        self._change = to_column(message, settings)

    def decode(self, data: bytes) -> Any:
        return self._change(self.parse(data))


class _Texts(_Parser):
    """Returns messages as JSON documents."""

    schema = None

    def decode(self, data: bytes) -> bytes:
        text = json_format.MessageToJson(
            self.parse(data), preserving_proto_field_name=True, indent=None
        )
        return bytes(text, "utf-8")


def read_key(row: bytes) -> Key | None:
    """Return the schema id and index path of a message, or None if they are truncated."""
    schema_id = read_schema_id(row)
    if schema_id is None:
        return None
    path, _ = read_path(row, HEAD_BYTES)
    return (schema_id, path) if path else None


def read_path(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the index path and the start of the message, or ``(), -1`` if truncated."""
    count, at = _read_varint(data, at)
    if count == 0:
        return (0,), at  # 0 is short for the path of the first message
    path: list[int] = []
    for _ in range(count):
        number, at = _read_varint(data, at) if at >= 0 else (-1, -1)
        if number < 0:
            return (), -1
        path.append(number)
    return tuple(path), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number and the next position, or -1 for both if it is unreadable."""
    value = 0
    for i, byte in enumerate(data[at : at + 5]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + i + 1
    return -1, -1
