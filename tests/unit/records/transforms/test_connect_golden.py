"""The same transforms, the same records: what Apache Kafka 4.1's own classes made of them.

``test_transforms_connect.jsonl.xz`` holds some 1900 cases: a transform's class and options, a
record, and the answer of connect-transforms 4.1.0 (or its error), keys and values through its
JsonConverter. Java ran in English and UTC.
"""

from __future__ import annotations

import base64
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkeep.errors import RecordError, UsageError
from kafkeep.options.sink.transforms import parse_transforms
from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import Column, Field, Kind, Schema, arrow_type
from kafkeep.records.transforms.chain import Chain, open_chain

VECTORS = Path(__file__).with_suffix(".jsonl.xz")
PACKAGE = "org.apache.kafka.connect.transforms."


@cache
def load() -> list[dict[str, Any]]:
    with lzma.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def to_schema(told: dict[str, Any]) -> Schema:
    return Schema(
        kind=Kind(told["type"]),
        optional=told.get("optional", False),
        name=told.get("name"),
        version=told.get("version"),
        doc=told.get("doc"),
        default=told.get("default"),
        parameters=tuple(sorted(told.get("parameters", {}).items())),
        fields=tuple(Field(f["field"], to_schema(f)) for f in told.get("fields", [])),
        items=to_schema(told.get("items") or told["values"]) if _has_items(told) else None,
        keys=to_schema(told["keys"]) if "keys" in told else None,
    )


def _has_items(told: dict[str, Any]) -> bool:
    return "items" in told or "values" in told


def to_value(schema: Schema, told: Any) -> Any:
    if told is None:
        return None
    match schema.kind:
        case Kind.BYTES:
            return base64.b64decode(told)
        case Kind.STRUCT:
            return {f.name: to_value(f.schema, told[f.name]) for f in schema.fields}
        case Kind.MAP:
            return list(told.items())
    return told


def from_value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    match schema.kind:
        case Kind.BYTES:
            return base64.b64encode(value).decode()
        case Kind.STRUCT:
            return {f.name: from_value(f.schema, value[f.name]) for f in schema.fields}
        case Kind.MAP:
            return dict(value)
        case Kind.FLOAT32:
            return float(str(np.float32(value)))
    return value


def to_column(text: str | None, with_schema: bool) -> Column:
    if text is None or not with_schema:
        return Column(None, pa.array([text and text.encode()], type=pa.binary()))
    told = json.loads(text)
    schema = to_schema(told["schema"])
    return Column(schema, pa.array([to_value(schema, told["payload"])], type=arrow_type(schema)))


def normal(text: str | None, with_schema: bool) -> Any:
    """Return Connect's answer as something to compare: schema and value."""
    if text is None:
        return None
    told = json.loads(text)
    if not with_schema:
        return told
    return told and (told["schema"] and to_schema(told["schema"]), told["payload"])


def seen(column: Column) -> Any:
    (value,) = column.array.to_pylist()
    if column.schema is not None:
        return (column.schema, from_value(column.schema, value))
    return None if value is None else json.loads(value)


def to_rows(case: dict[str, Any]) -> Rows:
    time = case["timestamp"]
    headers = [{"key": k.encode(), "value": v.encode()} for k, v in case["headers"]]
    return Rows(
        topic=case["topic"],
        partition=3,
        offsets=np.array([42]),
        timestamps=np.array([-1 if time is None else time]),
        key=to_column(case["key"], case["schemas"]),
        value=to_column(case["value"], case["schemas"]),
        headers=pa.array([headers], type=HEADERS_TYPE),
    )


def transform(case: dict[str, Any]) -> list[Rows]:
    return list(open_one(case).apply(to_rows(case)))


def open_one(case: dict[str, Any]) -> Chain:
    config = {f"transforms.t.{key}": value for key, value in case["config"].items()}
    config |= {"transforms": "t", "transforms.t.type": PACKAGE + case["type"]}
    return open_chain(parse_transforms(config))


def compare(case: dict[str, Any]) -> str | None:
    """Return what differs, or None."""
    answer = case["answer"]
    try:
        made = transform(case)
    except (RecordError, UsageError) as error:
        return None if "error" in answer else f"refused: {error}"
    if "error" in answer:
        return f"Connect refuses: {answer['error']}; made {[seen(m.value) for m in made]}"
    if "dropped" in answer:
        return None if not made else "not dropped"
    (rows,) = made
    headers = [
        [h["key"].decode(), h["value"] and h["value"].decode()] for h in rows.headers.to_pylist()[0]
    ]
    ours = (rows.topic, seen(rows.key), seen(rows.value), headers)
    theirs = (
        answer["topic"],
        normal(answer["key"], case["schemas"]),
        normal(answer["value"], case["schemas"]),
        answer["headers"],
    )
    return None if same(ours, theirs) else f"ours {ours}\n theirs {theirs}"


def same(ours: Any, theirs: Any) -> bool:
    """Compare; older Java writes some floats of 32 bits with other digits than the nearest."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == theirs or (abs(ours) > 1e7 and np.float32(ours) == np.float32(theirs))
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    return bool(ours == theirs)


def on_purpose(case: dict[str, Any]) -> str | None:
    """Return why this case comes out otherwise than in Connect."""
    options, value = case["config"], case["value"] or ""
    error = case["answer"].get("error", "")
    if "Invalid type for Decimal" in error:
        return "a whole Decimal cast to a number keeps the name Decimal, and cannot be written"
    if "null value for field that is required" in error:
        return "nothing is there to extract: a tombstone, which their converter cannot write"
    if case["type"].startswith("TimestampConverter") and options.get("target.type") == "Date":
        return "their day wraps around at 32 bits"
    if case["type"].startswith("HeaderFrom") and "-1e10" in value:
        return "a number goes to a header as it was written"
    if options == {"spec": "string"} and value == "-0.0":
        return "their converter reads -0.0 as 0.0"
    return None


@cache
def differing() -> list[tuple[dict[str, Any], str]]:
    return [(case, what) for case in load() if (what := compare(case))]


@pytest.mark.parametrize("kind", sorted({case["type"] for case in load()}))
def test_transform_does_what_connect_does(kind: str) -> None:
    wrong = [
        (case["config"], what)
        for case, what in differing()
        if on_purpose(case) is None and case["type"] == kind
    ]
    assert wrong == []


def test_differences_from_connect_are_few_and_named() -> None:
    told = {on_purpose(case) for case, _ in differing()}
    assert len(told) == 5
    assert None not in told


PASS_NULLS = ("Insert", "Replace", "Extract", "Flatten", "Cast", "TimestampC", "SetSchema")


def test_many_records_come_out_as_one_by_one_and_nulls_pass() -> None:
    by_config: dict[str, list[dict[str, Any]]] = {}
    for case in load():
        skip = on_purpose(case) or "topic" not in case["answer"]
        if case["schemas"] and case["value"] and case["type"].startswith(PASS_NULLS) and not skip:
            key = case["type"] + json.dumps(case["config"])
            by_config.setdefault(key + case["value"].split("payload")[0], []).append(case)
    groups = [cases for cases in by_config.values() if len(cases) > 1]
    assert len({cases[0]["type"] for cases in groups}) == len(PASS_NULLS)
    for cases in groups:
        (made,) = open_one(cases[0]).apply(join([to_rows(case) for case in cases]).slice(1, 4))
        single = [transform(case)[0] for case in cases]
        values = [row.value.array[0].as_py() for row in single]
        assert made.value.schema == single[0].value.schema
        assert made.value.array.to_pylist() == [values[0], None, values[1]]


def join(rows: list[Rows]) -> Rows:
    """Return two rows with a null between, after one more that a slice leaves out."""
    first, second = rows
    kind = first.value.array.type
    parts = [first.value.array, first.value.array, pa.nulls(1, kind), second.value.array]
    return Rows(
        topic=first.topic,
        partition=3,
        offsets=np.full(4, 42),
        timestamps=np.full(4, first.timestamps[0]),
        key=Column(first.key.schema, pa.concat_arrays([first.key.array] * 4)),
        value=Column(first.value.schema, pa.concat_arrays(parts)),
        headers=pa.concat_arrays([first.headers] * 4),
    )
