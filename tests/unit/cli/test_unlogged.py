"""A bucket of the real sink, without a log: what the commands that look say of it."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest
from tests.support.archive_builder import Built
from tests.support.golden.cases import GoldenCase, load_case
from tests.support.invoke import Cli

from kafkeep.store.memory import MemoryStore

KEYS = "topics/t/partition=0/t+0+"


def put(store: MemoryStore, case: GoldenCase) -> GoldenCase:
    for key, body in case.objects.items():
        store.put_new(key, body)
    return case


@pytest.fixture
def golden(store: MemoryStore) -> GoldenCase:
    """Values, keys and headers of three partitions, ten records a file."""
    return put(store, load_case("20"))


def values_of(case: GoldenCase) -> dict[str, int]:
    """Rows of each object of values, counted by other libraries."""
    keys = [k for k in case.objects if ".keys." not in k and ".headers." not in k]
    return {key: len(case.rows(key).rows) for key in keys}


def test_ls_shows_what_names_tell(cli: Cli, address: str, golden: GoldenCase) -> None:
    found = cli.document("ls", "--archive", address)["objects"]
    assert {o["key"]: o["size_bytes"] for o in found} == {
        key: len(body) for key, body in golden.objects.items()
    }
    for one in found:
        assert one["key"].split("+")[1:2] == [str(one["partition"])]
        assert int(one["key"].split("+")[2][:10]) == one["start"]
    assert cli.run("ls", "--archive", address, "--long", "--partition", "1") == 0
    assert b"headers" in cli.out and b"partition=0" not in cli.out


def test_info_and_du_add_up(cli: Cli, address: str, golden: GoldenCase) -> None:
    document = cli.document("info", "--archive", address)
    (topic,) = document["topics"]
    total = sum(map(len, golden.objects.values()))
    assert (topic["objects"], topic["stored_bytes"]) == (len(golden.objects), total)
    assert topic["beside"] == ["headers", "keys"] and topic["formats"] == ["json"]
    assert document["logs"] == [] and "no log" in document["note"]
    usage = cli.document("du", "--archive", address)
    assert usage["data_bytes"] == usage["total_bytes"] == total
    assert usage["topics"][0]["records"] is None
    for verb in ("info", "du"):
        assert cli.run(verb, "--archive", address) == 0
        assert topic["topic"].encode() in cli.out
    assert cli.run("info", "--archive", address, "--topic", topic["topic"]) == 0
    assert b"last object from" in cli.out
    assert cli.run("info", "--archive", address, "--topic", "nothing") == 10


def test_cat_prints_the_records_that_were_in_kafka(
    cli: Cli, address: str, golden: GoldenCase
) -> None:
    told = ("--set", "key.converter=org.apache.kafka.connect.storage.StringConverter")
    assert cli.run("cat", "--archive", address, *told) == 0
    lines = [json.loads(line) for line in cli.out.splitlines()]
    assert len(lines) == sum(values_of(golden).values())
    there = {(r.partition, r.offset): r for r in golden.records}
    known = [line for line in lines if line["offset"] >= 0]
    assert len(known) > len(lines) / 2
    for line in known:
        record = there[line["partition"], line["offset"]]
        assert record.key is not None and record.value is not None
        assert line["key"] == record.key.decode()
        assert json.loads(line["payload"]) == json.loads(record.value)
        assert line["headers"][::2] == [name for name, _ in record.headers]


def test_cat_reads_no_more_than_is_asked_for(
    cli: Cli, address: str, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 1000, 10):
        lines = b"".join(b'{"n":%d}\n' % n for n in range(start, start + 10))
        store.put_new(f"{KEYS}{start:010d}.json", lines)
    read = Counter[str]()
    get = MemoryStore.get_range

    def counted(self: MemoryStore, key: str, start: int, end: int) -> bytes:
        read[key] += 1
        return get(self, key, start, end)

    monkeypatch.setattr(MemoryStore, "get_range", counted)
    assert cli.run("cat", "--archive", address, "--count", "3", "--format", "%o %s\n") == 0
    assert cli.out == b'0 {"n":0}\n1 {"n":1}\n2 {"n":2}\n'
    assert len(read) <= 4
    read.clear()
    assert cli.run("cat", "--archive", address, "-o", "985", "--format", "%s\n") == 0
    shown = [json.loads(line)["n"] for line in cli.out.splitlines()]
    assert shown == [985, 986, 987, 988, 989, *range(990, 1000)] and len(read) == 2
    read.clear()
    assert cli.run("cat", "--archive", address, "--format", "%s\n") == 0
    assert [json.loads(line)["n"] for line in cli.out.splitlines()] == list(range(1000))
    assert cli.run("cat", "--archive", address, "-o", "-5", "--format", "%s\n") == 0
    assert json.loads(cli.out.splitlines()[-1]) == {"n": 999}


def test_cat_joins_directories_that_reach_over_many_objects(
    cli: Cli, address: str, store: MemoryStore
) -> None:
    for n in range(40):  # one directory begins first and ends last: all is one window
        store.put_new(f"topics/t/x=b/t+0+{n * 2 + 1:010d}.json", b'{"n":%d}\n' % (n * 2 + 1))
    slow = b"".join(b'{"n":%d}\n' % n for n in range(0, 80, 2))
    store.put_new("topics/t/x=a/t+0+0000000000.json", slow)
    assert cli.run("cat", "--archive", address, "--format", "%s\n") == 0
    assert sorted(json.loads(line)["n"] for line in cli.out.splitlines()) == list(range(80))


def test_cat_refuses_what_only_a_log_knows(cli: Cli, address: str, golden: GoldenCase) -> None:
    for flags in (["--incarnation", "1"], ["--aborted"], ["--from", "2024-01-01"]):
        assert cli.run("cat", "--archive", address, *flags) == 2
        assert flags[0] in cli.err
    timed = ("--set", "timestamp.extractor=RecordField", "--set", "timestamp.field=nope")
    assert cli.run("cat", "--archive", address, "--from", "2024-01-01", *timed) == 0


def test_options_for_unlogged_objects_are_refused_where_there_is_a_log(
    cli: Cli, address: str, built: Built
) -> None:
    for verb in ("cat", "info", "ls", "du", "verify"):
        assert cli.run(verb, "--archive", address, "--set", "topics.dir=x") == 2
        assert "has a log" in cli.err


def test_verify_counts_and_says_that_digests_do_not_exist(
    cli: Cli, address: str, golden: GoldenCase, tmp_path: object
) -> None:
    report = cli.document("verify", "--archive", address, "--deep")
    assert report["records"] == sum(values_of(golden).values())
    assert report["objects"] == len(golden.objects) and report["intact"]
    assert (
        report["findings"][0]["kind"] == "no-log" and "digests" in report["findings"][0]["message"]
    )
    assert cli.run("verify", "--archive", address, "--report", f"{tmp_path}/r.html") == 0
    assert b"readable" in cli.out and b"intact" not in cli.out
    assert cli.run("verify", "--archive", address, "--against", "localhost:1", "--set", "a=b") == 2
    assert "--set cannot be combined with --against" in cli.err


def test_verify_names_objects_that_do_not_decode_or_agree(
    cli: Cli, address: str, store: MemoryStore
) -> None:
    store.put_new(f"{KEYS}0000000000.json.gz", b"no gzip")
    store.put_new(f"{KEYS}0000000009.json", b'{"n":9}\n')
    assert cli.run("cat", "--archive", address, "--format", "%s\n") == 13
    assert cli.out == b'{"n":9}\n' and "t+0+0000000000.json.gz" in cli.err
    store.put_new(f"{KEYS}0000000005.json", b'{"n":5}\n{"n":\n')
    store.put_new("topics/t/notes.txt", b"")
    for flags in ((), ("--deep",)):
        report = cli.document("verify", "--archive", address, *flags, code=13)
        found = {f["key"].rpartition("/")[2]: f["kind"] for f in report["findings"]}
        said = {f["key"].rpartition("/")[2]: f["message"] for f in report["findings"]}
        assert found["t+0+0000000000.json.gz"] == "undecodable"
        assert found["notes.txt"] == "orphan"
        assert "line 2 is not JSON" in said["t+0+0000000005.json"]


@pytest.mark.parametrize("name", ["json", "json.gz", "avro", "parquet"])
def test_verify_of_a_bucket_without_a_log_calls_no_garbage_readable(
    cli: Cli, address: str, store: MemoryStore, name: str
) -> None:
    garbage = b"\n".join(b"garbage %d" % n for n in range(100))
    store.put_new(f"{KEYS}0000000000.{name}", gzip.compress(garbage) if "gz" in name else garbage)
    store.put_new(f"{KEYS}0000000200.json", b'{"n":9}\n')
    report = cli.document("verify", "--archive", address, code=13)
    assert [f["kind"] for f in report["findings"] if f["severity"] == "damage"] == ["undecodable"]


def test_verify_names_keys_that_do_not_fit_their_values(
    cli: Cli, address: str, store: MemoryStore
) -> None:
    case = put(store, load_case("20j"))  # a letter's headers are there, its value is not
    report = cli.document("verify", "--archive", address, code=13)
    damaged = [f for f in report["findings"] if f["severity"] == "damage"]
    assert {f["kind"] for f in damaged} == {"miscounted"}
    assert {f["key"] for f in damaged} <= set(case.objects)


def test_verify_warns_of_records_that_cannot_be_distinguished(
    cli: Cli, address: str, store: MemoryStore
) -> None:
    case = put(store, load_case("19b"))  # keys with the separator inside
    report = cli.document("verify", "--archive", address)
    warned = [f for f in report["findings"] if f["severity"] == "warning"]
    assert {f["kind"] for f in warned} == {"undecodable"}
    assert {f["key"] for f in warned} <= set(case.objects)


def test_a_custom_layout_is_read_from_the_connectors_file(
    cli: Cli, address: str, store: MemoryStore, tmp_path: object
) -> None:
    case = put(store, load_case("23"))
    with open(f"{tmp_path}/sink.json", "w") as file:
        json.dump({"name": case.connector, "config": dict(case.config)}, file)
    told = ("--connector-config", f"{tmp_path}/sink.json")
    assert cli.run("verify", "--archive", address) == 10
    assert "topics.dir" in cli.err
    report = cli.document("verify", "--archive", address, *told)
    assert report["records"] == sum(values_of(case).values())
    assert len(cli.document("ls", "--archive", address, *told)["objects"]) == len(case.objects)
