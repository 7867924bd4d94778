"""Chains of transforms: over golden records, with predicates, and there and back again."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.golden.cases import GoldenRecord, load_case

from kafkeep.errors import RecordError
from kafkeep.options.sink.transforms import parse_transforms
from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import (
    OPTIONAL_STRING,
    TIMESTAMP,
    Column,
    Field,
    Kind,
    Schema,
    arrow_type,
)
from kafkeep.records.transforms.chain import Chain, open_chain
from kafkeep.records.transforms.set_fields import InsertField

P = "org.apache.kafka.connect.transforms."
TIME = 1733219880000

Header = tuple[str, bytes | None]


def chain(*steps: tuple[str, Mapping[str, str]], **others: str) -> Chain:
    """Open a chain of steps; ``others`` are keys with ``__`` for a dot."""
    config = {"transforms": ",".join(f"s{i}" for i in range(len(steps)))}
    for i, (kind, options) in enumerate(steps):
        config[f"transforms.s{i}.type"] = P + kind
        config |= {f"transforms.s{i}.{key}": value for key, value in options.items()}
    config |= {key.replace("__", "."): value for key, value in others.items()}
    return open_chain(parse_transforms(config))


def texts(*values: bytes | None) -> Column:
    return Column(None, pa.array(values, type=pa.binary()))


def typed(schema: Schema, *values: Any) -> Column:
    return Column(schema, pa.array(values, type=arrow_type(schema)))


def rows_of(
    value: Column, key: Column | None = None, headers: Sequence[Sequence[Header]] | None = None
) -> Rows:
    count = len(value)
    told = headers or [[]] * count
    return Rows(
        topic="orders",
        partition=2,
        offsets=np.arange(100, 100 + count),
        timestamps=np.arange(TIME, TIME + count),
        key=key or Column(OPTIONAL_STRING, pa.nulls(count, pa.string())),
        value=value,
        headers=pa.array(
            [[{"key": k.encode(), "value": v} for k, v in some] for some in told],
            type=HEADERS_TYPE,
        ),
    )


def golden_rows(records: Sequence[GoldenRecord], value: Column) -> Rows:
    first = records[0]
    return Rows(
        topic=first.topic,
        partition=first.partition,
        offsets=np.array([record.offset for record in records]),
        timestamps=np.array([record.timestamp for record in records]),
        key=texts(*[record.key for record in records]),
        value=value,
        headers=pa.array([[]] * len(records), type=HEADERS_TYPE),
    )


def by_partition(number: str) -> Iterator[tuple[int, list[GoldenRecord]]]:
    records = load_case(number).records
    for partition in sorted({record.partition for record in records}):
        yield partition, [record for record in records if record.partition == partition]


def one(pieces: Iterator[Rows]) -> Rows:
    (rows,) = pieces
    return rows


def test_golden_26_fields_of_schemaless_records_are_those_connect_inserted() -> None:
    case = load_case("26")
    steps = open_chain(parse_transforms(case.config))
    assert len(steps.steps) == 1  # three InsertFields are one scan
    compared = 0
    for partition, records in by_partition("26"):
        made = one(steps.apply(golden_rows(records, texts(*[r.value for r in records]))))
        values = [json.loads(text) for text in made.value.array.to_pylist()]
        stored = [
            json.loads(line)
            for key in sorted(case.objects)
            if f"partition={partition}/" in key
            for line in case.objects[key].splitlines()
        ]
        assert values[: len(stored)] == stored
        compared += len(stored)
        for record, text in zip(records, made.value.array.to_pylist(), strict=True):
            assert record.value is not None
            assert text.startswith(record.value[:-1] + b',"offset":')
    assert compared == 70


SHOP_KINDS = {
    "string": Kind.STRING,
    "double": Kind.FLOAT64,
    "int32": Kind.INT32,
    "int64": Kind.INT64,
    "boolean": Kind.BOOLEAN,
}


def test_golden_26c_schema_and_values_are_those_connect_made() -> None:
    case = load_case("26c")
    steps = open_chain(parse_transforms(case.config))
    compared = 0
    for partition, records in by_partition("26c"):
        told = [json.loads(record.value or b"") for record in records]
        schema = Schema(
            kind=Kind.STRUCT,
            name=told[0]["schema"]["name"],
            fields=tuple(
                Field(f["field"], Schema(kind=SHOP_KINDS[f["type"]], optional=f["optional"]))
                for f in told[0]["schema"]["fields"]
            ),
        )
        value = typed(schema, *[t["payload"] for t in told])
        made = one(steps.apply(golden_rows(records, value))).value
        assert made.schema is not None
        assert made.schema.name == "shop.Order"
        assert [f.schema for f in made.schema.fields[-3:]] == [
            Schema(kind=Kind.INT64, optional=True),
            Schema(kind=Kind.INT32, optional=True),
            Schema(kind=Kind.INT64, optional=True, name=TIMESTAMP, version=1),
        ]
        keys = [key for key in sorted(case.objects) if f"partition={partition}/" in key]
        stored = [row for key in keys for row in case.rows(key).rows]
        for ours, theirs in zip(made.array.to_pylist(), stored, strict=False):
            assert list(ours) == list(theirs)
            assert {**ours, "ts": None} == {**theirs, "ts": None}
            assert ours["ts"] == round(theirs["ts"].timestamp() * 1000)
        compared += len(stored)
    assert compared == 40


def test_golden_48_regex_router_works() -> None:
    case = load_case("48")
    ((_, records),) = by_partition("48")
    made = one(
        open_chain(parse_transforms(case.config)).apply(
            golden_rows(records, texts(*[r.value for r in records]))
        )
    )
    assert made.topic == "routed-gold-router"
    assert made.value.array.to_pylist() == [record.value for record in records]


def test_seed_001_fields_go_in_on_the_way_out_and_away_on_the_way_back() -> None:
    sent = [b'{"key": "k1", "n": 1.50}', b'{"key":"k2","big":123456789012345678901}']
    out = chain(
        ("InsertField$Value", {"offset.field": "offset"}),
        ("InsertField$Value", {"partition.field": "partition"}),
        ("InsertField$Value", {"timestamp.field": "ts"}),
    )
    back = chain(
        ("ValueToKey", {"fields": "key"}),
        ("ExtractField$Key", {"field": "key"}),
        ("ReplaceField$Value", {"exclude": "offset,partition,ts"}),
    )
    stored = one(out.apply(rows_of(texts(*sent))))
    assert json.loads(stored.value.array[1].as_py()) == {
        "key": "k2",
        "big": 123456789012345678901,
        "offset": 101,
        "partition": 2,
        "ts": TIME + 1,
    }
    restored = one(back.apply(stored))
    assert restored.value.array.to_pylist() == sent
    assert restored.key.array.to_pylist() == [b'"k1"', b'"k2"']


def test_seed_001_round_trip_of_typed_values() -> None:
    schema = Schema(
        kind=Kind.STRUCT,
        name="User",
        fields=(Field("key", Schema(kind=Kind.STRING)), Field("n", Schema(kind=Kind.INT32))),
    )
    value = typed(schema, {"key": "a", "n": 1}, {"key": "b", "n": 2})
    insert = {"offset.field": "offset", "partition.field": "partition", "timestamp.field": "ts"}
    steps = chain(
        ("InsertField$Value", insert),
        ("ValueToKey", {"fields": "key"}),
        ("ReplaceField$Value", {"exclude": "offset,partition,ts"}),
    )
    made = one(steps.apply(rows_of(value)))
    assert made.value == value
    assert made.key.schema == Schema(kind=Kind.STRUCT, fields=schema.fields[:1])
    assert made.key.array.to_pylist() == [{"key": "a"}, {"key": "b"}]


VALUES = texts(b'{"a":1}', None, b'{"a":2}', b'{"a":3}', None)
HEADERS: list[list[Header]] = [[("x", b"1")], [], [("y", None), ("x", None)], [("y", b"")], []]


def offsets(pieces: Iterator[Rows]) -> list[int]:
    return [offset for piece in pieces for offset in piece.offsets.tolist()]


def test_filter_drops_everything_without_a_predicate() -> None:
    assert list(chain(("Filter", {})).apply(rows_of(VALUES))) == []


@pytest.mark.parametrize(
    ("predicate", "left"),
    [
        ({"type": "RecordIsTombstone"}, [100, 102, 103]),
        ({"type": "HasHeaderKey", "name": "x"}, [101, 103, 104]),
        ({"type": "TopicNameMatches", "pattern": "ord.*"}, []),
        ({"type": "TopicNameMatches", "pattern": "ord"}, [100, 101, 102, 103, 104]),
    ],
)
def test_filter_drops_what_its_predicate_chooses(
    predicate: dict[str, str], left: list[int]
) -> None:
    told = {f"predicates__p__{key}": value for key, value in predicate.items()}
    told["predicates__p__type"] = P + "predicates." + predicate["type"]
    drop = chain(("Filter", {"predicate": "p"}), predicates="p", **told)
    keep = chain(("Filter", {"predicate": "p", "negate": "true"}), predicates="p", **told)
    rows = rows_of(VALUES, headers=HEADERS)
    assert offsets(drop.apply(rows)) == left
    assert sorted(offsets(keep.apply(rows)) + left) == [100, 101, 102, 103, 104]
    assert offsets(drop.apply(rows.slice(2, 5))) == [o for o in left if o >= 102]


def test_a_predicate_leaves_the_others_alone_and_the_order_as_it_was() -> None:
    steps = chain(
        ("InsertField$Value", {"static.field": "s", "static.value": "v", "predicate": "x"}),
        predicates="x",
        predicates__x__type=P + "predicates.HasHeaderKey",
        predicates__x__name="x",
    )
    made = one(steps.apply(rows_of(VALUES, headers=HEADERS)))
    assert made.offsets.tolist() == [100, 101, 102, 103, 104]
    assert made.value.array.to_pylist() == [
        b'{"a":1,"s":"v"}',
        None,
        b'{"a":2,"s":"v"}',
        b'{"a":3}',
        None,
    ]
    assert made.headers.to_pylist() == rows_of(VALUES, headers=HEADERS).headers.to_pylist()


def test_a_predicate_on_typed_values_gives_pieces_of_one_schema_in_order() -> None:
    schema = Schema(kind=Kind.STRUCT, fields=(Field("a", Schema(kind=Kind.INT32)),))
    steps = chain(
        ("HoistField$Value", {"field": "w", "predicate": "x"}),
        predicates="x",
        predicates__x__type=P + "predicates.HasHeaderKey",
        predicates__x__name="x",
    )
    rows = rows_of(typed(schema, *[{"a": i} for i in range(5)]), headers=HEADERS)
    pieces = list(steps.apply(rows))
    assert [piece.offsets.tolist() for piece in pieces] == [[100], [101], [102], [103, 104]]
    assert pieces[2].value.array.to_pylist() == [{"w": {"a": 2}}]
    assert pieces[3].value == rows.value.slice(3, 5)


def test_timestamp_router_cuts_rows_by_time() -> None:
    rows = rows_of(VALUES)
    day = 86_400_000
    times = np.array([0, day - 1, day, 3 * day, 1])
    rows = Rows(
        topic=rows.topic,
        partition=0,
        offsets=rows.offsets,
        timestamps=times,
        key=rows.key,
        value=rows.value,
        headers=rows.headers,
    )
    pieces = list(chain(("TimestampRouter", {})).apply(rows))
    assert [(p.topic, p.offsets.tolist()) for p in pieces] == [
        ("orders-19700101", [100, 101]),
        ("orders-19700102", [102]),
        ("orders-19700104", [103]),
        ("orders-19700101", [104]),
    ]


@pytest.mark.parametrize("replacement", ["../$1", "a/b", ".", "x y"])
def test_a_router_makes_no_topic_that_kafka_would_not_have(replacement: str) -> None:
    with pytest.raises(RecordError, match="cannot route orders"):
        chain(("RegexRouter", {"regex": "(.*)", "replacement": replacement})).apply(rows_of(VALUES))


def test_headers_are_inserted_after_those_there_and_dropped_by_name() -> None:
    rows = rows_of(VALUES, headers=HEADERS).slice(1, 4)
    made = one(chain(("InsertHeader", {"header": "x", "value.literal": "é"})).apply(rows))
    assert [[(h["key"], h["value"]) for h in some] for some in made.headers.to_pylist()] == [
        [(b"x", "é".encode())],
        [(b"y", None), (b"x", None), (b"x", "é".encode())],
        [(b"y", b""), (b"x", "é".encode())],
    ]
    dropped = one(chain(("DropHeaders", {"headers": "x"})).apply(made))
    assert [[h["key"] for h in some] for some in dropped.headers.to_pylist()] == [
        [],
        [b"y"],
        [b"y"],
    ]


def test_hoisting_wraps_tombstones_of_required_values_without_their_schema() -> None:
    value = typed(Schema(kind=Kind.INT32), 1, None, 2)
    pieces = list(chain(("HoistField$Value", {"field": "w"})).apply(rows_of(value)))
    assert [piece.value.array.to_pylist() for piece in pieces] == [
        [{"w": 1}],
        [b'{"w":null}'],
        [{"w": 2}],
    ]


def test_defaults_take_the_place_of_nulls_unless_configured_otherwise() -> None:
    items = Schema(kind=Kind.INT32)
    listed = Schema(kind=Kind.ARRAY, items=items, optional=True, default=(1, 2))
    number = Schema(kind=Kind.INT32, optional=True, default=7)
    schema = Schema(kind=Kind.STRUCT, fields=(Field("l", listed), Field("n", number)))
    rows = rows_of(typed(schema, {"l": None, "n": None}, None, {"l": [], "n": 0}))
    insert = {"offset.field": "o"}
    made = one(chain(("InsertField$Value", insert)).apply(rows)).value.array.to_pylist()
    assert made == [{"l": [1, 2], "n": 7, "o": 100}, None, {"l": [], "n": 0, "o": 102}]
    kept = {**insert, "replace.null.with.default": "false"}
    made = one(chain(("InsertField$Value", kept)).apply(rows)).value.array.to_pylist()
    assert made[0] == {"l": None, "n": None, "o": 100}
    taken = one(chain(("ExtractField$Value", {"field": "n"})).apply(rows)).value
    assert taken.array.to_pylist() == [7, None, 0]


def test_masking_leaves_no_repeated_member_to_read() -> None:
    value = texts(rb'{"pin":1234,"a":1.50,"p\u0069n":"4321"}')
    made = one(chain(("MaskField$Value", {"fields": "pin"})).apply(rows_of(value)))
    assert made.value.array.to_pylist() == [rb'{"a":1.50,"p\u0069n":""}']


@pytest.mark.parametrize("kind", ["MaskField$Value", "ValueToKey"])
def test_a_tombstone_cannot_be_masked_or_made_a_key(kind: str) -> None:
    with pytest.raises(RecordError, match="found: null"):
        chain((kind, {"fields": "a"})).apply(rows_of(VALUES))


def test_an_error_comes_before_the_first_piece() -> None:
    steps = chain(("TimestampRouter", {}), ("InsertField$Value", {"offset.field": "o"}))
    with pytest.raises(RecordError, match=r"Map objects supported.*found: java.util.ArrayList"):
        steps.apply(rows_of(texts(b"{}", b"[]")))


def test_a_chain_says_what_it_changes() -> None:
    assert chain().is_empty
    move = {"fields": "a", "headers": "h", "operation": "move"}
    router = chain(("RegexRouter", {"regex": "a", "replacement": "b"}), ("Filter", {}))
    assert not router.is_empty
    assert (router.changes_values, router.changes_keys) == (False, False)
    key = chain(("ValueToKey", {"fields": "a"}))
    assert (key.changes_values, key.changes_keys) == (False, True)
    assert chain(("HeaderFrom$Value", move)).changes_values
    assert not chain(("HeaderFrom$Value", {**move, "operation": "copy"})).changes_values
    assert chain(("Cast$Value", {"spec": "string"})).changes_values


def test_specifications_travel_to_tasks() -> None:
    specs = parse_transforms(load_case("26").config)
    assert pickle.loads(pickle.dumps(specs)) == specs


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["o", "t", "a", '"', "é", "\\"]) | st.text(), JSON)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | OBJECTS, min_size=1, max_size=6), st.booleans(), st.data())
def test_inserted_fields_are_there_and_nothing_else_changes(
    values: list[dict[str, Any] | None], ascii_only: bool, data: st.DataObject
) -> None:
    """Whether the compiled loop did it, or Python did."""
    told = [
        None if value is None else json.dumps(value, ensure_ascii=ascii_only).encode()
        for value in values
    ]
    rows = rows_of(texts(b"{}", *told))
    start = data.draw(st.integers(0, len(values)))
    options = {"offset.field": "o", "timestamp.field": "t!", "static.field": "é"}
    options["static.value"] = data.draw(st.text(max_size=4))
    steps = chain(("InsertField$Value", options))
    assert isinstance(steps.steps[0].transform, InsertField)
    made = one(steps.apply(rows.slice(start, len(rows))))
    for i, text in enumerate(made.value.array.to_pylist(), start):
        value = {} if i == 0 else values[i - 1]
        if value is None:
            assert text is None
            continue
        added = {"o": 100 + i, "t": TIME + i, "é": options["static.value"]}
        assert json.loads(text) == {**value, **added}


def test_the_way_of_inserted_fields_does_not_import_pandas() -> None:
    """It takes half a second, in every task."""
    program = (
        "import sys, kafkeep.records.transforms.chain, kafkeep.records.json.append_fields as s\n"
        "import numpy as np, pyarrow as pa\n"
        "o = pa.py_buffer(np.array([0, 2], dtype=np.int32))\n"
        "a = pa.Array.from_buffers(pa.binary(), 1, [None, o, pa.py_buffer(b'{}')])\n"
        "print(s.append_fields(a, [s.AppendedField(b'o', b'\"o\":', np.array([7]))])[0].as_py())\n"
        "print('pandas' in sys.modules)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["b'{\"o\":7}'", "False"]
