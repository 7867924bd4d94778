from __future__ import annotations

import pytest

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.keys import (
    checkpoint_key,
    checkpoints_after,
    data_key,
    log_key,
    padded_again,
    parse_checkpoint_key,
)
from kafkeep.archive.names import (
    check_key,
    check_log_name,
    check_topic_name,
    connector_log,
    parse_folder,
)
from kafkeep.archive.read_commits import commits_of
from kafkeep.errors import UsageError
from kafkeep.store.memory import MemoryStore


def test_data_key_is_named_as_confluent_names_it() -> None:
    key = data_key(PartitionId("orders", 1, 3), 42, ".log.zst")
    assert key == "topics/orders/partition=3/orders+3+0000000042.log.zst"


def test_data_key_of_a_recreated_topic_lies_in_a_folder_of_its_own() -> None:
    key = data_key(PartitionId("orders", 2, 3), 42, ".json")
    assert key == "topics/orders~2/partition=3/orders+3+0000000042.json"


@pytest.mark.parametrize("start", [0, 9_999_999_999, 12_345_678_901])
def test_padding_again_gives_another_key_of_the_same_offset(start: int) -> None:
    key = data_key(PartitionId("orders", 1, 0), start, ".log.zst")
    head, _, tail = key.rpartition("+")
    assert padded_again(key) == f"{head}+0{tail}"


def test_data_key_of_the_longest_topic_name_fits_a_file_system() -> None:
    pid = PartitionId("t" * 249, 1, 100)
    key = data_key(pid, 2**62, ".log.zst")
    assert max(map(len, key.split("/"))) <= 255
    other = data_key(PartitionId("t" * 248 + "u", 1, 100), 2**62, ".log.zst")
    assert other.rpartition("/")[2] != key.rpartition("/")[2]


@pytest.mark.parametrize("name", ["a", "...", "-x", "a.b", "A_b", "x" * 249])
def test_check_topic_name_takes_what_kafka_takes(name: str) -> None:
    assert check_topic_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\n", "a~2"])
def test_check_topic_name_refuses_what_kafka_refuses(name: str) -> None:
    with pytest.raises(ValueError, match="topic name"):
        check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "restores", "a\n", "x" * 201])
def test_check_log_name_refuses_what_would_leave_its_folder(name: str) -> None:
    with pytest.raises(ValueError, match="valid log name"):
        check_log_name(name)


@pytest.mark.parametrize(
    "key", ["/etc/passwd", "topics/../../x", "a//b", "a/./b", "_kafkeep/x/log/0", "a\\b", "a\nb"]
)
def test_check_key_refuses_keys_that_lead_out_of_the_data(key: str) -> None:
    with pytest.raises(ValueError, match="data object"):
        check_key(key)


@pytest.mark.parametrize("letter", ["\u3000", "\xa0", "\u200d", "\xad", "\u200f", "\ue000"])
def test_check_key_accepts_invisible_characters(letter: str) -> None:
    key = f"topics/t/city=a{letter}b/t+0+0000000000.json"
    assert check_key(key) == key


@pytest.mark.parametrize("folder", ["orders~1", "orders~02", "~2", "a~b", "a~2~3", ".."])
def test_parse_folder_refuses_what_no_topic_has(folder: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        parse_folder(folder)


def test_log_keys_sort_in_the_order_of_commits() -> None:
    keys = [log_key("backup", n) for n in (0, 9, 10, 10**9)]
    assert keys == sorted(keys)
    commits = commits_of(MemoryStore(), "backup")
    assert [commits.number(key) for key in keys] == [0, 9, 10, 10**9]
    assert [commits.key(n) for n in (0, 9, 10, 10**9)] == keys
    assert commits.number("_kafkeep/backup/log/readme.txt") is None


def test_checkpoint_keys_sort_newest_first() -> None:
    keys = [checkpoint_key("backup", n) for n in (10**9, 128, 64, 0)]
    assert keys == sorted(keys)
    assert [parse_checkpoint_key(key) for key in keys] == [10**9, 128, 64, 0]
    assert checkpoint_key("backup", 65) < checkpoints_after("backup", 64)
    assert checkpoints_after("backup", 64) < checkpoint_key("backup", 64)


@pytest.mark.parametrize("name", ["s3-sink", "orders.to_s3", "_x", "a" * 200])
def test_a_connectors_log_has_its_name(name: str) -> None:
    assert connector_log(f" {name} ") == name


def test_names_that_a_log_cannot_have_get_logs_of_their_own() -> None:
    names = [
        "my sink",
        "my  sink",
        "my-sink",
        "größer",
        "grösser",
        "倉庫",
        ".",
        "..",
        "a->b",
        "?",
    ]
    names += ["restores", "a" * 201, "a" * 202, "x\ud800"]
    logs = [connector_log(name) for name in names]
    assert len(set(logs)) == len(names)
    assert all(check_log_name(log) == log for log in logs)
    assert logs[0].startswith("my-sink-")
    for none in (" ", "a/b"):
        with pytest.raises(UsageError, match="valid connector name"):
            connector_log(none)
