"""Are two sets of objects the same? Names exactly; contents after decoding, by value.

Decoded with fastavro, pyarrow and Python's json, never with kafkeep's own readers. Avro is compared
by the writer's schema, codec and records; Parquet by columns, codec and rows; JSON line by line
(149.50 is 149.5, the order of members does not count, true is not 1); other objects byte by byte.
"""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@dataclass(frozen=True, slots=True)
class Rows:
    """One object, decoded. ``shape`` (schema and codec) is compared unless it is None."""

    kind: str
    rows: tuple[Any, ...]
    shape: Any = None


def compare(
    expected: Mapping[str, Rows | bytes], produced: Mapping[str, bytes], *, most: int = 12
) -> list[str]:
    """Return the differences, at most ``most`` of them: none when all is the same.

    An expected object given as bytes is decoded as its name says; given as ``Rows`` of the kind
    ``bytes`` it is compared byte by byte, whatever its name says.
    """
    found = [f"missing: {key}" for key in sorted(expected.keys() - produced.keys())]
    found += [f"not expected: {key}" for key in sorted(produced.keys() - expected.keys())]
    for key in sorted(expected.keys() & produced.keys()):
        found += [f"{key}: {difference}" for difference in _object(key, expected, produced)]
    return found if len(found) <= most else [*found[:most], f"and {len(found) - most} more"]


def _object(
    key: str, expected: Mapping[str, Rows | bytes], produced: Mapping[str, bytes]
) -> list[str]:
    wanted = expected[key]
    if isinstance(wanted, bytes):
        wanted = decode(key, wanted)
    try:
        found = decode(key, produced[key], kind=wanted.kind)
    except Exception as error:  # whatever the decoder says of it, it is a difference
        return [f"cannot be decoded: {type(error).__name__}: {error}"]
    said = []
    theirs = expected[key]
    if isinstance(theirs, bytes) and wanted.kind == "parquet":
        here, there = parquet_layout(produced[key]), parquet_layout(theirs)
        said += [] if here == there else [f"layout: expected {there}, found {here}"]
    if wanted.shape is not None and wanted.shape != found.shape:
        said.append(f"schema or codec: expected {wanted.shape}, found {found.shape}")
    if len(wanted.rows) != len(found.rows):
        said.append(f"expected {len(wanted.rows)} rows, found {len(found.rows)}")
    for number, (one, other) in enumerate(zip(wanted.rows, found.rows, strict=False)):
        if _tagged(one) != _tagged(other):
            said.append(f"row {number}: expected {one!r}, found {other!r}"[:2000])
            break
    return said


def decode(key: str, data: bytes, *, kind: str | None = None) -> Rows:
    """Decode an object as its name says; gzip is unpacked first and must be whole."""
    name = key.removesuffix(".gz")
    plain = gzip.decompress(data) if name != key else data
    kind = kind or {"json": "json", "avro": "avro", "parquet": "parquet"}.get(
        name.rpartition(".")[2], "bytes"
    )
    match kind:
        case "json":
            return Rows(kind, _json(plain))
        case "avro":
            return _avro(plain)
        case "parquet":
            return _parquet(plain)
        case _:
            return Rows("bytes", (plain,))


def _json(data: bytes) -> tuple[Any, ...]:
    if not data:
        return ()
    *lines, rest = data.split(b"\n")
    if rest:
        raise ValueError(f"the last line has no end: {rest[:80]!r}")
    return tuple(parse_json(line) for line in lines)


def parse_json(text: bytes) -> Any:
    """Return one JSON document; numbers as exact decimals, of members of one name the last."""
    return json.loads(
        text.decode("utf-8"), parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse
    )


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _avro(data: bytes) -> Rows:
    reader = fastavro.reader(io.BytesIO(data))
    schema = json.loads(reader.metadata["avro.schema"])
    rows = tuple(reader)
    if isinstance(schema, dict) and schema.get("name") == "Anything":
        rows = tuple(_anything(row) for row in rows)  # its maps have no order
    return Rows("avro", rows, (reader.metadata.get("avro.codec", "null"), _avro_schema(schema, "")))


def _avro_schema(schema: Any, space: str) -> Any:
    """Write one schema in one way: full names, no needless ``{"type": ...}`` around a name."""
    if isinstance(schema, list):
        return [_avro_schema(part, space) for part in schema]
    if isinstance(schema, str):
        return schema if schema in PRIMITIVES else _full_name(schema, space)
    made = dict(schema)
    if "name" in made and made["type"] in ("record", "enum", "fixed"):
        made["name"] = _full_name(made["name"], made.pop("namespace", space))
        space = made["name"].rpartition(".")[0]
    if made["type"] == "record":
        made["fields"] = [{**f, "type": _avro_schema(f["type"], space)} for f in made["fields"]]
    for part in ("items", "values"):
        if part in made:
            made[part] = _avro_schema(made[part], space)
    return made["type"] if len(made) == 1 else made


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _anything(value: Any) -> Any:
    """Order the entries of schemaless maps, which stand as an array of key and value."""
    if isinstance(value, list):
        return [_anything(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: _anything(item) for name, item in value.items()}
    if isinstance(made.get("map"), list):
        made["map"] = sorted(made["map"], key=lambda entry: repr(entry["key"]))
    return made


def _parquet(data: bytes) -> Rows:
    file = pq.ParquetFile(io.BytesIO(data))
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    codecs = {g.column(i).compression for g in groups for i in range(g.num_columns)}
    columns = [_arrow_field(field) for field in file.schema_arrow]
    rows = tuple(file.read().to_pylist(maps_as_pydicts="strict"))  # Java's maps have no order
    return Rows("parquet", rows, (sorted(codecs), columns))


def parquet_layout(data: bytes) -> str:
    """Describe the columns as they lie in a file: groups, levels, annotations and names."""
    _, layout = str(pq.ParquetFile(io.BytesIO(data)).schema).split("\n", 1)
    return layout


def _arrow_field(field: pa.Field) -> tuple[str, Any, bool]:
    return field.name, _arrow_type(field.type), field.nullable


def _arrow_type(kind: pa.DataType) -> Any:
    """Describe a type; what a list calls its items differs between writers and says nothing."""
    if pa.types.is_list(kind):
        return "list", _arrow_type(kind.value_type), kind.value_field.nullable
    if pa.types.is_map(kind):
        return "map", _arrow_type(kind.key_type), _arrow_type(kind.item_type)
    if pa.types.is_struct(kind):
        return "struct", [_arrow_field(kind.field(i)) for i in range(kind.num_fields)]
    return str(kind)


def _tagged(value: Any) -> Any:
    """Make values comparable with ``==``: true is not 1, not-a-number is itself."""
    match value:
        case bool():
            return ("bool", value)
        case float() if math.isnan(value):
            return ("nan",)
        case dict():
            return {name: _tagged(item) for name, item in value.items()}
        case list() | tuple():
            return [_tagged(item) for item in value]
        case _:
            return value
