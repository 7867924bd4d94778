"""Every case of the real sink comes back as the records it was made from, without a log.

As far as the layout holds them: keys and headers where they were stored, times never, offsets where
names tell them. Inputs are those that were in Kafka when the real sink ran; objects are those it
wrote, and where it changed a record the object is decoded by other libraries.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support.golden.cases import GoldenCase, GoldenRecord, load_case, load_cases
from tests.support.golden.compare import parse_json
from tests.support.golden.expected import letter_source
from tests.support.unlogged_offline import Back, read_case, store_of

from kafkeep.maintenance import unlogged
from kafkeep.maintenance.inspect.cat import CatOptions, RecordLine
from kafkeep.options.unlogged import UnloggedOptions, layout_of_sink

REFUSED = {
    "10": "cannot be separated",
    "12": "cannot be separated",
    "19b": "rows",
    "20j": "rows",
}
"""Objects that do not tell which record is which, and what is said of them."""
CHANGED = ("20b", "27", "27b")
"""The sink changed what it wrote: these come back as they were written."""
REPEATED = {"50": 29}
"""The sink wrote records twice: so many."""
WITHOUT_FIELDS = {
    "transforms": "drop",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.drop.exclude": "offset,partition,ts",
}
SINGLE = [case for case in load_cases() if case.objects]
WHOLE = [case for case in SINGLE if case.number not in {*REFUSED, *CHANGED}]


def _ids(case: GoldenCase) -> str:
    return case.name


@cache
def _back(number: str) -> Back:
    case = load_case(number)
    more = {**WITHOUT_FIELDS} if "transforms" in case.config else {}
    if "ts" in json.dumps(more):
        more |= {"timestamp.extractor": "RecordField", "timestamp.field": "ts"}
    return read_case(case, **more)


@pytest.mark.parametrize("case", WHOLE, ids=_ids)
def test_comes_back_as_what_was_in_kafka(case: GoldenCase) -> None:
    back = _back(case.number)
    assert not back.view.grouped.problems
    for place, rows in back.rows.items():
        inputs = {r.offset: r for r in case.records if (r.topic, r.partition) == place}
        left = Counter(_content(case, record) for record in inputs.values())
        left += Counter(_content(case, r) for r in inputs.values() if case.number in REPEATED)
        for row in rows:
            found = _restored(case, row)
            if row["offset"] != -1:
                assert found == _content(case, inputs[row["offset"]])
            assert left[found], f"{found} was not in Kafka, or came back twice"
            left[found] -= 1
    assert sum(map(len, back.rows.values())) == _stored_records(case)


@pytest.mark.parametrize(
    "case", [c for c in WHOLE if c.task == "RUNNING" and c.number not in REPEATED], ids=_ids
)
def test_all_that_was_committed_comes_back_in_order(case: GoldenCase) -> None:
    letters = {letter_source(letter) for letter in case.dlq}
    for place, rows in _back(case.number).rows.items():
        wanted = [
            _content(case, record)
            for record in case.records
            if (record.topic, record.partition) == place
            and record.offset < (case.committed[place[0]][place[1]] or 0)
            and (record.topic, record.partition, record.offset) not in letters
            and (record.value is not None or case.config["behavior.on.null.values"] == "write")
            and not (record.aborted and case.number != "24b")
        ]
        found = [_restored(case, row) for row in rows]
        assert Counter(found) == Counter(wanted)
        if case.number not in ("07", "22", "22c"):  # several directories at once
            assert found == wanted


@pytest.mark.parametrize("case", [load_case(n) for n in CHANGED], ids=_ids)
def test_what_the_sink_changed_comes_back_as_it_stands(case: GoldenCase) -> None:
    back = read_case(case)
    keys = sorted(key for key in case.objects if ".headers." not in key and ".keys." not in key)
    values = [json.dumps(row, default=str) for key in keys for row in case.rows(key).rows]
    found = [
        json.dumps(row, default=str)
        for rows in back.rows.values()
        for row in (_exact(row["value"]) for row in rows)
    ]
    assert found == values
    heads = sorted(key for key in case.objects if ".headers." in key)
    told = [row["headers"] for key in heads for row in case.rows(key).rows]
    if told:
        restored = [row["headers"] for rows in back.rows.values() for row in rows]
        assert [
            [(h["key"].decode(), h["value"].decode()) for h in headers] for headers in restored
        ] == [[(h["key"], h["value"]) for h in headers] for headers in told]


@pytest.mark.parametrize("case", [load_case(n) for n in REFUSED], ids=_ids)
def test_objects_that_do_not_separate_records_are_named(case: GoldenCase) -> None:
    back = read_case(case)
    problems = back.view.grouped.problems
    assert problems and all(REFUSED[case.number] in why for _, why in problems)
    assert all(key in case.objects for key, _ in problems)
    _check_the_rest(case, back)


def _check_the_rest(case: GoldenCase, back: Back) -> None:
    """What is in the other objects comes back as it was in Kafka: none is lost with those named."""
    named = {key.partition(".")[0] for key, _ in back.view.grouped.problems}
    sound = {key.partition(".")[0] for key in case.objects} - named
    found = 0
    for place, rows in back.rows.items():
        inputs = Counter(_content(case, r) for r in case.records if (r.topic, r.partition) == place)
        assert not Counter(_restored(case, row) for row in rows) - inputs
        found += len(rows)
    assert found == len(sound) * int(case.config["flush.size"])


@pytest.mark.parametrize("case", WHOLE, ids=_ids)
def test_read_a_few_objects_at_a_time_it_is_the_same(
    case: GoldenCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unlogged, "FIRST_FILES", 1)
    monkeypatch.setattr(unlogged, "GROWTH", 1)
    options = UnloggedOptions.parse(layout_of_sink(case.config))
    rows: dict[tuple[str, int], list[tuple[Any, ...]]] = {}

    def keep(line: RecordLine) -> bytes:
        rows.setdefault(line[:2], []).append(line[2:])
        return b"x"

    store = store_of(case.objects)
    printed = b"".join(unlogged.iter_unlogged_lines(store, options, CatOptions(), keep))
    wanted = read_case(case).rows
    assert rows == {place: [tuple(r.values()) for r in mine] for place, mine in wanted.items()}
    assert len(printed) == sum(map(len, wanted.values()))


def test_times_come_back_from_the_field_they_were_inserted_into() -> None:
    case = load_case("26c")
    rows = _back(case.number).rows
    times = {(r.topic, r.partition, r.offset): r.timestamp for r in case.records}
    for place, mine in rows.items():
        assert [row["timestamp"] for row in mine] == [times[*place, i] for i in range(len(mine))]
    assert sum(map(len, rows.values())) == 40


def test_repeated_records_are_reported() -> None:
    back = read_case(load_case("50"))
    assert [key.rpartition("+")[2] for key in back.view.grouped.repeats] == ["0000000001.json"]


def _exact(value: bytes) -> Any:
    return parse_json(value)


def _stored_records(case: GoldenCase) -> int:
    """Count rows of values, and of keys of tombstones, by other libraries."""
    folder = case.config.get("tombstone.encoded.partition", "tombstone")
    total = 0
    for key in case.objects:
        if ".headers." in key or (".keys." in key and f"/{folder}/" not in key):
            continue
        if key.removesuffix(".gz").endswith(".bin"):
            assert case.number in ("10d", "11")
            total += 10 if case.number == "10d" else 1
        else:
            total += len(case.rows(key).rows)
    return total


def _content(case: GoldenCase, record: GoldenRecord) -> tuple[Any, ...]:
    """Return what the layout holds of a record that was in Kafka."""
    keys = case.config.get("store.kafka.keys") == "true"
    headers = case.config.get("store.kafka.headers") == "true"
    return (
        record.key if keys else None,
        _value(case, record.value),
        tuple(record.headers) if headers else (),
    )


def _restored(case: GoldenCase, row: Mapping[str, Any]) -> tuple[Any, ...]:
    headers = tuple((h["key"].decode(), h["value"]) for h in row["headers"])
    return row["key"], _value(case, row["value"]), headers


def _value(case: GoldenCase, value: bytes | None) -> Any:
    """Return a value in a form in which what says the same is the same."""
    if value is None:
        return None
    kind = case.config["value.converter"].rpartition(".")[2]
    if kind == "StringConverter":
        return value.decode("utf-8", "replace")
    if kind != "JsonConverter":
        return value
    try:
        document = json.loads(value)
    except ValueError:
        return value
    if case.config.get("value.converter.schemas.enable") == "true":
        document = document["payload"]
    return _frozen(document)


def _frozen(value: Any) -> Any:
    """Make a document that can be counted; a member that is null or a default is as good as none.

    Input has doubles for ``f32``, which its schema says is a float.
    """
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if (k, v) != ("with_default", "none")}
        shown = {k: float(np.float32(v)) if k == "f32" else v for k, v in value.items()}
        return tuple(sorted((k, _frozen(v)) for k, v in shown.items() if v is not None))
    if isinstance(value, list):
        return _listed(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _listed(value: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(_frozen(item) for item in value)
