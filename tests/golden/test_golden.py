"""Archives that were written once must be readable for ever, or be refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkeep.archive.entry import IndexPoint, OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import check_log, list_logs, load_view
from kafkeep.errors import DamagedError, NewerFormatError
from kafkeep.store.memory import MemoryStore

FOLDER = Path(__file__).parent
ORDERS = PartitionId("orders", 1, 0)
ORDERS_2 = PartitionId("orders", 2, 0)


def load(name: str) -> MemoryStore:
    store = MemoryStore()
    folder = FOLDER / name
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.put_new(path.relative_to(folder).as_posix(), path.read_bytes())
    return store


@pytest.mark.parametrize("name", ["1/whole", "1/damaged-checkpoint"])
def test_a_stored_archive_reads_as_before(name: str) -> None:
    store = load(name)
    assert list_logs(store) == ["backup"]
    view = load_view(store, "backup")
    assert (view.commit, view.at_ms, view.state.epoch) == (12, 1_733_220_012_000, 2)
    assert view.positions[ORDERS] == 50
    assert view.positions[ORDERS_2] == 5
    assert view.groups == {"größe": {PartitionId("events", 1, 1): 1}}
    assert [e.range for e in view.entries("orders", 1)] == [
        OffsetRange(n * 10 + 2, n * 10 + 9) for n in range(5)
    ]
    assert view.entries("orders", 2)[0].index[1] == IndexPoint(2, 600, 2, 0, 1_733_220_000_000)
    assert [g.range.start for g in view.gaps] == [0, 10, 20, 30, 40]
    assert sorted(view.topics) == [("events", 1), ("orders", 1), ("orders", 2)]
    assert view.topics["orders", 1].configs == {"cleanup.policy": "compact"}
    intent = load_view(store, "backup", commit=9).intent
    assert intent is not None
    assert intent.options == {"format": "segment", "level": 3}


def test_a_stored_archive_is_found_whole() -> None:
    assert check_log(load("1/whole"), "backup") == []


def test_a_stored_archive_can_be_gone_on_with() -> None:
    log = CommitLog.open(load("1/whole"), "backup", writer="w", now_ms=lambda: 0)
    assert (log.state.commit, log.state.epoch) == (13, 3)


@pytest.mark.parametrize("name", ["2/whole", "checksums/whole"])
def test_a_stored_archive_whose_offsets_were_moved_reads_as_before(name: str) -> None:
    store = load(name)
    assert check_log(store, "backup") == []
    view = load_view(store, "backup")
    assert view.positions[ORDERS] == 60
    assert ORDERS_2 not in view.positions
    entries = view.entries("orders")
    assert [e.range for e in entries] == [
        OffsetRange(2, 9), OffsetRange(12, 19), OffsetRange(22, 29), OffsetRange(32, 35),
        OffsetRange(35, 50),
    ]  # fmt: skip
    assert entries[3].stored.range == OffsetRange(32, 39)
    assert entries[4].key == "topics/orders~3/partition=0/orders+0+0000000035.x"
    assert [g.range.start for g in view.gaps] == [0, 10, 20, 30, 50]
    old = load_view(store, "backup", commit=12)
    assert [e.range.start for e in old.entries("orders", 1)] == [2, 12, 22, 32, 42]
    log = CommitLog.open(store, "backup", writer="w", now_ms=lambda: 0)
    assert log.state.generations == {("orders", 1): 3, ("orders", 2): 4}


def test_a_stored_commit_with_a_flipped_bit_is_refused_by_its_checksum() -> None:
    store = load("checksums/flipped")
    with pytest.raises(DamagedError, match=r"0012\.json is damaged: its checksum does not match"):
        load_view(store, "backup")
    assert load_view(store, "backup", commit=11).positions[ORDERS] == 50


def test_an_archive_of_the_future_is_refused_by_its_version() -> None:
    with pytest.raises(NewerFormatError, match="version 999 needs a newer kafkeep"):
        load_view(load("1/future"), "backup")
    with pytest.raises(NewerFormatError):
        CommitLog.open(load("1/future"), "backup", writer="w", now_ms=lambda: 0)


@pytest.mark.parametrize("name", ["1/damaged-commit", "1/missing-commit"])
def test_damage_is_named_and_what_came_before_it_stays_readable(name: str) -> None:
    store = load(name)
    findings = [f for f in check_log(store, "backup") if f.fatal]
    assert [f.key[-25:] for f in findings] == ["00000000000000000005.json"]
    assert load_view(store, "backup", commit=4).commit == 4
    with pytest.raises(DamagedError, match="0005"):
        load_view(store, "backup", commit=6)
