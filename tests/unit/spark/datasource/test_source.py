"""An archive as a DataFrame, as far as the driver plans it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.archive_builder import FIRST_MS, build_archive, partition

from kafkeep.archive.log import CommitLog
from kafkeep.errors import NoSuchArchiveError, UsageError
from kafkeep.spark.datasource import source
from kafkeep.spark.datasource.source import KafkeepReader, task_count
from kafkeep.store.local.store import LocalStore

LATER_MS = FIRST_MS + 10_000_000


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """An archive with two logs, of which one begins later."""
    store = LocalStore(tmp_path)
    build_archive(store, {"orders": [partition(0, 10)]})
    CommitLog.open(store, "later", writer="w", now_ms=lambda: LATER_MS)
    return str(tmp_path)


def topics(folder: str, **options: str) -> list[str]:
    planned = KafkeepReader({"path": folder, "numpartitions": "1", **options}).partitions()
    return [piece.topic for one in planned for piece in one.value]


@pytest.mark.parametrize("at_ms", [FIRST_MS + 5_000_000, LATER_MS + 1])
def test_a_time_before_one_of_the_logs_began_is_read_from_the_others(
    folder: str, at_ms: int
) -> None:
    assert topics(folder, at=str(at_ms)) == ["orders"]


def test_a_time_before_all_logs_is_refused(folder: str) -> None:
    with pytest.raises(NoSuchArchiveError, match="begins later"):
        topics(folder, at=str(FIRST_MS - 1))


def test_a_commit_is_of_the_log_that_is_named(folder: str) -> None:
    assert topics(folder, name="backup", commit="0") == []
    assert topics(folder, name="backup", commit="1") == ["orders"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"topic": "orders"}, r"unknown option topic: did you mean topics\?"),
        ({"subscribe": "orders"}, "unknown option subscribe: there are path, topics"),
        ({"topics": "orders,nope"}, "no topic nope; it holds: orders"),
        ({"name": "backup", "commit": "banana"}, "commit must be a whole number of at least 0"),
        ({"name": "backup", "commit": "-1"}, "commit must be a whole number of at least 0"),
        ({"incarnation": "0"}, "incarnation must be a whole number of at least 1"),
        ({"numpartitions": "0"}, "numPartitions must be a whole number of at least 1"),
    ],
)
def test_what_would_be_ignored_or_cannot_be_is_refused_by_name(
    folder: str, option: dict[str, str], said: str
) -> None:
    with pytest.raises((UsageError, NoSuchArchiveError), match=said):
        topics(folder, **option)


def test_a_large_archive_has_a_task_for_every_128_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "usable_cores", lambda: 2)
    assert task_count([1000]) == 6
    assert task_count([128 << 20] * 100) == 100
