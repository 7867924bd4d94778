"""Directories of the real sink, for the records it got."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from tests.support.golden.cases import GoldenCase, GoldenRecord, load_case
from tests.support.partition_rows import make_rows, struct_column

from kafkeep.errors import RecordError
from kafkeep.options.option import parse_group
from kafkeep.options.sink.partitioners import PartitionOptions
from kafkeep.records.partitioners.partitioners import RowDirectories, open_partitioner
from kafkeep.records.schema import Field, Kind, Schema

PRODUCT = Schema(
    kind=Kind.STRUCT,
    fields=(Field("product", Schema(kind=Kind.STRING, optional=True)),),
)


def open_options(case: GoldenCase, **more: str) -> PartitionOptions:
    given = {key.replace("_", "."): text for key, text in more.items()}
    return parse_group(PartitionOptions, {**case.config, **given})


def records_of(case: GoldenCase) -> dict[int, list[GoldenRecord]]:
    partitions: dict[int, list[GoldenRecord]] = {}
    for record in case.records:
        partitions.setdefault(record.partition, []).append(record)
    return partitions


def place(options: PartitionOptions, records: list[GoldenRecord]) -> RowDirectories:
    rows = make_rows(
        [record.value for record in records],
        topic=records[0].topic,
        partition=records[0].partition,
        timestamps=[record.timestamp for record in records],
        offsets=[record.offset for record in records],
    )
    if options.is_field:
        payloads = [json.loads(record.value or b"")["payload"] for record in records]
        product = [{"product": payload.get("product")} for payload in payloads]
        rows = replace(rows, value=struct_column(PRODUCT, product))
    return open_partitioner(options).place(rows, at_ms=0)


@pytest.mark.parametrize("number", ["03", "05", "07", "11", "25", "28", "43"])
def test_records_go_where_the_real_sink_put_them(number: str) -> None:
    case = load_case(number)
    options = open_options(case, partition_path_encoding="raw")
    ours: Counter[str] = Counter()
    starts = {}
    for partition, records in records_of(case).items():
        placed = place(options, records)
        end = case.committed[records[0].topic][partition]
        for record, code in zip(records, placed.codes.tolist(), strict=True):
            starts[partition, record.offset] = placed.paths[code]
            if end is not None and record.offset < end:
                ours[placed.paths[code]] += 1
    theirs: Counter[str] = Counter()
    for key, data in case.objects.items():
        name = key.removeprefix(f"topics/{case.records[0].topic}/")
        directory, _, file = name.rpartition("/")
        _, partition_text, start = file.split(".")[-2].rsplit("+", 2)
        assert starts[int(partition_text), int(start)] == directory
        theirs[directory] += 1 if case.config["flush.size"] == "1" else data.count(b"\n")
    assert theirs
    assert ours == theirs


def test_values_that_would_change_the_path_are_escaped_in_the_real_case() -> None:
    case = load_case("07")
    paths = {path for r in records_of(case).values() for path in place(open_options(case), r).paths}
    assert all("/" not in path and path != "product=" for path in paths)
    assert {"product=A%2FV Cable", "product=%empty", "product=null"} <= paths


@pytest.mark.parametrize(
    ("number", "why"), [("04b", "is not a time"), ("04c", "'timestamp' does not exist")]
)
def test_the_record_that_stopped_the_real_sink_is_named(number: str, why: str) -> None:
    case = load_case(number)
    options = open_options(case)
    records = records_of(case)[0]
    with pytest.raises(RecordError, match=rf"-0 offset 9: error encoding partition: .*{why}"):
        place(options, records)
    placed = place(options, records[:9])
    assert placed.paths[placed.codes[0]] == "year=2024/month=12/day=03/hour=09"


def test_schemaless_values_have_fields_though_the_real_sink_fails() -> None:
    case = load_case("07b")
    for records in records_of(case).values():
        rows = make_rows([record.value for record in records])
        placed = open_partitioner(open_options(case)).place(rows, at_ms=0)
        wanted = [f"product={json.loads(r.value or b'')['product']}" for r in records]
        assert [placed.paths[code] for code in placed.codes] == wanted
