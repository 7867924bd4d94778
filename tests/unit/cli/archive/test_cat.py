from __future__ import annotations

import json

import pytest
from tests.support.archive_builder import (
    FIRST_MS,
    Built,
    ObjectPlan,
    PartitionPlan,
    build_archive,
    partition,
    records,
)
from tests.support.invoke import Cli

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.batch.layout import Record
from kafkeep.store.memory import MemoryStore


@pytest.fixture
def cat(cli: Cli, address: str) -> CatLines:
    return CatLines(cli, address)


class CatLines:
    """Runs ``kafkeep cat`` on the test's archive."""

    def __init__(self, cli: Cli, address: str) -> None:
        self.cli = cli
        self._address = address

    def __call__(self, *arguments: str, code: int = 0) -> list[dict[str, object]]:
        assert self.cli.run("cat", "--archive", self._address, *arguments) == code, self.cli.err
        return [json.loads(line) for line in self.cli.out.splitlines()] if code == 0 else []

    def text(self, *arguments: str) -> bytes:
        assert self.cli.run("cat", "--archive", self._address, *arguments) == 0, self.cli.err
        return self.cli.out

    def offsets(self, *arguments: str) -> list[tuple[object, object]]:
        return [(line["partition"], line["offset"]) for line in self(*arguments)]


def build(store: MemoryStore, rows: list[Record], **plan: object) -> None:
    one = ObjectPlan(records=rows, **plan)  # type: ignore[arg-type]
    build_archive(store, {"t": [PartitionPlan(objects=[one])]})


def test_cat_prints_every_record_by_partition_and_offset(cat: CatLines, built: Built) -> None:
    found = cat.offsets("-t", "orders", "--incarnation", "1")
    assert found == [(0, n) for n in range(250)] + [(1, n) for n in range(10, 60)]


def test_cat_takes_the_newest_incarnation(cat: CatLines, built: Built) -> None:
    assert cat.offsets("-t", "orders") == [(0, n) for n in range(20)]
    cat("-t", "orders", "--incarnation", "3", code=10)


def test_cat_writes_kcat_names(cat: CatLines, store: MemoryStore) -> None:
    build(store, [Record(7, 123, b"k", b"v", [(b"a", b"1"), (b"a", None)])])
    assert cat() == [
        {
            "topic": "t",
            "partition": 0,
            "offset": 7,
            "tstype": "create",
            "ts": 123,
            "headers": ["a", "1", "a", None],
            "key": "k",
            "payload": "v",
        }
    ]


def test_null_empty_and_binary_stay_apart(cat: CatLines, store: MemoryStore) -> None:
    build(
        store,
        [Record(0, 1, None, b""), Record(1, 1, b"", None), Record(2, 1, b"\xff", b"\xfe\x00")],
    )
    first, second, third = cat()
    assert (first["key"], first["payload"]) == (None, "")
    assert (second["key"], second["payload"]) == ("", None)
    assert (third["key_b64"], third["payload_b64"]) == ("/w==", "/gA=")
    assert "key" not in third
    assert "payload" not in third


def test_binary_headers_are_printed_whole(cat: CatLines, store: MemoryStore) -> None:
    build(store, [Record(0, 1, None, None, [(b"n", b"\xff"), (b"m", None)])])
    assert cat()[0]["headers_b64"] == ["bg==", "/w==", "bQ==", None]


@pytest.mark.parametrize(
    ("offset", "first"), [("beginning", 0), ("245", 245), ("end", 250), ("-3", 247), ("-999", 0)]
)
def test_cat_begins_at_the_requested_offset(
    cat: CatLines, built: Built, offset: str, first: int
) -> None:
    args = ("-t", "orders", "--incarnation", "1", "-p", "0", "-o", offset)
    assert cat.offsets(*args) == [(0, n) for n in range(first, 250)]


def test_cat_stops_after_the_count(cat: CatLines, built: Built) -> None:
    args = ("-t", "orders", "--incarnation", "1", "-o", "95", "-c", "12")
    assert cat.offsets(*args) == [(0, n) for n in range(95, 107)]
    assert cat.offsets("-c", "0") == []


def test_cat_picks_by_record_time(cat: CatLines, built: Built) -> None:
    args = ("--from", str(FIRST_MS + 20), "--until", str(FIRST_MS + 25))
    assert cat.offsets("-t", "events", *args) == [(0, n) for n in range(20, 25)]


def test_cat_reads_only_the_frames_it_needs(
    cat: CatLines, store: MemoryStore, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int, int]] = []
    get_range = store.get_range
    monkeypatch.setattr(
        store, "get_range", lambda *a: read.append(a) or get_range(*a)  # type: ignore[func-returns-value]
    )  # fmt: skip
    cat("-t", "orders", "--incarnation", "1", "-p", "0", "-o", "-1")
    (asked,) = read
    last = built.entries[1]
    assert asked == (last.key, last.index[-1].position, last.size_bytes)


def test_aborted_records_are_left_out_unless_asked_for(cat: CatLines, store: MemoryStore) -> None:
    build(store, records(0, 30), aborted=(OffsetRange(10, 20),))
    assert cat.offsets() == [(0, n) for n in range(30) if not 10 <= n < 20]
    assert len(cat("--aborted")) == 30


def test_records_outside_of_the_entry_are_left_out(cat: CatLines, store: MemoryStore) -> None:
    build(store, records(0, 30), range=OffsetRange(5, 28))
    assert cat.offsets() == [(0, n) for n in range(5, 28)]


def test_format_understands_kcats_tokens(cat: CatLines, store: MemoryStore) -> None:
    build(store, [Record(3, 9, b"k", None, [(b"a", b"1"), (b"b", None)])])
    text = cat.text("-f", r"%t %p %o %T %k %K %s %S [%h] 100%%\t\x41\n")
    assert text == b"t 0 3 9 k 1 NULL -1 [a=1,b=NULL] 100%\tA\n"


@pytest.mark.parametrize(
    "wrong", [("-f", "%q"), ("-f", "100%"), ("-f", r"\y"), ("-o", "first"), ("--from", "noon")]
)
def test_what_cannot_be_understood_is_a_usage_error(
    cat: CatLines, built: Built, wrong: tuple[str, str]
) -> None:
    cat(*wrong, code=2)


def test_cat_names_the_damaged_object(cat: CatLines, store: MemoryStore, built: Built) -> None:
    store.delete(built.entries[0].key)
    cat("-t", "orders", "--incarnation", "1", code=13)
    assert built.entries[0].key in cat.cli.err


def test_several_logs_need_a_name(cat: CatLines, store: MemoryStore, built: Built) -> None:
    build_archive(store, {"logs": [partition(0, 10)]}, name="other")
    cat(code=14)
    assert "--name" in cat.cli.err
    assert len(cat("--name", "other")) == 10


def test_cat_prints_a_format_that_is_not_utf8_as_it_was_given(
    cat: CatLines, store: MemoryStore
) -> None:
    build(store, [Record(7, 123, b"k", b"v", [])])
    assert cat.text("-f", "\udcff%o\\n") == b"\xff7\n"


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (["-p", "2"], (10, "no topic asked for has a partition 2\nhint: Partitions count from 0")),
        (
            ["-t", "events", "-p", "1"],
            (10, "hint: Partitions count from 0, and there are 1 of events.\n"),
        ),
        (["--incarnation", "9"], (10, "has no incarnation 9 in the archive\nhint: It has: 1.\n")),
        (
            ["--from", "2024-01-02", "--until", "2024-01-01"],
            (2, "from must be before until\nhint: "),
        ),
        (["--format", "%s", "--output", "json"], (2, "--output json")),
    ],
)
def test_cat_refuses_what_would_print_nothing_or_something_else(
    cli: Cli, address: str, built: Built, flags: list[str], refusal: tuple[int, str]
) -> None:
    code, said = refusal
    assert cli.run("cat", "--archive", address, *flags) == code
    assert said in cli.err.replace("\\n", "\n") and "hint" in cli.err and not cli.out
