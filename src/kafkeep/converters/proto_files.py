"""Protobuf schemas out of a registry: their text compiled to message classes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path, PurePosixPath

from google.protobuf import descriptor_pb2, descriptor_pool  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.errors import RecordError

_MAIN = "registered.proto"

# What every registry knows without being told; Google's other well-known types come with protoc.
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
    """One compiled schema: its messages, by their place in the file."""

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
        """Return a message by numbers: of one in the file, of one inside of that, and so on."""
        names = [self._main.package] if self._main.package else []
        among = self._main.message_type
        for number in path:
            if number >= len(among):
                raise RecordError(f"the schema has no message number {'.'.join(map(str, path))}")
            names.append(among[number].name)
            # The entries of maps are messages to protoc, but nobody counts them.
            inner = among[number].nested_type
            among = [one for one in inner if not one.options.map_entry]
        return self.pool.FindMessageTypeByName(".".join(names))


def _compile(texts: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    """Run protoc in a folder of its own."""
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
                hint="What it says stands on stderr; an import may be no reference of the schema.",
            )
        return descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())
