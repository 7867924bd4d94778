from __future__ import annotations

import json

import pytest
from tests.support.archive_builder import (
    FIRST_MS,
    Built,
    ObjectPlan,
    PartitionPlan,
    build_archive,
)
from tests.support.invoke import Cli

from kafkeep.kafka.batch.layout import Record
from kafkeep.store.memory import MemoryStore


def found(cli: Cli, address: str, *arguments: str) -> list[tuple[str, int, int]]:
    assert cli.run("find", "--archive", address, *arguments) == 0, cli.err
    lines = [json.loads(line) for line in cli.out.splitlines()]
    return [(line["topic"], line["partition"], line["offset"]) for line in lines]


def test_find_prints_every_record_with_the_key(cli: Cli, address: str, built: Built) -> None:
    assert found(cli, address, "--key", "key 15", "--incarnation", "1", "-t", "orders") == [
        ("orders", 0, 15),
        ("orders", 1, 15),
    ]
    assert found(cli, address, "-k", "key 15", "-t", "orders,events") == [
        ("events", 0, 15),
        ("orders", 0, 15),
    ]


def test_find_prints_what_cat_prints(cli: Cli, address: str, built: Built) -> None:
    place = ("--archive", address, "-t", "events")
    assert cli.run("cat", *place, "-o", "7", "-c", "1") == 0
    printed = cli.out
    assert cli.run("find", *place, "--header", "n=7") == 0
    assert cli.out == printed
    assert cli.run("find", *place, "--header", "n=7", "-f", "%o %k\\n") == 0
    assert cli.out == b"7 key 7\n"


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        (("--key", "^key 1.$", "--regex"), list(range(10, 20))),
        (("--key", "(?i)KEY 3$", "-E"), [3]),
        (("--header", "n=^2$", "-E"), [2]),
        (("--header", "n", "-c", "3"), [0, 1, 2]),
        (("--key", "hex:6b65792034"), [4]),
        (("--key", "key 4", "--header", "n=4"), [4]),
        (("--header", "n", "--from", str(FIRST_MS + 28)), [28, 29]),
    ],
)
def test_find_takes_patterns_counts_and_times(
    cli: Cli, address: str, built: Built, flags: tuple[str, ...], offsets: list[int]
) -> None:
    got = found(cli, address, "-t", "events", *flags)
    assert [offset for _, _, offset in got] == offsets


def test_objects_outside_of_the_time_are_not_read(
    cli: Cli, address: str, built: Built, store: MemoryStore
) -> None:
    store.delete(built.entries[0].key)
    asked = ("-t", "orders", "--incarnation", "1", "-p", "0", "--key", "key 120")
    assert found(cli, address, *asked, "--from", str(FIRST_MS + 110)) == [("orders", 0, 120)]
    assert cli.run("find", "--archive", address, *asked) == 13


def test_null_keys_and_null_header_values_match_nothing(
    cli: Cli, address: str, store: MemoryStore
) -> None:
    rows = [
        Record(0, 1, None, b"v", [(b"h", None)]),
        Record(1, 1, b"", b"v", [(b"a", b"x"), (b"h", b""), (b"h", b"y")]),
        Record(2, 1, b"\xff\x00", b"v", []),
    ]
    build_archive(store, {"t": [PartitionPlan(objects=[ObjectPlan(records=rows)])]})
    assert found(cli, address, "--key", "") == [("t", 0, 1)]
    assert found(cli, address, "--key", ".*", "-E") == [("t", 0, 1), ("t", 0, 2)]
    assert found(cli, address, "--header", "h=") == [("t", 0, 1)]
    assert found(cli, address, "--header", "h") == [("t", 0, 0), ("t", 0, 1)]
    assert found(cli, address, "--header", "h=y") == [("t", 0, 1)], "one of several is enough"
    assert found(cli, address, "--key", "hex:ff00") == [("t", 0, 2)]


def test_nothing_found_has_a_code_of_its_own(cli: Cli, address: str, built: Built) -> None:
    place = ("find", "--archive", address)
    assert cli.run(*place, "--key", "nobody") == 10 and "no record matches" in cli.err
    assert cli.run(*place) == 2 and "nothing to look for" in cli.err
    assert cli.run(*place, "--header", "=x") == 2
    assert cli.run(*place, "--key", "(", "-E") == 2 and "not a regular expression" in cli.err
    assert cli.run(*place, "--key", "hex:zz") == 2
